"""SparkApplicationCluster keeps what all cluster managers promise."""

from collections.abc import Iterator

import pytest

from dagster_sparkscale import SparkApplicationCluster
from dev.kubernetes.granted import apply
from dev.kubernetes.running import Cluster
from tests.clusters.kubernetes import test_contract
from tests.clusters.kubernetes.operated import operated

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark]


class TestSparkApplicationCluster(test_contract.TestKubernetesCluster):
    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls, kubernetes: Cluster) -> Iterator[SparkApplicationCluster]:
        cls.kube = kubernetes
        with operated(kubernetes, "contract", "kubeflow") as (cluster, space, _):
            apply(kubernetes, space, "capacity.yaml")
            yield cluster
