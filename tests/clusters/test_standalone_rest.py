"""StandaloneRestCluster against real masters and workers: drivers run on the workers."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.standalone.rest_cluster import StandaloneRestCluster
from dev.standalone import Standalone
from tests.clusters.contract import ClusterContract
from tests.clusters.rest_mode import bare_python, environment, nothing_left, on, pid_of
from tests.clusters.running import kill, newest, see_ended, stop, stream, submit
from tests.files import below
from tests.waiting import HANGS, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.clusters]


class TestStandaloneRestCluster(ClusterContract):
    @pytest.fixture(scope="class")
    @classmethod
    def standalone(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
        folder = tmp_path_factory.mktemp("standalone")
        of_its_own = tmp_path_factory.mktemp("conf")
        (of_its_own / "spark-defaults.conf").write_text("spark.pyspark.python /no/such/python\n")
        known = {**environment(), "SPARK_CONF_DIR": str(of_its_own)}
        with Standalone(
            folder, cores=12, memory="16g", environment=known, wait_seconds=HANGS
        ) as standalone:
            yield standalone

    @pytest.fixture(scope="class")
    @classmethod
    def cluster(
        cls, standalone: Standalone, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[StandaloneRestCluster]:
        cls.up = standalone
        cluster = on(standalone, tmp_path_factory.mktemp("state") / "state")
        yield cluster
        for name in cluster.store().streams():
            see_ended(cluster, name)

    up: Standalone

    def kill_driver(self, cluster: StandaloneRestCluster, driver: Driver) -> None:
        kill(pid_of(self.up, cluster, driver))

    def nothing_left(self, cluster: StandaloneRestCluster, name: str, epoch: int) -> bool:
        return nothing_left(self.up, name, epoch)

    def tokens(self, cluster: StandaloneRestCluster) -> list[str]:
        return [path.read_text() for path in below(Path(cluster.state_dir), "token")]

    def folders(self, cluster: StandaloneRestCluster) -> list[Path]:
        return [Path(cluster.state_dir), self.up.folder]

    def test_a_worker_needs_nothing_but_spark(self, standalone: Standalone, tmp_path: Path) -> None:
        python = bare_python(tmp_path / "python")
        assert subprocess.run([python, "-c", "import pyspark"], check=False).returncode != 0
        cluster = on(standalone, tmp_path / "state", python)
        try:
            submit(cluster, stream("bare", "in_executors.py"))
            said = f"SAID ['{python}']"
            wait_for("its executors", lambda: said in cluster.logs(newest(cluster, "bare"), 500))
        finally:
            see_ended(cluster, "bare")

    # What is remembered of a driver that a worker runs.

    def test_a_driver_whose_id_nobody_noted_is_known_by_its_mark(
        self, running: StandaloneRestCluster
    ) -> None:
        """As where who has submitted it died before it had the master's answer."""
        before = newest(running, "clicks")
        files = running.store().folder("clicks").submission(before.epoch)
        id = json.loads(files.remote.read_text())["id"]
        files.remote.unlink()
        files.agent.unlink()
        wait_for("it to be found", lambda: newest(running, "clicks") == before)
        assert json.loads(files.remote.read_text())["id"] == id

    def test_a_killed_jvm_is_told_and_its_log_is_kept(self, running: StandaloneRestCluster) -> None:
        driver = newest(running, "clicks")
        python = psutil.Process(pid_of(self.up, running, driver))
        jvm = python.parent().parent()
        assert "DriverWrapper" in " ".join(jvm.cmdline())
        kill(jvm.pid)
        failed = wait_for(
            "the driver to have failed",
            lambda: (d := newest(running, "clicks")).state is DriverState.FAILED and d,
        )
        assert failed and failed.exit_reason == (
            "its JVM was killed, by the kernel, its worker or the master"
        )
        wait_for("Python to end too", lambda: not python.is_running())
        assert running.store().folder("clicks").submission(failed.epoch).log.exists()
        assert len(running.logs(failed, 3).splitlines()) == 3

    def test_nothing_that_it_was_sent_stays_on_the_worker(
        self, running: StandaloneRestCluster
    ) -> None:
        files = running.store().folder("clicks").submission(newest(running, "clicks").epoch)
        folder = self.up.folder / "work" / json.loads(files.remote.read_text())["id"]
        assert list(folder.glob("sparkscale-*/token"))
        stop(running, "clicks", timeout=HANGS)
        assert sorted(path.name for path in folder.iterdir()) == ["stderr", "stdout"]
