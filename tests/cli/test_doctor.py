"""`doctor`: what is wrong, and what to do about it."""

import re
import time
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
from click.testing import Result
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    SensorInstigatorData,
    TickData,
    TickStatus,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._daemon.types import DaemonHeartbeat
from dagster_shared.error import SerializableErrorInfo

from dagster_sparkscale.clusters.base import Condition
from tests.cli.terminal import Terminal
from tests.fakes import MemoryCluster

SAMPLE = Path(__file__).parents[2] / "dagster.yaml"


def lines(done: Result, mark: str) -> list[str]:
    """The lines of that mark, without it."""
    return [
        line.removeprefix(mark).strip()
        for line in done.stdout.splitlines()
        if line.startswith(mark)
    ]


@pytest.fixture
def healthy(terminal: Terminal) -> Terminal:
    """A Dagster with the sample's settings, whose daemon runs and whose sensor ticks."""
    (terminal.folder / "home" / "dagster.yaml").write_text(SAMPLE.read_text())
    beat()
    tick()
    return terminal


def beat(ago: float = 1.0) -> None:
    with dg.DagsterInstance.get() as instance:
        for kind in instance.get_required_daemon_types():
            instance.add_daemon_heartbeat(DaemonHeartbeat(time.time() - ago, kind, "daemon", []))


def state(status: InstigatorStatus, ago: float) -> InstigatorState:
    pointer = LoadableTargetOrigin(python_file="definitions.py")
    location = ManagedGrpcPythonEnvCodeLocationOrigin(pointer, "definitions.py")
    repository = RemoteRepositoryOrigin(location, "__repository__")
    data = SensorInstigatorData(last_tick_timestamp=time.time() - ago)
    origin = repository.get_instigator_origin("autoscaler")
    return InstigatorState(origin, InstigatorType.SENSOR, status, data)


def tick(
    status: InstigatorStatus = InstigatorStatus.DECLARED_IN_CODE,
    ago: float = 20.0,
    error: str | None = None,
) -> None:
    """As the daemon remembers a sensor that ticked, and whoever switched it on or off."""
    remembered = state(status, ago)
    with dg.DagsterInstance.get() as instance:
        if instance.get_instigator_state(remembered.instigator_origin_id, remembered.selector_id):
            instance.update_instigator_state(remembered)
        else:
            instance.add_instigator_state(remembered)
        instance.create_tick(
            TickData(
                remembered.instigator_origin_id,
                "autoscaler",
                InstigatorType.SENSOR,
                TickStatus.FAILURE if error else TickStatus.SKIPPED,
                time.time() - ago,
                selector_id=remembered.selector_id,
                error=SerializableErrorInfo(error, [], None) if error else None,
            )
        )


class TestAllIsWell:
    def test_every_line_is_ok_and_the_exit_code_is_0(self, healthy: Terminal) -> None:
        done = healthy.ask("doctor")
        assert (lines(done, "WRONG"), lines(done, "better")) == ([], []), done.output
        assert done.exit_code == 0
        said = [re.sub(r"\d+ s ago", "a while ago", line) for line in lines(done, "ok")]
        assert said == [
            f"DAGSTER_HOME: {healthy.folder / 'home'}",
            "daemon: alive",
            "autoscaler: ticked a while ago",
            "cluster: definitions.py/spark_cluster, 2 stream(s)",
            "clicks: answers, Spark unknown",
            "capacity: 998 of 1000 cores free, 1 worker(s)",
        ]

    def test_it_changes_nothing(self, healthy: Terminal) -> None:
        calls = list(healthy.world.calls)
        healthy.ask("doctor")
        assert healthy.world.calls == calls
        assert healthy.runs() == []


