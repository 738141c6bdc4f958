"""LocalCluster: the contract on the embedded cluster, and how that cluster is repaired."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from dagster_sparkscale.clusters import processes
from dagster_sparkscale.clusters.base import AgentUnreachable, ClusterError, DriverState
from dagster_sparkscale.clusters.local import LocalCluster
from dagster_sparkscale.clusters.spark_daemons import MARKER
from tests.clusters.client_mode import ClientModeContract, note
from tests.clusters.contract import (
    in_another_process,
    kill,
    newest,
    status,
    stop,
    stream,
    submit,
    wait_running,
)
from tests.waiting import wait_for

pytestmark = pytest.mark.spark


class TestLocalCluster(ClientModeContract):
    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls, local_cluster: LocalCluster) -> Iterator[LocalCluster]:
        yield local_cluster


def daemons(cluster: LocalCluster) -> dict[str, Any]:
    path = Path(cluster.state_dir) / "cluster" / "cluster.json"
    content: dict[str, Any] = json.loads(path.read_text())
    return content


class TestRepair:
    """A stream whose cluster breaks under it goes on, and can still be scaled."""

    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls, local_cluster: LocalCluster) -> Iterator[LocalCluster]:
        submit(local_cluster, stream("tough", "rate.py"))
        wait_running(local_cluster, "tough")
        yield local_cluster
        stop(local_cluster, "tough", graceful=False)

    def test_a_healthy_cluster_is_left_alone(self, cluster: LocalCluster) -> None:
        before = daemons(cluster)
        cluster.prepare()
        assert daemons(cluster) == before

    def test_a_killed_master_comes_back_and_the_stream_can_still_be_scaled(
        self, cluster: LocalCluster
    ) -> None:
        address, app = cluster._master(), newest(cluster, "tough").app_id
        kill(daemons(cluster)["daemons"]["master"]["pid"])
        wait_for("the master to be gone", lambda: cluster.capacity() is None)
        cluster.prepare()
        assert cluster._master() == address
        driver = newest(cluster, "tough")
        assert driver.state is DriverState.RUNNING and driver.app_id == app
        # The driver may not yet have heard of the new master: what was asked of the dead one is
        # lost, so ask until it is heard, as the sensor does.
        for target in (3, 1):

            def asked(target: int = target) -> bool:
                with contextlib.suppress(AgentUnreachable):
                    return cluster.scale(driver, target).registered == target
                return False

            wait_for(f"{target} executors", asked, 120, every=1.0)

    def test_executors_of_a_lost_worker_come_back(self, cluster: LocalCluster) -> None:
        driver = newest(cluster, "tough")
        cluster.scale(driver, 3)
        before = wait_running(cluster, "tough", executors=3)
        batches = before.last_seq
        kill(daemons(cluster)["daemons"]["worker 1"]["pid"])
        lost = {executor.id for executor in before.executors}
        wait_for(
            "other executors in place of the lost",
            lambda: (
                (s := status(cluster, "tough"))
                and s.registered == 3
                and {executor.id for executor in s.executors} != lost
            ),
            120,
        )
        cluster.prepare()
        capacity = cluster.capacity()
        assert capacity is not None and capacity.workers == 2
        wait_for("a batch", lambda: (s := status(cluster, "tough")) and s.last_seq > batches)

    def test_it_outlives_the_process_that_watches_it(self, cluster: LocalCluster) -> None:
        driver = newest(cluster, "tough")
        kill(note(cluster, driver, "driver.json")["supervisor_pid"])
        assert newest(cluster, "tough").state is DriverState.RUNNING
        assert status(cluster, "tough") is not None
        kill(note(cluster, driver, "driver.json")["pid"])
        failed = wait_for(
            "the end", lambda: (d := newest(cluster, "tough")).state is DriverState.FAILED and d
        )
        assert failed and "ended without a trace" in str(failed.exit_reason)


class TestCluster:
    """The embedded cluster itself. A second one, beside that of the session."""

    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
        # A folder with a blank in its name: paths travel through several command lines.
        folder = tmp_path_factory.mktemp("own cluster") / "state"
        cluster = LocalCluster(state_dir=str(folder), workers=1, cores_per_worker=3)
        yield cluster
        cluster.shutdown(force=True)

    def test_before_it_is_started_it_says_so(self, cluster: LocalCluster) -> None:
        assert cluster.capacity() is None
        assert cluster.find("x") is None
        cluster.shutdown()
        with pytest.raises(ClusterError, match="has not been started"):
            cluster._master()

    def test_two_starts_at_once_start_it_once(self, cluster: LocalCluster) -> None:
        starting = [in_another_process(cluster, "cluster.start()") for _ in range(2)]
        assert [each.wait() for each in starting] == [0, 0]
        mark = daemons(cluster)["id"]
        running = processes.carrying(MARKER, lambda value: value == mark)
        assert {each.pid for each in running} == {
            each["pid"] for each in daemons(cluster)["daemons"].values()
        }
        capacity = cluster.capacity()
        assert capacity is not None
        assert (capacity.workers, capacity.cores, capacity.free_cores) == (1, 3, 3)

    def test_nothing_listens_beyond_the_loopback(self, cluster: LocalCluster) -> None:
        for daemon in daemons(cluster)["daemons"].values():
            for connection in psutil.Process(daemon["pid"]).net_connections():
                if connection.status == psutil.CONN_LISTEN:
                    assert connection.laddr.ip in ("127.0.0.1", "::ffff:127.0.0.1"), connection

    def test_the_command_shows_it(self, cluster: LocalCluster) -> None:
        done = command("status", cluster)
        assert done.returncode == 0
        assert cluster._master() in done.stdout
        assert "1 worker(s), 3 of 3 cores free" in done.stdout

    def test_it_is_not_shut_down_under_a_stream(self, cluster: LocalCluster) -> None:
        submit(cluster, stream("kept"))
        done = command("stop", cluster)
        assert done.returncode == 1
        assert re.search(r"streams run on the embedded cluster: kept; stop them first", done.stderr)
        wait_running(cluster, "kept")

    def test_forced_it_leaves_no_process(self, cluster: LocalCluster) -> None:
        mark = daemons(cluster)["id"]
        done = command("stop", cluster, "--force")
        assert done.returncode == 0, done.stderr
        assert newest(cluster, "kept").state is DriverState.STOPPED
        assert not processes.carrying(MARKER, lambda value: value == mark)
        assert cluster.capacity() is None

    def test_it_starts_again_at_the_same_address(self, cluster: LocalCluster) -> None:
        address = cluster._master()
        cluster.start()
        assert cluster._master() == address
        assert cluster.capacity() is not None

    def test_a_taken_port_is_left_for_another_when_nothing_runs(
        self, cluster: LocalCluster
    ) -> None:
        cluster.shutdown()
        address, port = cluster._master(), daemons(cluster)["master_port"]
        with contextlib.closing(socket.socket()) as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", port))
            taken.listen()
            cluster.start()
            assert cluster._master() != address
            assert cluster.capacity() is not None


def command(action: str, cluster: LocalCluster, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "dagster_sparkscale.clusters.local"),
            *(action, "--state-dir", cluster.state_dir, *more),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_number_that_makes_no_sense_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="workers = 0: must be at least 1"):
        LocalCluster(state_dir=str(tmp_path), workers=0).start()


def test_a_worker_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    cluster = LocalCluster(state_dir=str(tmp_path), workers=1, memory_per_worker="nonsense")
    with pytest.raises(ClusterError, match=r"(?s)the worker 1 of the embedded cluster ended.*log"):
        cluster.start()
    cluster.shutdown()
    assert not os.path.exists(tmp_path / "cluster" / "work")
