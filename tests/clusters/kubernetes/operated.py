"""SparkApplications on the cluster of the tests, with the stand-in of their operators."""

from collections.abc import Iterator
from contextlib import contextmanager

from dagster_sparkscale import SparkApplicationCluster
from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.clusters.kubernetes.applications import KINDS
from dev.kubernetes.granted import apply, kubeconfig
from dev.kubernetes.operators.crds import install
from dev.kubernetes.operators.standin import Operator
from dev.kubernetes.running import Cluster
from tests.kubernetes import Object, namespace


@contextmanager
def operated(
    kubernetes: Cluster, what: str, operator: str, watched: bool = True
) -> Iterator[tuple[SparkApplicationCluster, str, Operator]]:
    """A cluster manager with what the manifests in deploy/ grant and nothing more, its namespace,
    and the operator, which is there from the beginning if it is `watched`."""
    install(kubernetes.api)
    with namespace(kubernetes, what) as space:
        stand_in = Operator(kubernetes, space)
        if watched:
            stand_in.start()
        apply(kubernetes, space, "dagster.yaml", "outside.yaml", "driver.yaml", "applications.yaml")
        without_pods(kubernetes, space)
        cluster = SparkApplicationCluster(
            operator=operator,
            spark_version="4.3.0",
            image="spark",
            kubeconfig=str(kubeconfig(kubernetes, space)),
            term_seconds=3,
        )
        try:
            yield cluster, space, stand_in
        finally:
            delete_all(kubernetes, space, operator)
            stand_in.close()


def without_pods(kubernetes: Cluster, space: str) -> None:
    """Take the right to make pods from Dagster, as applications.yaml says one may."""
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{space}/roles/sparkscale-dagster"
    role = kubernetes.api.get(path)
    assert role is not None
    for rule in role["rules"]:
        if rule["resources"] == ["pods"]:
            rule["verbs"].remove("create")
    kubernetes.api.patch(path, {"rules": role["rules"]})


def applications(kubernetes: Cluster, space: str, operator: str) -> list[Object]:
    return kubernetes.api.items(path_of(space, operator))


def path_of(space: str, operator: str, name: str = "", epoch: int = 0) -> str:
    group, _, plural = KINDS[operator].rpartition("/")
    path = f"/apis/{group}/namespaces/{space}/{plural}"
    return f"{path}/{names.of_epoch(name, epoch)}" if name else path


def delete_all(kubernetes: Cluster, space: str, operator: str) -> None:
    """Delete all applications, also such as nobody lets go of."""
    for each in applications(kubernetes, space, operator):
        path = f"{path_of(space, operator)}/{each['metadata']['name']}"
        kubernetes.api.delete(path)
        if kubernetes.api.get(path) is not None:
            kubernetes.api.patch(path, {"metadata": {"finalizers": None}})
