"""StandaloneCluster against the master of a real cluster that it did not start."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.local import LocalCluster
from dagster_sparkscale.clusters.standalone.cluster import StandaloneCluster
from tests.clusters.client_mode import ClientModeContract
from tests.clusters.running import see_ended
from tests.leftovers import MARK
from tests.short_lives import EXECUTORS

pytestmark = pytest.mark.spark


class TestStandaloneCluster(ClientModeContract):
    @pytest.fixture(scope="class")
    @classmethod
    def cluster(
        cls, local_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[StandaloneCluster]:
        cluster = StandaloneCluster(
            master=local_cluster._master(),
            # The first is a master that is down: the one that answers counts.
            web_urls=["http://127.0.0.1:9", local_cluster._daemons().addresses()[1]],
            state_dir=str(tmp_path_factory.mktemp("standalone") / "state"),
            spark_conf={"spark.ui.retainedJobs": "10", **EXECUTORS, **local_cluster._access()},
            pass_environment=[MARK],
        )
        yield cluster
        # The session's cluster does not know these, so it would not stop them.
        for name in cluster.store().streams():
            see_ended(cluster, name)


def test_a_master_that_does_not_answer_has_no_capacity(tmp_path: Path) -> None:
    cluster = StandaloneCluster(
        master="spark://127.0.0.1:7", web_urls=["http://127.0.0.1:9"], state_dir=str(tmp_path)
    )
    assert cluster.capacity() is None
