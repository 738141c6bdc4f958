"""What tests of KubernetesCluster share."""

from collections.abc import Iterator

import pytest

from dagster_sparkscale import KubernetesCluster
from dev.kubernetes.granted import apply, kubeconfig
from dev.kubernetes.running import Cluster
from tests.kubernetes import namespace


@pytest.fixture(scope="class")
def space(kubernetes: Cluster) -> Iterator[str]:
    """A namespace with what the manifests in deploy/ grant, and nothing more."""
    with namespace(kubernetes, "mishaps") as made:
        apply(kubernetes, made, "dagster.yaml", "outside.yaml", "driver.yaml")
        yield made


@pytest.fixture(scope="class")
def cluster(kubernetes: Cluster, space: str) -> KubernetesCluster:
    path = str(kubeconfig(kubernetes, space))
    return KubernetesCluster(image="spark", kubeconfig=path, term_seconds=3)
