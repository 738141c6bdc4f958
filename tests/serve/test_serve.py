"""`sparkscale serve`: what it reads of looks and of the event log, and what it never makes up."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.test_utils import freeze_time

from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.cli.dagster_side import last_tick
from dagster_sparkscale.cli.locations import Target, instance_of_home
from dagster_sparkscale.cli.private_dagster import WorkspaceOpts
from dagster_sparkscale.names import OPERATION_TAG, STORY
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.serve import event_log as event_log_module
from dagster_sparkscale.serve import fleet as fleet_module
from dagster_sparkscale.serve.event_log import EventLog
from dagster_sparkscale.serve.fleet import Busy, Fleet, Watched
from dagster_sparkscale.serve.http import Server
from dagster_sparkscale.watch.fleet.verdict import verdict
from dagster_sparkscale.watch.sighting import Sighting
from tests.cli.daemon import tick
from tests.cli.terminal import Terminal
from tests.fakes import scaled
from tests.observe.stored import store
from tests.serve.page.history import minutes
from tests.serve.scraping import found_in, get, named, of, running
from tests.waiting import HANGS, wait_for
from tests.watch.deployment import grown

NOW = 2000.0
ROOT = Path(__file__).parents[2]


def fleet_of(
    every: float = 0.0,
    log: bool = True,
    report: Callable[[str], None] = pytest.fail,
    began: float | None = None,
) -> Fleet:
    """What the command serves of the code location in the current folder."""
    target = Target(WorkspaceOpts(python_file=("definitions.py",)))
    [deployed] = target.load()
    with deployed.cluster() as cluster:
        watched = Watched(
            *(deployed.owner, deployed.streams, cluster),
            last_tick=lambda instance: last_tick(instance, deployed),
            log=EventLog(time.time() if began is None else began),
        )
    opens = instance_of_home if log else None
    return Fleet([watched], CAPABILITIES, opens, every, report)


class TestFleet:
    def test_what_the_event_log_knows(
        self,
        terminal: Terminal,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(event_log_module, "EVERY", 0.0)
        monkeypatch.setattr(event_log_module, "_SETTLED", 0.0)
        tick(ago=20)
        began = int(time.time()) - 600
        first = [Minute(began + 2 * n, "running", registered=3) for n in range(3)]
        key, fleet = dg.AssetKey("clicks"), fleet_of(began=float(began))
        before = Minute(began - 60, "running", registered=9, decision="scale to 3")
        with dg.DagsterInstance.get() as instance:
            store(instance, key, [before, *first])  # another process has counted the one before
        assert terminal.ask("scale", "clicks", "4").exit_code == 0
        found = named(fleet.samples())
        assert of(found, "executor_seconds_total", stream="clicks") == 3 * 4
        assert of(found, "decisions_total", decision="hold", stream="clicks") == 3
        assert of(found, "rescales_total", ending="reached", stream="clicks") == 1
        assert of(found, "rescale_duration_seconds_count", ending="reached") == 1
        assert of(found, "event_log_read") == 1
        last = of(found, "autoscaler_last_tick_timestamp_seconds")
        assert last == pytest.approx(time.time() - 20, abs=300)
        assert of(found, "executors", stream="clicks", kind="registered") is not None
        # More minutes, in an event of the other kind, and none counts twice.
        later = Minute(first[-1].at + 2, "running", registered=5, decision="scale to 6")
        with dg.DagsterInstance.get() as instance:
            store(instance, key, [first[-1], later], kind=dg.AssetMaterialization)
        found = named(fleet.samples())
        assert of(found, "executor_seconds_total", stream="clicks") == 3 * 4 + 5 * 2
        assert of(found, "decisions_total", decision="change", stream="clicks") == 1
        assert of(found, "rescales_total", ending="reached", stream="clicks") == 1

    def test_an_operation_of_a_clock_that_is_ahead_counts_when_its_time_has_come(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(event_log_module, "EVERY", 0.0)
        now, key, log = 1000 * 86400, dg.AssetKey("clicks"), EventLog(1000.0 * 86400)
        told = {OPERATION_TAG: "rescale", STORY: {"ending": "reached", "seconds": 4.0}}
        with dg.DagsterInstance.get() as instance:
            with freeze_time(now + 90):
                instance.report_runless_asset_event(dg.AssetObservation(key, metadata=told))
            store(instance, key, [Minute(now + 30, "running")])
            for later, ended in ((60.0, 0), (120.0, 1), (180.0, 1)):
                tally = log.read_on(instance, [scaled()], now + later, HANGS)["clicks"]
                assert (tally.minutes, tally.rescales["reached"]) == (1, ended)

    def test_streams_of_which_nothing_is_stored_have_no_sums(
        self,
        terminal: Terminal,
    ) -> None:
        found = named(fleet_of().samples())
        names = {name for name, _ in found}
        assert "sparkscale_autoscaler_last_tick_timestamp_seconds" not in names
        assert of(found, "stream_state", stream="orders", state="not started") == 1

    def test_without_dagster_agents_are_told_of_all_the_same(
        self,
        terminal: Terminal,
    ) -> None:
        found = named(fleet_of(log=False).samples())
        assert of(found, "event_log_read") == 0
        assert of(found, "agent_up", stream="clicks") == 1

    def test_an_event_log_that_fails_is_said(
        self,
        terminal: Terminal,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        said: list[str] = []

        def fails(*_: Any) -> Any:
            raise RuntimeError("database is locked")

        monkeypatch.setattr(fleet_module, "in_flight", fails)
        found = named(fleet_of(report=said.append).samples())
        assert of(found, "event_log_read") == 0 and of(found, "agent_up") == 1
        assert said == ["definitions.py/spark_cluster: RuntimeError: database is locked"]

    def test_a_database_that_hangs_keeps_back_nothing_of_what_agents_tell(
        self,
        terminal: Terminal,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        asked: list[int] = []
        go_on, said = threading.Event(), list[str]()

        def hangs(*_: Any) -> dict[str, Any]:
            asked.append(1)
            go_on.wait(HANGS)
            return {}

        monkeypatch.setattr(fleet_module, "in_flight", hangs)
        monkeypatch.setattr(fleet_module, "ANSWERING", 0.01)
        fleet = fleet_of(report=said.append)
        for _ in range(3):
            found = named(fleet.samples())
            assert of(found, "event_log_read") == 0 and of(found, "agent_up") == 1
        wait_for("the one that was begun asks", lambda: bool(asked))
        named(fleet.samples())
        assert asked == [1], "none is begun beside one that hangs"
        who = "definitions.py/spark_cluster: Dagster's database: no answer"
        assert said == [f"{who} within 0.01 s", *[f"{who} yet to what was asked before"] * 3]
        monkeypatch.setattr(fleet_module, "ANSWERING", HANGS)
        go_on.set()
        wait_for("it answers", lambda: of(named(fleet.samples()), "event_log_read") == 1)

    def test_a_policy_that_learns_decides_by_the_stored_minutes_as_in_a_terminal(
        self, terminal: Terminal
    ) -> None:
        policy = "autoscale=CapacityPolicy(max_executors=10)"
        terminal.declare(f'structured("clicks", {policy}), structured("orders", {policy})')
        grown(terminal.kept()).batch_seconds = 25
        with dg.DagsterInstance.get() as instance:
            for part in minutes():
                store(instance, dg.AssetKey("clicks"), part)
        [look] = fleet_of().look().clusters
        rows = json.loads(terminal.ask("status", "--json").output)
        [shown] = [each for each in rows if each["stream"] == "clicks"]
        [row] = [each for each in look.rows if each.stream == "clicks"]
        assert (row.decision, row.reason) == (shown["decision"], shown["reason"])
        assert row.decision != "the autoscaler decides"

    def test_a_policy_that_learns_is_left_to_the_autoscaler_until_its_minutes_are_read(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fleet_module, "READING", 0.0)
        terminal.declare('structured("clicks", autoscale=CapacityPolicy(max_executors=10))')
        [look] = fleet_of().look().clusters
        assert [each.decision for each in look.rows] == ["the autoscaler decides"]

    def test_what_it_judges_of_itself_is_in_no_verdict_until_then(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fleet_module, "READING", 0.0)
        policy = "autoscale=CapacityPolicy(max_executors=1)"
        terminal.declare(f'structured("clicks", {policy})')
        grown(terminal.kept()).batch_seconds = 9.3  # R is 0.93, and the maximum is reached
        fleet = fleet_of()
        [look] = fleet.look().clusters
        found = named(look.samples)
        assert of(found, "ratio", stream="clicks") == pytest.approx(0.93, abs=0.01)
        assert of(found, "stream_health", stream="clicks", health="at its maximum") is None
        [row] = look.rows
        assert of(found, "stream_health", stream="clicks", health=verdict(row)) == 1

    def test_of_many_clusters_all_are_read_with_one_instance(self, terminal: Terminal) -> None:
        opened: list[int] = []

        @contextmanager
        def slow() -> Iterator[dg.DagsterInstance]:
            opened.append(1)
            time.sleep(0.3)  # as over TLS from another zone
            with instance_of_home() as instance:
                yield instance

        [one] = fleet_of()._clusters
        many = [replace(one, owner=f"c{n}", log=EventLog(time.time())) for n in range(12)]
        found = Fleet(many, CAPABILITIES, slow, 0.0, pytest.fail).look()
        assert [each.fault for each in found.clusters] == [""] * 12 and len(opened) == 1

    def test_a_policy_that_hangs_keeps_back_nothing_of_other_streams(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fleet_module, "JUDGING", 0.05)
        go_on = threading.Event()
        judge = fleet_module.assess_or_say_why

        def hangs(stream: Any, sighting: Sighting, **known: Any) -> Any:
            if stream.name == "clicks" and sighting.error is None:
                go_on.wait(HANGS)
            return judge(stream, sighting, **known)

        monkeypatch.setattr(fleet_module, "assess_or_say_why", hangs)
        try:
            [look] = fleet_of().look().clusters
            reasons = {each.stream: each.reason for each in look.rows}
            assert "its policy can't be asked: no answer within" in reasons["clicks"]
            assert reasons["orders"].startswith("not started")
        finally:
            go_on.set()

    def test_a_database_that_was_put_back_is_read_on(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(event_log_module, "EVERY", 0.0)
        now, key = time.time(), dg.AssetKey("clicks")
        log, streams = EventLog(now), [scaled()]

        def counted(at: float) -> int:
            with dg.DagsterInstance.get() as instance:
                return log.read_on(instance, streams, at, HANGS)["clicks"].minutes

        with dg.DagsterInstance.get() as instance:
            for n in range(9):
                store(instance, key, [Minute(int(now) + 10 + n, "running")])
        assert counted(now + 100) == 9
        with dg.DagsterInstance.get() as instance:
            instance.wipe()
            with freeze_time(now + 130):
                store(instance, key, [Minute(int(now) + 120, "running")])
        assert counted(now + 200) == 10

    def test_a_clock_that_was_ahead_when_it_began_costs_nothing_later(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(event_log_module, "EVERY", 0.0)
        now, log = time.time(), EventLog(time.time() + 86400)
        with dg.DagsterInstance.get() as instance:
            log.read_on(instance, [scaled()], now, HANGS)
            with freeze_time(now + 30):
                store(instance, dg.AssetKey("clicks"), [Minute(int(now) + 20, "running")])
            assert log.read_on(instance, [scaled()], now + 60, HANGS)["clicks"].minutes == 1

    def test_however_often_it_is_asked_agents_are_looked_at_now_and_then(
        self,
        terminal: Terminal,
    ) -> None:
        looks: list[str] = []
        terminal.world.on_look = lambda kept: looks.append(kept.driver.stream)
        fleet = fleet_of(every=3600)
        threads = [threading.Thread(target=fleet.samples) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        fleet.samples()
        assert looks == ["clicks"]

    def test_who_comes_while_a_look_hangs_is_told_so(
        self,
        terminal: Terminal,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(fleet_module, "WAITING", 0.01)
        looking, go_on = threading.Event(), threading.Event()

        class Hanging(Fleet):
            def _look(self) -> Any:
                looking.set()
                go_on.wait()
                return []

        fleet = Hanging([], CAPABILITIES, None, 0.0, pytest.fail)
        thread = threading.Thread(target=fleet.samples)
        thread.start()
        looking.wait()
        with pytest.raises(Busy, match="a look has gone on"):
            fleet.samples()
        go_on.set()
        thread.join()

    def test_it_is_all_scraped(self, terminal: Terminal) -> None:
        with running(Server(("127.0.0.1", 0), fleet_of().samples)) as server:
            code, text, _ = get(server)
        assert code == 200
        found = found_in(text)
        assert of(found, "executors", stream="clicks", kind="maximum") == 10
        assert of(found, "executors", stream="clicks", kind="registered") == 2
