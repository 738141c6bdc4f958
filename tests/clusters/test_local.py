"""LocalCluster: the contract on the embedded cluster, and how that cluster is repaired."""

import contextlib
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host import processes
from dagster_sparkscale.clusters.host.supervisor import birth
from dagster_sparkscale.clusters.local import LocalCluster
from dagster_sparkscale.clusters.standalone import masters
from dagster_sparkscale.clusters.standalone.spark_daemons import MARKER
from dev.runs import MARK
from tests.clusters.client_mode import ClientModeContract, note
from tests.clusters.running import (
    in_another_process,
    kill,
    newest,
    scale,
    see_to,
    status,
    stream,
    submit,
    wait_running,
)
from tests.files import below
from tests.ports import kept_port
from tests.short_lives import EXECUTORS
from tests.waiting import HANGS, wait_for

pytestmark = pytest.mark.spark


class TestLocalCluster(ClientModeContract):
    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls, local_cluster: LocalCluster) -> Iterator[LocalCluster]:
        yield local_cluster

    def tokens(self, cluster: LocalCluster) -> list[str]:
        return [*super().tokens(cluster), daemons(cluster)["secret"]]

    def test_the_clusters_secret_is_in_its_notes_and_in_drivers_settings_and_in_no_log(
        self, running: LocalCluster
    ) -> None:
        secret, holding = daemons(running)["secret"].encode(), set()
        for path in below(Path(running.state_dir)):
            with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                if secret in path.read_bytes():
                    holding.add(path.name)
        assert holding == {"cluster.json", "spark.properties"}

    def test_the_clusters_secret_does_not_show_on_the_page_of_a_streams_settings(
        self, running: LocalCluster
    ) -> None:
        driver = newest(running, "clicks")
        settings = f"{driver.ui_url}/api/v1/applications/{driver.app_id}/environment"
        for url in (settings, f"{driver.ui_url}/environment/"):
            text = requests.get(url, timeout=HANGS).text
            assert "spark.authenticate.secret" in text
            assert daemons(running)["secret"] not in text


def daemons(cluster: LocalCluster) -> dict[str, Any]:
    path = Path(cluster.state_dir) / "cluster" / "cluster.json"
    content: dict[str, Any] = json.loads(path.read_text())
    return content


@contextlib.contextmanager
def kept_for(cluster: LocalCluster) -> Iterator[None]:
    """The ports of the cluster's master, which is down, are still free when it comes back."""
    note = daemons(cluster)
    with kept_port(note["master_port"]), kept_port(note["web_port"]):
        yield


