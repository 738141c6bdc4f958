"""`doctor`: what is wrong, and what to do about it."""

import re
from dataclasses import replace

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import InstigatorStatus

from dagster_sparkscale.cli import doctor as doctor_module
from dagster_sparkscale.clusters.base import Condition, DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.observe.status import Query
from tests.cli.daemon import tick
from tests.cli.terminal import Terminal, lines
from tests.fakes import QUERY, scaled, structured
from tests.in_memory.cluster import MemoryCluster
from tests.watch.deployment import grown


class TestAllIsWell:
    def test_every_line_is_ok_and_the_exit_code_is_0(self, healthy: Terminal) -> None:
        done = healthy.ask("doctor")
        assert (lines(done, "WRONG"), lines(done, "better")) == ([], []), done.output
        assert done.exit_code == 0
        said = [re.sub(r"\d+ s ago", "a while ago", line) for line in lines(done, "ok")]
        assert said == [
            f"DAGSTER_HOME: {healthy.folder / 'home'}",
            "daemon: alive, last heard a while ago",
            "autoscaler: ticked a while ago",
            "alerts: switched on, and has an address",
            "cluster: definitions.py/spark_cluster, 2 stream(s)",
            "clicks: answers, Spark 4.3.0",
            "capacity: 998 of 1000 cores free, 1 worker(s)",
        ]

    def test_executors_that_can_not_come_are_wrong(self, healthy: Terminal) -> None:
        healthy.kept().requested, healthy.world.cores = 3, 2
        [line] = lines(healthy.ask("doctor"), "WRONG")
        assert line.startswith("clicks: executors: 1 to come, but no worker has 1 core and 1g of")

    def test_those_that_are_on_their_way_are_not(self, healthy: Terminal) -> None:
        healthy.kept().requested = 3
        assert lines(healthy.ask("doctor"), "WRONG") == []

    def test_a_release_that_is_not_told_is_unknown(self, healthy: Terminal) -> None:
        healthy.kept().spark_version = None
        assert "clicks: answers, Spark unknown" in lines(healthy.ask("doctor"), "ok")

    def test_those_of_which_the_same_is_said_are_one_line(self, healthy: Terminal) -> None:
        names = [f"s{number:02}" for number in range(12)]
        healthy.declare(", ".join(f"scaled({name!r}, max_executors=2)" for name in names))
        for name in names:
            grown(healthy.world.run(scaled(name, max_executors=2), batch_seconds=5))
        healthy.world.streams["s11"].spark_version = "4.1.0"
        said = [line for line in lines(healthy.ask("doctor"), "ok") if "answers" in line]
        assert said == [
            f"{', '.join(names[:10])} and 1 more: answers, Spark 4.3.0",
            "s11: answers, Spark 4.1.0",
        ]

    def test_what_was_found_is_told_where_it_can_not_go_on(
        self, healthy: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said = list[str]()

        def breaks(*_: object) -> None:
            raise OSError("stale file handle")

        monkeypatch.setattr(doctor_module, "_of_cluster", breaks)
        monkeypatch.setattr("click.echo", said.append)
        with pytest.raises(OSError, match="stale"):
            healthy.ask("doctor")
        assert said[-1].endswith("alerts: switched on, and has an address")

    def test_it_changes_nothing(self, healthy: Terminal) -> None:
        calls = list(healthy.world.calls)
        healthy.ask("doctor")
        assert healthy.world.calls == calls
        assert healthy.runs() == []


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
        assert line == "autoscaler: last ticked 15 min ago"

    def test_its_last_tick_failed(self, healthy: Terminal) -> None:
        tick(ago=1.0, error="it broke")
        (line,) = lines(healthy.ask("doctor"), "WRONG")
        assert line == "autoscaler: its last tick failed: it broke"


class TestAlerts:
    """Whether anybody is told of problems."""

    @pytest.mark.parametrize(
        ("alerts", "line"),
        [
            ("", "alerts: none for definitions.py/spark_cluster: nobody is told of a problem who"),
            (
                'alert_sensor(Webhook("https://example.com"), cluster_key="west")',
                "alerts: none for definitions.py/spark_cluster: nobody is told of a problem who",
            ),
            (
                'alert_sensor(Webhook(dg.EnvVar("ALERTS_NOWHERE")), name="pager")',
                "pager: environment variable ALERTS_NOWHERE is not set here, so nothing can be",
            ),
            (
                'alert_sensor(Webhook("https://example.com"), '
                "default_status=dg.DefaultSensorStatus.STOPPED)",
                "alerts: switched off: nobody is told of a problem by it",
            ),
        ],
    )
    def test_that_nobody_is_told_could_be_better(
        self, healthy: Terminal, alerts: str, line: str
    ) -> None:
        healthy.declare(alerts=alerts)
        done = healthy.ask("doctor")
        assert done.exit_code == 0, done.output
        (found,) = lines(done, "better")
        assert found.startswith(line)

    def test_an_address_in_the_environment_is_one(
        self, healthy: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ALERTS_SOMEWHERE", "https://example.com")
        healthy.declare(alerts='alert_sensor(Webhook(dg.EnvVar("ALERTS_SOMEWHERE")))')
        assert "alerts: switched on, and has an address" in lines(healthy.ask("doctor"), "ok")


class TestCluster:
    def test_a_code_location_that_does_not_load(self, healthy: Terminal) -> None:
        (healthy.folder / "definitions.py").write_text("1 / 0\n")
        done = healthy.ask("doctor")
        assert done.exit_code == 1
        (line,) = lines(done, "WRONG")
        assert line.startswith("code location: code location 'definitions.py' can't be loaded")
        assert "ZeroDivisionError" in line

    def test_streams_in_trouble_are_named_by_the_last_line(self, healthy: Terminal) -> None:
        grown(healthy.kept()).queries = (Query(QUERY, active=True, running_ms=900_000),)
        done = healthy.ask("doctor")
        assert done.exit_code == 0, done.output
        assert done.stdout.splitlines()[-2:] == [
            "better streams: 1 of 2 in trouble: clicks",
            "       -> `sparkscale status -f definitions.py` says what is the matter with each",
        ]

    def test_an_agent_that_is_silent(self, healthy: Terminal) -> None:
        healthy.kept().reachable = False
        done = healthy.ask("doctor")
        assert lines(done, "WRONG") == ["clicks: the agent of driver 1 does not answer"]
        assert "-> see its log: `sparkscale logs clicks -f definitions.py`" in done.stdout

    def test_one_that_waits_is_restarted_and_not_read_of_in_a_log(self, healthy: Terminal) -> None:
        kept = healthy.kept()
        kept.reachable, kept.driver = False, replace(kept.driver, state=DriverState.STARTING)
        restart = "sparkscale restart clicks -f definitions.py"
        cure = f"mend that, then `{restart}`; else see its log"
        assert cure in healthy.ask("doctor").stdout

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
            healthy.world.end("clicks", DriverState.STOPPED)
        done = healthy.ask("doctor")
        assert done.exit_code == int(runs)
        assert len(lines(done, "WRONG" if runs else "better")) == 1

    def test_a_capacity_that_may_be_unknown_is_no_fault_while_something_runs(
        self, healthy: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(MemoryCluster, "CAPACITY_MAY_BE_UNKNOWN", True)
        healthy.world.master_answers = False
        done = healthy.ask("doctor")
        assert done.exit_code == 0, done.output
        assert [line.partition(":")[0] for line in lines(done, "better")] == ["capacity"]

    def test_a_cluster_that_cannot_be_asked_is_one_line_whatever_the_number_of_streams(
        self, healthy: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def silent(_: MemoryCluster) -> MemoryCluster:
            raise ClusterError("the API server gave no answer")

        monkeypatch.setattr(MemoryCluster, "snapshot", silent)
        done = healthy.ask("doctor")
        assert len(lines(done, "WRONG")) == 1
        assert "-> the API server gave no answer" in done.stdout
        # What the cluster manager has said of it itself is not said again.
        known = [Condition("cluster", "silent", "see to it")]
        monkeypatch.setattr(MemoryCluster, "conditions", lambda self, streams: known)
        assert lines(healthy.ask("doctor"), "WRONG") == ["cluster: silent"]

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


class TestStreams:
    def test_one_that_cannot_be_judged_is_told_of_beside_the_others(
        self, healthy: Terminal
    ) -> None:
        healthy.world.run(structured("orders"))
        odd = Query(QUERY, active=True, interval_ms="x")  # type: ignore[arg-type]
        healthy.kept().queries, healthy.kept().batch_seconds = (odd,), 25.0
        grown(healthy.kept())
        done = healthy.ask("doctor")
        assert done.exit_code == 1
        assert any("clicks: it can't be judged: TypeError" in line for line in lines(done, "WRONG"))
        assert "orders: answers" in done.stdout

    def test_what_failed_is_a_line_for_what_comes_back_and_one_for_what_does_not(
        self, healthy: Terminal
    ) -> None:
        healthy.declare(
            'scaled(max_executors=10), structured("lost", recovery=None), structured("orders")'
        )
        for stream in (structured("lost", recovery=None), structured("orders")):
            healthy.world.run(stream)
            healthy.world.end(stream.name)
        done = healthy.ask("doctor")
        assert lines(done, "WRONG") == [
            "given up: lost: failed, and nothing but a person starts it again",
            "failed: orders: recovery starts it again by itself, with pauses",
        ]
        logs, start = (f"`sparkscale {each} lost -f definitions.py`" for each in ("logs", "start"))
        assert f"{logs} says why; mend it, then {start}" in done.stdout
        assert done.exit_code == 1

    def test_many_are_not_all_named(self, healthy: Terminal) -> None:
        names = [f"s{n:02}" for n in range(12)]
        healthy.declare(", ".join(f'structured("{name}")' for name in names))
        for name in names:
            healthy.world.run(structured(name))
            healthy.world.end(name)
        # `clicks` runs, was started by nobody known, and is in the way of nothing.
        (line,) = lines(healthy.ask("doctor"), "WRONG")
        assert line.startswith("failed: s00, s01, ") and "s09 and 2 more: " in line
        assert "s10" not in line

    def test_an_orphan_is_a_fault_and_what_may_be_another_s_is_none(
        self, healthy: Terminal
    ) -> None:
        healthy.declare('structured("old")')
        assert healthy.ask("start", "old").exit_code == 0
        healthy.declare('structured("orders")')
        done = healthy.ask("doctor")
        assert lines(done, "WRONG") == ["orphans: old: runs, and is not declared any more"]
        assert "-> declare it again, or `sparkscale forget old -f definitions.py`" in done.stdout
        assert lines(done, "better") == [
            "not declared here: clicks: runs, and who declares it is not known"
        ]
        assert "`sparkscale forget clicks -f definitions.py --whoever-declares-it`" in done.stdout
