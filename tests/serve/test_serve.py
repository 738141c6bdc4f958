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
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.cli.dagster_side import last_tick
from dagster_sparkscale.cli.locations import Target, instance_of_home
from dagster_sparkscale.cli.private_dagster import WorkspaceOpts
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.declare.budget import Budget
from dagster_sparkscale.driver.metrics.samples import MOST_QUERIES
from dagster_sparkscale.names import OPERATION_TAG, STORY
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.observe.status import Limit, Query, QueryState, Totals
from dagster_sparkscale.serve import event_log as event_log_module
from dagster_sparkscale.serve import fleet as fleet_module
from dagster_sparkscale.serve.event_log import EventLog
from dagster_sparkscale.serve.fleet import Busy, Fleet, Watched
from dagster_sparkscale.serve.http import Server
from dagster_sparkscale.serve.metrics import ALL, ENDINGS, of_budget, of_stream, of_tallies
from dagster_sparkscale.serve.tally import Tally
from dagster_sparkscale.watch.assess import assess
from dagster_sparkscale.watch.fleet.verdict import verdict
from dagster_sparkscale.watch.sighting import Sighting
from tests.cli.daemon import tick
from tests.cli.terminal import Terminal
from tests.fakes import QUERY, batch, driver, scaled, status, structured
from tests.observe.stored import store
from tests.serve.page.history import minutes
from tests.serve.scraping import Found, found_in, get, named, of, running
from tests.waiting import HANGS, wait_for
from tests.watch.deployment import grown

NOW = 2000.0
ROOT = Path(__file__).parents[2]


def looked_at(sighting: Sighting, stream: Any = None, **known: Any) -> Found:
    assessment = assess(
        stream or scaled(max_executors=10), sighting, capabilities=CAPABILITIES, now=NOW, **known
    )
    return named(of_stream("c", assessment))


class TestOfALook:
    def test_a_stream_that_runs(self) -> None:
        said = status(
            batches=(batch(4.0), batch(6.0, ago=15)),
            requested=3,
            queries=(Query(QUERY, active=True, interval_ms=10_000, behind_ms=1500),),
        )
        found = looked_at(Sighting("clicks", driver(), said))
        assert of(found, "stream_state") == 1
        assert of(found, "stream_state", state="running", cluster="c", stream="clicks") == 1
        assert of(found, "agent_up") == 1
        assert of(found, "ratio", query=QUERY) == 0.5
        assert of(found, "lag_seconds", cluster="c", query=QUERY) == 1.5
        kinds = ("registered", "requested", "minimum", "maximum", "leaving")
        assert [of(found, "executors", kind=kind) for kind in kinds] == [2, 3, 1, 10, 0]
        assert of(found, "input_records_per_second") == pytest.approx(200 / 60)
        assert of(found, "check_passed", check="ratio_below_one") == 1

    def test_one_that_does_not_answer_has_no_numbers_and_no_zeros(self) -> None:
        found = looked_at(Sighting("clicks", driver(), error="no answer"))
        assert of(found, "agent_up") == 0
        assert of(found, "stream_state", state="running") == 1
        names = {name for name, _ in found}
        assert not names & {"sparkscale_ratio", "sparkscale_lag_seconds", "sparkscale_queries"}
        assert of(found, "executors", kind="registered") is None

    def test_one_that_was_never_started(self) -> None:
        found = looked_at(Sighting("clicks"))
        assert of(found, "stream_state", state="not started") == 1
        assert of(found, "agent_up") is None

    def test_one_that_has_failed_is_failed(self) -> None:
        found = looked_at(Sighting("clicks", driver(DriverState.FAILED, ended_at=1990.0)))
        assert of(found, "stream_state", state="failed") == 1
        assert of(found, "check_passed", check="running") == 0

    def test_an_answer_of_another_start_is_none(self) -> None:
        found = looked_at(Sighting("clicks", driver(epoch=2), status(epoch=1)))
        assert of(found, "driver_epoch") is None

    def test_a_stream_without_a_policy_has_no_bounds(self) -> None:
        found = looked_at(Sighting("clicks", driver(), status()), structured())
        assert of(found, "executors", kind="maximum") is None
        assert of(found, "executors", kind="registered") == 2

    def test_every_sample_has_the_labels_of_its_metric(self) -> None:
        by_name = {metric.name: metric for metric in ALL}
        said = status(
            batches=(batch(4.0),),
            limits=(Limit("s", QUERY, 5.0),),
            totals=(Totals(QUERY, 1, 0, 4000, 5),),
            queries=(Query(QUERY, active=True, state=QueryState(1, 2, 3), watermark=5.0),),
        )
        sighting = Sighting("clicks", driver(restarted_at=(1999.0,)), said)
        assessment = assess(scaled(max_executors=4), sighting, capabilities=CAPABILITIES, now=NOW)
        found = list(of_stream("c", assessment))
        assert len(found) > 20
        for each in found:
            assert tuple(sorted(each.labels)) == tuple(sorted(by_name[each.metric.name].labels))

    def test_of_many_queries_the_worst_have_series(self) -> None:
        batches = tuple(batch(0.01 * n, query=f"q{n}") for n in range(1, 3 * MOST_QUERIES))
        queries = tuple(Query(f"q{n}", active=True) for n in range(1, 3 * MOST_QUERIES))
        said = status(batches=batches, queries=queries)
        found = looked_at(Sighting("clicks", driver(), said), structured())
        ratios = [labels for name, labels in found if name == "sparkscale_ratio"]
        assert len(ratios) == MOST_QUERIES
        assert of(found, "ratio", query=f"q{3 * MOST_QUERIES - 1}") is not None

    @pytest.mark.parametrize("state", [DriverState.STARTING, DriverState.UNKNOWN])
    def test_whether_its_agent_answers_is_told_of_a_driver_that_runs(
        self, state: DriverState
    ) -> None:
        silent = Sighting("clicks", driver(state=state), error="no answer")
        assert of(looked_at(silent, structured()), "agent_up") is None

    @given(
        st.builds(
            Query,
            st.just(QUERY),
            st.just(True),
            interval_ms=st.none() | st.integers(1, 10**5),
            running_ms=st.none() | st.integers(0, 10**5),
            backlog_records=st.none() | st.integers(0, 9),
            behind_ms=st.none() | st.integers(0, 9),
        ),
        st.none() | st.integers(0, 5),
        st.booleans(),
    )
    def test_what_was_not_measured_has_no_series(
        self, query: Query, registered: int | None, any_batch: bool
    ) -> None:
        batches = (batch(4.0),) if any_batch else ()
        said = status(queries=(query,), registered=registered, requested=None, batches=batches)
        found = looked_at(Sighting("clicks", driver(), said))
        assert (of(found, "lag_seconds") is None) == (query.behind_ms is None)
        assert (of(found, "backlog_records") is None) == (query.backlog_records is None)
        assert of(found, "executors", kind="registered") == registered
        assert of(found, "executors", kind="requested") is None
        assert (of(found, "ratio") is None) == (not any_batch)
        assert (of(found, "input_records_per_second") is None) == (not any_batch)