class TestDagster:
    def test_no_home(self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("DAGSTER_HOME")
        done = terminal.ask("doctor")
        assert done.exit_code == 1
        (line,) = lines(done, "WRONG")
        assert line.startswith("DAGSTER_HOME: not set")
        assert "-> `export DAGSTER_HOME=/a/folder`" in done.stdout
        assert "clicks: answers" in done.stdout  # and all the same goes on

    @pytest.mark.parametrize(
        ("home", "text"),
        [("relative", "is relative"), ("/nowhere/at/all", "is no folder")],
    )
    def test_a_home_that_is_none(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch, home: str, text: str
    ) -> None:
        monkeypatch.setenv("DAGSTER_HOME", home)
        done = terminal.ask("doctor")
        assert done.exit_code == 1
        assert f"DAGSTER_HOME: {home}: {text}" in done.stdout

    def test_settings_that_are_broken(self, terminal: Terminal) -> None:
        (terminal.folder / "home" / "dagster.yaml").write_text("no_such_setting: 1\n")
        done = terminal.ask("doctor")
        assert done.exit_code == 1
        assert any(line.startswith("dagster.yaml: ") for line in lines(done, "WRONG"))
        assert "no_such_setting" in done.stdout

    def test_no_daemon(self, terminal: Terminal) -> None:
        done = terminal.ask("doctor")
        assert any(line.startswith("daemon: SENSOR has never run") for line in lines(done, "WRONG"))
        assert "-> run `dagster-daemon run`" in done.stdout

    def test_a_daemon_that_has_gone(self, healthy: Terminal) -> None:
        beat(ago=3600)
        done = healthy.ask("doctor")
        (line,) = lines(done, "WRONG")
        assert re.search(r"SENSOR was last heard 36\d\d s ago", line)
        assert done.exit_code == 1

    def test_what_could_be_better_is_no_fault(self, healthy: Terminal) -> None:
        (healthy.folder / "home" / "dagster.yaml").write_text("")
        beat()
        done = healthy.ask("doctor")
        assert done.exit_code == 0, done.output
        assert [line.split(":")[0] for line in lines(done, "better")] == [
            "run queue",
            "sensors",
            "retention",
            "run monitoring",
        ]
        assert "-> use_threads: true in sensors; see the sample dagster.yaml" in done.stdout


class TestSensor:
    def test_switched_off_by_a_person(self, healthy: Terminal) -> None:
        tick(InstigatorStatus.STOPPED)
        (line,) = lines(healthy.ask("doctor"), "WRONG")
        assert line == "autoscaler: switched off: nothing is watched, scaled or restarted"

    def test_switched_off_in_the_code(self, healthy: Terminal) -> None:
        healthy.declare(more=", autoscaler_running=False")
        (line,) = lines(healthy.ask("doctor"), "WRONG")
        assert line.startswith("autoscaler: switched off")
        tick(InstigatorStatus.RUNNING)
        assert lines(healthy.ask("doctor"), "WRONG") == []

    def test_never_ticked(self, healthy: Terminal) -> None:
        (healthy.folder / "other.py").write_text((healthy.folder / "definitions.py").read_text())
        (line,) = lines(healthy.type("doctor", "-f", "other.py"), "WRONG")
        assert line == "autoscaler: has never ticked in code location 'other.py'"

    def test_silent_for_long(self, healthy: Terminal) -> None:
        tick(ago=900)
        (line,) = lines(healthy.ask("doctor"), "WRONG")
        assert re.fullmatch(r"autoscaler: last ticked 9\d\d s ago", line)

    def test_its_last_tick_failed(self, healthy: Terminal) -> None:
        tick(ago=1.0, error="it broke")
        (line,) = lines(healthy.ask("doctor"), "WRONG")
        assert line == "autoscaler: its last tick failed: it broke"


class TestCluster:
    def test_a_code_location_that_does_not_load(self, healthy: Terminal) -> None:
        (healthy.folder / "definitions.py").write_text("1 / 0\n")
        done = healthy.ask("doctor")
        assert done.exit_code == 1
        (line,) = lines(done, "WRONG")
        assert line.startswith("code location: code location 'definitions.py' can't be loaded")
        assert "ZeroDivisionError" in line

    def test_an_agent_that_is_silent(self, healthy: Terminal) -> None:
        healthy.kept().reachable = False
        done = healthy.ask("doctor")
        assert lines(done, "WRONG") == ["clicks: the agent of driver 1 does not answer"]
        assert "-> see its log: `sparkscale logs clicks`" in done.stdout

    def test_a_stop_that_was_cut_off(self, healthy: Terminal) -> None:
        with healthy.world.cluster.lease("clicks", "stop run 1") as lease:
            lease.write(replace(lease.record, desired="stopped", desired_since=1.0))
        (line,) = lines(healthy.ask("doctor"), "WRONG")
        assert line.startswith("clicks: driver 1 was asked to stop at 1970-01-01 00:00 UTC")

    @pytest.mark.parametrize("runs", [True, False])
    def test_a_master_that_is_silent_matters_while_something_runs(
        self, healthy: Terminal, runs: bool
    ) -> None:
        healthy.world.master_answers = False
        if not runs:
            healthy.world.end("clicks")
        done = healthy.ask("doctor")
        assert done.exit_code == int(runs)
        assert len(lines(done, "WRONG" if runs else "better")) == 1

    def test_what_the_cluster_manager_knows_is_there(
        self, healthy: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            MemoryCluster,
            "conditions",
            lambda self, streams: [Condition("disk", f"{len(streams)} streams, full", "empty it")],
        )
        done = healthy.ask("doctor")
        assert lines(done, "WRONG") == ["disk: 2 streams, full"]
        assert "-> empty it" in done.stdout

    def test_a_store_that_can_not_be_read(self, healthy: Terminal) -> None:
        def broken(stream: str) -> None:
            raise dg.DagsterError("the disk is gone")

        healthy.world.on_find = broken
        assert "the disk is gone" in " ".join(lines(healthy.ask("doctor"), "WRONG"))
