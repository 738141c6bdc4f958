"""The whole contract, on a real YARN."""

from collections.abc import Iterator

import pytest

from dagster_sparkscale.clusters.yarn.cluster import YarnCluster
from dev.yarn.rig import Address
from tests.clusters.running import see_ended
from tests.clusters.yarn.cluster_mode import ClusterModeContract, cluster_on

pytestmark = [pytest.mark.spark, pytest.mark.yarn]


class TestYarnCluster(ClusterModeContract):
    @pytest.fixture(scope="class")
    @classmethod
    def cluster(
        cls, yarn: Address, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[YarnCluster]:
        cluster = cluster_on(yarn, tmp_path_factory.mktemp("state") / "state")
        yield cluster
        for name in cluster.store().streams():
            see_ended(cluster, name)