class TestBudget:
    BUDGET = Budget(cores=20, groups={"reports": 8})

    def of(self, **sightings: Sighting) -> Found:
        made = [
            assess(
                structured(name, group="reports", executor_cores=2),
                *(sighting,),
                capabilities=CAPABILITIES,
                now=NOW,
            )
            for name, sighting in sightings.items()
        ]
        return named(of_budget("c", self.BUDGET, made))

    def test_what_is_asked_for_is_used(self) -> None:
        said = status(stream="a", requested=3)
        found = self.of(a=Sighting("a", driver(stream="a"), said), b=Sighting("b"))
        assert of(found, "budget_cores", group="reports", kind="used") == 6
        assert of(found, "budget_cores", group="reports", kind="allowed") == 8
        assert of(found, "budget_cores", group="", kind="used") == 6
        assert of(found, "budget_cores", group="", kind="allowed") == 20

    def test_what_is_not_known_of_one_is_not_known_in_all(self) -> None:
        silent = Sighting("b", driver(stream="b"), error="no answer")
        said = status(stream="a", requested=3)
        found = self.of(a=Sighting("a", driver(stream="a"), said), b=silent)
        assert of(found, "budget_cores", group="reports", kind="used") is None
        assert of(found, "budget_cores", group="", kind="allowed") == 20


class TestTallies:
    def test_an_ending_that_nobody_knows_is_another(self) -> None:
        tally = Tally()
        for ending in (*ENDINGS, "odd", "odder"):
            tally.add_rescale({"ending": ending, "seconds": 3.0})
        found = named(of_tallies("c", {"clicks": tally}))
        assert of(found, "rescales_total", ending="other") == 2
        assert of(found, "rescales_total", ending="reached") == 1
        assert of(found, "rescale_duration_seconds_count", ending="other") == 2
        assert of(found, "rescale_duration_seconds_bucket", ending="other", le="2") == 0
        assert of(found, "rescale_duration_seconds_bucket", ending="other", le="5") == 2
        assert of(found, "rescale_duration_seconds_sum", ending="reached") == 3

    def test_what_has_not_happened_yet_is_none_from_the_first(self) -> None:
        # Of a counter that begins with 1, Prometheus would not count that one.
        found = named(of_tallies("c", {"clicks": Tally()}))
        assert of(found, "rescales_total", ending="short") == 0
        assert of(found, "rescale_duration_seconds_count", ending="short") == 0
        assert of(found, "decisions_total", decision="change") == 0
        assert named(of_tallies("c", {})) == {}


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


def test_the_table_has_each_name_once_and_by_the_conventions() -> None:
    names = [metric.name for metric in ALL]
    assert len(set(names)) == len(names)
    for metric in ALL:
        assert metric.name.startswith("sparkscale_") and metric.help.endswith(".")
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric
        assert metric.labels[0] == "cluster"
        assert not set(metric.labels) & {"reason", "run", "batch", "epoch", "executor"}
