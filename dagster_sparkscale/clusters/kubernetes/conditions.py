"""What `sparkscale doctor` says of a namespace: whether what drivers and Dagster need is there."""

from collections.abc import Iterator

from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.clusters.kubernetes import rights
from dagster_sparkscale.clusters.kubernetes.api import Api, Refused
from dagster_sparkscale.clusters.kubernetes.store import MapStore


def conditions(
    api: Api, account: str, forwards: bool, applications: str | None = None
) -> Iterator[Condition]:
    """
    Args:
        account: the drivers' service account.
        forwards: whether agents are reached through the API server.
        applications: the group of those by which an operator makes the drivers' pods, if one does.

    Raises:
        ClusterError: nothing can be told; says why.
    """
    MapStore(api).streams()
    try:
        there = api.get("serviceaccounts", account) is not None
    except Refused:  # its role is missing, as is said below
        there = True
    # Of one that is not there a list is empty, for who may see any.
    if not there and api.lacks_its_namespace():
        text = f"there is no namespace {api.namespace} at {api.access.url}"
        cure = f"kubectl create namespace {api.namespace}, and apply deploy/kubernetes in it"
        yield Condition("Kubernetes", text, cure)
        return
    yield Condition("Kubernetes", f"{api.access.url}, namespace {api.namespace}")
    needed = {"dagster.yaml": True, "outside.yaml": forwards, "applications.yaml": applications}
    for manifest in (name for name in needed if needed[name]):
        if lacks := rights.lacking(api, manifest, applications):
            text = f"Dagster may not {', '.join(lacks)} in the namespace {api.namespace}"
            cure = f"apply deploy/kubernetes/{manifest}, bound to the account that Dagster has"
            yield Condition("roles", text, cure)
    if not there:
        cure = "apply deploy/kubernetes/driver.yaml in its namespace, or name another"
        text = f"there is no service account {api.namespace}/{account}"
        yield Condition("service account", text, cure)