@pytest.mark.clusters
class TestRepair:
    """A stream whose cluster breaks under it goes on, and can still be scaled."""

    @pytest.fixture(scope="class")
    @classmethod
    def own(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
        own = own_cluster(tmp_path_factory.mktemp("repaired") / "state", workers=2)
        yield own
        own.shutdown(force=True)

    @pytest.fixture
    def cluster(self, own: LocalCluster) -> LocalCluster:
        """A whole cluster, with the stream `tough` that runs with one executor."""
        own.prepare()
        see_to(own, stream("tough", "rate.py"))
        return own

    def test_a_healthy_cluster_is_left_alone(self, cluster: LocalCluster) -> None:
        before = daemons(cluster)
        cluster.prepare()
        assert daemons(cluster) == before

    def test_a_killed_master_comes_back_and_the_stream_can_still_be_scaled(
        self, cluster: LocalCluster
    ) -> None:
        address, app = cluster._master(), newest(cluster, "tough").app_id
        master = daemons(cluster)["daemons"]["master"]
        kill(master["pid"])
        wait_for("the master to be gone", lambda: not processes.lives(master))
        assert cluster.capacity() is None
        with kept_for(cluster):
            cluster.prepare()
        assert cluster._master() == address
        driver = newest(cluster, "tough")
        assert driver.state is DriverState.RUNNING and driver.app_id == app
        # The driver may not yet have heard of the new master: what was asked of the dead one is
        # lost, so ask until it is heard, as the sensor does.
        for target in (3, 1):
            wait_for(
                f"{target} executors",
                lambda target=target: scale(cluster, "tough", target).registered == target,
                every=1.0,
            )

    def test_executors_of_a_lost_worker_come_back(self, cluster: LocalCluster) -> None:
        before = see_to(cluster, stream("tough", "rate.py"), executors=3)
        workers = [
            each["pid"] for name, each in daemons(cluster)["daemons"].items() if name != "master"
        ]
        # One that has executors: they end with it.
        kill(next(pid for pid in workers if psutil.Process(pid).children()))
        lost = {executor.id for executor in before.executors}
        wait_for(
            "other executors in place of the lost",
            lambda: (
                (s := status(cluster, "tough"))
                and s.registered == 3
                and {executor.id for executor in s.executors} != lost
            ),
        )
        cluster.prepare()
        wait_for("two workers", lambda: (c := cluster.capacity()) and c.workers == 2)
        batches = before.last_seq
        wait_for("a batch", lambda: (s := status(cluster, "tough")) and s.last_seq > batches)

    def test_it_outlives_the_process_that_watches_it(self, cluster: LocalCluster) -> None:
        driver = newest(cluster, "tough")
        watcher = note(cluster, driver, "driver.json")["supervisor_pid"]
        kill(watcher)
        wait_for("its watcher to be gone", lambda: birth(watcher) is None)
        assert newest(cluster, "tough").state is DriverState.RUNNING
        batches = cluster.status(driver, HANGS).last_seq
        # It prints each second, which nobody reads any more.
        wait_for("more batches", lambda: cluster.status(driver, HANGS).last_seq > batches + 2)
        kill(note(cluster, driver, "driver.json")["pid"])
        failed = wait_for(
            "the end", lambda: (d := newest(cluster, "tough")).state is DriverState.FAILED and d
        )
        assert failed and "ended without a trace" in str(failed.exit_reason)


def own_cluster(folder: Path, workers: int = 1) -> LocalCluster:
    return LocalCluster(
        state_dir=str(folder),
        workers=workers,
        cores_per_worker=3,
        spark_conf=EXECUTORS,
        pass_environment=[MARK],
    )


@pytest.mark.clusters
class TestCluster:
    """The embedded cluster itself. One of its own, beside that of the session."""

    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
        """It may be down or up; no stream runs."""
        # A folder with a blank in its name: paths travel through several command lines.
        cluster = own_cluster(tmp_path_factory.mktemp("own cluster") / "state")
        yield cluster
        cluster.shutdown(force=True)

    @pytest.fixture
    def up(self, cluster: LocalCluster) -> LocalCluster:
        """It has been started."""
        cluster.prepare()
        return cluster

    @pytest.fixture
    def down(self, cluster: LocalCluster) -> LocalCluster:
        """It has been started once, and shut down."""
        if cluster._daemons().addresses() is None:
            cluster.prepare()
        cluster.shutdown(force=True)
        return cluster

    def test_before_it_is_started_it_says_so(self, tmp_path: Path) -> None:
        cluster = own_cluster(tmp_path / "state")
        assert cluster.capacity() is None
        assert cluster.find("x") is None
        cluster.shutdown()
        with pytest.raises(ClusterError, match="has not been started"):
            cluster._master()

    def test_two_starts_at_once_start_it_once(self, cluster: LocalCluster) -> None:
        cluster.shutdown(force=True)
        code = (
            "from dagster_sparkscale.clusters.standalone import daemons\n"
            f"daemons.START_SECONDS = {HANGS}\n"
            "cluster.prepare()\n"
        )
        starting = [in_another_process(cluster, code) for _ in range(2)]
        assert [each.wait(HANGS) for each in starting] == [0, 0]
        mark = daemons(cluster)["id"]
        running = processes.carrying(MARKER, lambda value: value == mark)
        assert {each.pid for each in running} == {
            each["pid"] for each in daemons(cluster)["daemons"].values()
        }
        capacity = wait_for("the capacity", cluster.capacity)
        assert capacity is not None
        assert (capacity.workers, capacity.cores, capacity.free_cores) == (1, 3, 3)

    def test_nothing_listens_beyond_the_loopback(self, up: LocalCluster) -> None:
        for daemon in daemons(up)["daemons"].values():
            for connection in psutil.Process(daemon["pid"]).net_connections():
                if connection.status == psutil.CONN_LISTEN:
                    assert connection.laddr.ip in ("127.0.0.1", "::ffff:127.0.0.1"), connection

    def test_its_ports_are_none_that_an_outgoing_connection_is_given(
        self, up: LocalCluster
    ) -> None:
        given = Path("/proc/sys/net/ipv4/ip_local_port_range")
        if not given.exists():
            pytest.skip("what this kernel gives is not to be read")
        lowest = int(given.read_text().split()[0])
        if lowest <= 13_000:
            pytest.skip("this machine gives almost all of them")
        for name in ("master_port", "web_port"):
            assert 12_000 <= daemons(up)[name] < lowest

    def test_a_program_without_its_secret_is_not_let_onto_it(
        self, up: LocalCluster, tmp_path: Path
    ) -> None:
        code = (
            "from pyspark import SparkConf, SparkContext\n"
            f"conf = SparkConf().setMaster({up._master()!r}).setAppName('stranger')\n"
            "SparkContext(conf=conf.set('spark.ui.enabled', 'false'))\n"
        )
        web = up._daemons().addresses()[1]

        def apps() -> list[str]:
            content = masters.overview(web, HANGS)
            assert content is not None
            return [app["name"] for app in content["activeapps"] + content["completedapps"]]

        log = tmp_path / "stranger.log"
        with open(log, "wb") as output:
            stranger = subprocess.Popen(
                [sys.executable, "-c", code],
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            wait_for(
                "the master's word",
                lambda: "Failed to connect to master" in log.read_text() or apps(),
                about=log.read_text,
            )
            assert "stranger" not in apps()
        finally:
            os.killpg(stranger.pid, signal.SIGKILL)
            stranger.wait()

    def test_one_that_was_started_without_a_secret_goes_on_without_until_it_is_started_anew(
        self, down: LocalCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        note = Path(down.state_dir) / "cluster" / "cluster.json"

        def without_secret() -> None:
            note.write_text(json.dumps({k: v for k, v in daemons(down).items() if k != "secret"}))

        without_secret()
        with kept_for(down), monkeypatch.context() as patch:
            patch.setattr(secrets, "token_urlsafe", lambda _: "")  # as before there were any
            down.prepare()
        without_secret()
        worker = daemons(down)["daemons"]["worker 1"]
        kill(worker["pid"])
        wait_for("the worker to be gone", lambda: not processes.lives(worker))
        down.prepare()  # returns once the master has taken the new one
        assert "secret" not in daemons(down) and down._access() == {}
        down.shutdown()
        with kept_for(down):
            down.prepare()
        assert down._access()["spark.authenticate.secret"] == daemons(down)["secret"] != ""

    def test_the_command_shows_it(self, up: LocalCluster) -> None:
        done = command("status", up)
        assert done.returncode == 0
        assert done.stdout.startswith(f"state folder {up.state_path()}\n")
        assert up._master() in done.stdout
        assert "1 worker(s), 3 of 3 cores free" in done.stdout

    def test_it_is_not_shut_down_under_a_stream_but_by_force_and_then_leaves_no_process(
        self, up: LocalCluster
    ) -> None:
        submit(up, stream("kept"))
        done = command("stop", up)
        assert done.returncode == 1
        assert re.search(r"streams run on the embedded cluster: kept; stop them first", done.stderr)
        wait_running(up, "kept")

        mark = daemons(up)["id"]
        done = command("stop", up, "--force")
        assert done.returncode == 0, done.stderr
        assert newest(up, "kept").state is DriverState.STOPPED
        assert not processes.carrying(MARKER, lambda value: value == mark)
        assert up.capacity() is None

    def test_it_starts_again_at_the_same_address(self, down: LocalCluster) -> None:
        address = down._master()
        with kept_for(down):
            down.prepare()
        assert down._master() == address
        assert wait_for("the capacity", down.capacity)

    def test_a_taken_port_is_left_for_another_when_nothing_runs(self, down: LocalCluster) -> None:
        address, port = down._master(), daemons(down)["master_port"]
        with kept_port(port), socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", port))
            taken.listen()
            down.prepare()
            assert down._master() != address
            assert wait_for("the capacity", down.capacity)


def command(action: str, cluster: LocalCluster, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "dagster_sparkscale.clusters.local"),
            *(action, "--state-dir", cluster.state_dir, *more),
        ],
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )


def test_a_worker_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    cluster = LocalCluster(
        state_dir=str(tmp_path), workers=1, memory_per_worker="1k", pass_environment=[MARK]
    )
    with pytest.raises(ClusterError, match=r"(?s)the worker 1 of the embedded cluster ended.*log"):
        cluster.prepare()
    cluster.shutdown()
    assert not os.path.exists(tmp_path / "cluster" / "work")
