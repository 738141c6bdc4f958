"""What `sparkscale doctor` says of a namespace: whether what drivers and Dagster need is there."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.kubernetes import executors
from dagster_sparkscale.clusters.kubernetes.api import Api, Refused
from dagster_sparkscale.clusters.kubernetes.store import MapStore

NEEDED: Mapping[str, Mapping[str, Sequence[str]]] = {
    "dagster.yaml": {
        "pods": ("get", "list", "create", "delete", "deletecollection"),
        "pods/log": ("get",),
        "events": ("list",),
        "configmaps": ("get", "list", "create", "update"),
        "secrets": ("get", "list", "create", "patch", "delete"),
        "services": ("create",),
        "serviceaccounts": ("get",),
    },
    "outside.yaml": {"pods/portforward": ("get", "create")},
    "applications.yaml": {"sparkapplications": ("get", "list", "create", "delete")},
}
"""The needed verbs of each resource, by the manifest that grants them."""
_OPERATORS = {("pods", "create")}
"""What an operator does, where there is one."""


def conditions(
    api: Api, accounts: Sequence[str], forwards: bool, applications: str | None = None
) -> Iterator[Condition]:
    """
    Args:
        accounts: the service accounts of drivers and of executors, as far as they are named.
        forwards: whether agents are reached through the API server.
        applications: the group of those by which an operator makes the drivers' pods, if one does.

    Raises:
        ClusterError: nothing can be told; says why.
    """
    MapStore(api).streams()
    try:
        missing = [each for each in accounts if api.get("serviceaccounts", each) is None]
    except Refused:  # its role is missing, as is said below
        missing = []
    # Of one that is not there a list is empty, for who may see any.
    if missing and api.lacks_its_namespace():
        text = f"there is no namespace {api.namespace} at {api.access.url}"
        cure = f"kubectl create namespace {api.namespace}, and apply deploy/kubernetes in it"
        yield Condition("Kubernetes", text, cure)
        return
    yield Condition("Kubernetes", f"{api.access.url}, namespace {api.namespace}")
    needed = {"dagster.yaml": True, "outside.yaml": forwards, "applications.yaml": applications}
    for manifest in (name for name in needed if needed[name]):
        if lacks := _lacking(api, manifest, applications):
            text = f"Dagster may not {', '.join(lacks)} in the namespace {api.namespace}"
            cure = f"apply deploy/kubernetes/{manifest}, bound to the account that Dagster has"
            yield Condition("roles", text, cure)
    for account in missing:
        cure = "apply driver.yaml and executor.yaml of deploy/kubernetes in its namespace, or name "
        cure += "another"
        text = f"there is no service account {api.namespace}/{account}"
        yield Condition("service account", text, cure)
    with contextlib.suppress(ClusterError):  # what may not be listed is told above
        yield from executors.conditions(api)


def _lacking(api: Api, manifest: str, applications: str | None = None) -> list[str]:
    """The rights of a manifest that are missing, such as `create pods`. Everybody may ask that.

    Args:
        applications: the API group of the operator's applications.

    Raises:
        ClusterError: the API server does not say.
    """
    group = f"{applications}:" if manifest == "applications.yaml" else ""
    return [
        f"{verb} {resource}"
        for resource, verbs in NEEDED[manifest].items()
        for verb in verbs
        if not (applications and (resource, verb) in _OPERATORS)
        and not api.may(verb, f"{group}{resource}")
    ]
