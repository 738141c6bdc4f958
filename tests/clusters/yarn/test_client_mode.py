"""The whole contract with drivers on this host and executors on a real YARN."""

import sys
from collections.abc import Iterator

import pytest

from dagster_sparkscale.clusters.yarn.client_mode import YarnClientCluster
from dev.runs import MARK
from dev.yarn.rig import Address
from tests.clusters.client_mode import ClientModeContract
from tests.clusters.running import see_ended
from tests.clusters.yarn.conftest import SMALL

pytestmark = [pytest.mark.spark, pytest.mark.yarn]


class TestYarnClientCluster(ClientModeContract):
    @pytest.fixture(scope="class")
    @classmethod
    def cluster(
        cls, yarn: Address, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[YarnClientCluster]:
        cluster = YarnClientCluster(
            resource_managers=[yarn.url],
            hadoop_conf_dir=yarn.conf_dir,
            executor_python=sys.executable,
            state_dir=str(tmp_path_factory.mktemp("state") / "state"),
            spark_conf=SMALL | {"spark.yarn.stagingDir": f"file://{yarn.folder}/staging"},
            pass_environment=[MARK],
        )
        yield cluster
        for name in cluster.store().streams():
            see_ended(cluster, name)
