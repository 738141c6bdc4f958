"""StandaloneCluster against the master of a real cluster that it did not start."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from dagster_sparkscale.clusters.agents import credentials
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AgentUnreachable, AlreadyRunning, ClusterError
from dagster_sparkscale.clusters.local import LocalCluster
from dagster_sparkscale.clusters.standalone.cluster import StandaloneCluster
from dagster_sparkscale.declare.streams import StructuredStream
from dagster_sparkscale.driver.begin.fence import FENCED, FILE
from dev.runs import MARK
from tests.clusters.client_mode import ClientModeContract, note
from tests.clusters.running import newest, see_ended, submit
from tests.short_lives import EXECUTORS
from tests.waiting import HANGS, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.clusters]


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
            agent_tls=True,
        )
        yield cluster
        # The session's cluster does not know these, so it would not stop them.
        for name in cluster.store().streams():
            see_ended(cluster, name)

    def test_its_agents_are_known_by_their_own_certificate_alone(
        self, running: StandaloneCluster
    ) -> None:
        driver = newest(running, "clicks")
        assert str(driver.agent_url).startswith("https://127.0.0.1:")
        agent = running.agent(driver)
        before = credentials.make("clicks", driver.epoch - 1).certificate
        with pytest.raises(AgentUnreachable, match="whose certificate is not this driver's"):
            replace(agent, certificate=before).status(HANGS)
        with pytest.raises(AgentUnreachable, match="TLS failed, CERTIFICATE_VERIFY_FAILED"):
            replace(agent, certificate=None).status(HANGS)
        assert agent.status(HANGS).epoch == driver.epoch

    # What a state folder can't know.

    def another(self, cluster: StandaloneCluster, state: Path) -> StandaloneCluster:
        """The same cluster with another state folder, as where the first was lost."""
        fields = {name: getattr(cluster, name) for name in type(cluster).model_fields}
        return StandaloneCluster(**{**fields, "state_dir": str(state)})

    def test_a_checkpoint_is_kept_from_a_driver_of_another_state_folder(
        self, idling: StandaloneCluster, streams: tuple[StructuredStream, ...], tmp_path: Path
    ) -> None:
        another = self.another(idling, tmp_path / "state")
        pid = note(idling, newest(idling, "idle"), "driver.json")["pid"]
        of = rf"worked on by process {pid}, a driver of 'idle', epoch \d+, that was started from "
        with pytest.raises(AlreadyRunning, match=f"{of}another state folder, {idling.state_dir}:"):
            submit(another, streams[1])
        assert newest(idling, "idle").state is DriverState.RUNNING
        assert psutil.pid_exists(pid)

    def test_of_one_that_crashed_its_mark_keeps_all_but_its_own_stream_away(
        self, idling: StandaloneCluster, streams: tuple[StructuredStream, ...], tmp_path: Path
    ) -> None:
        old = newest(idling, "idle")
        self.kill_driver(idling, old)
        wait_for("all of it to be gone", lambda: self.nothing_left(idling, "idle", old.epoch))
        another = self.another(idling, tmp_path / "state")
        # Whether it lives long enough for its agent to be announced is a matter of luck.
        with contextlib.suppress(ClusterError):
            submit(another, streams[1])
        wait_for("the stranger to end", lambda: not newest(another, "idle").state.alive)
        stranger = newest(another, "idle")
        # Of its processes the last may take a moment longer.
        wait_for("all of it to end", lambda: self.nothing_left(another, "idle", stranger.epoch))
        assert stranger.fenced
        assert "which has not said that it has ended" in str(stranger.exit_reason)
        assert str(stranger.exit_reason) in another.logs(stranger)
        assert note(another, stranger, "exit.json")["code"] == FENCED
        assert submit(idling, streams[1]).epoch == old.epoch + 1
        assert streams[1].checkpoint_location is not None
        mark = Path(streams[1].checkpoint_location) / FILE
        wait_for("it to stand", lambda: f'"epoch": {old.epoch + 1},' in mark.read_text())


def test_a_master_that_does_not_answer_has_no_capacity(tmp_path: Path) -> None:
    cluster = StandaloneCluster(
        master="spark://127.0.0.1:7", web_urls=["http://127.0.0.1:9"], state_dir=str(tmp_path)
    )
    assert cluster.capacity() is None
