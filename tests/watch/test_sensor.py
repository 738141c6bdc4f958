"""The sensor as Dagster evaluates it: observations and requests."""

import time
from dataclasses import asdict, replace

import dagster as dg
import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.records.store import Limited
from dagster_sparkscale.declare.backpressure import BackpressurePolicy
from dagster_sparkscale.declare.policies import RecoveryPolicy
from dagster_sparkscale.names import PREFIX
from dagster_sparkscale.observe.status import Batch, Limit, Query
from tests.fakes import QUERY, batch, scaled, structured
from tests.in_memory.cluster import MemoryAgent
from tests.in_memory.driver import status_of
from tests.state.saying import kept_by, stateful
from tests.watch.deployment import HOUR, STREAM, Deployment, overload


class TestMinutes:
    def test_each_stream_has_one_a_tick_whatever_its_state(self):
        names = ["running", "failed", "stopped", "unreachable", "unused", "idle", "broken"]
        deployed = Deployment([scaled(name) for name in names])
        for stream in deployed.streams:
            if stream.name != "unused":
                deployed.world.run(stream)
        kept = deployed.world.streams
        kept["running"].batch_seconds = 5
        kept["unreachable"].reachable = False
        deployed.world.end("failed")
        deployed.world.end("stopped", DriverState.STOPPED)

        def find(stream):
            if stream == "broken":
                raise RuntimeError("its record is broken")

        deployed.world.on_find = find
        for _ in range(2):
            tick = deployed.tick()
            assert {name: tick.seen(name).state for name in names} == {
                "running": "running",
                "idle": "running",
                "failed": "failed",
                "stopped": "stopped",
                "unreachable": "running",
                "unused": "not started",
                "broken": "unknown",
            }

    def test_what_was_seen_is_in_it(self, deployed):
        overload(deployed)
        seen = deployed.tick().seen()
        assert (seen.ratio, seen.processing_ms, seen.processed_rate) == (2.5, 25_000, 4)
        assert seen.input_rate == pytest.approx(100 / 60, abs=1e-2)
        assert (seen.completed, seen.failed) == (1, 0)
        assert (seen.registered, seen.requested, seen.epoch) == (2, 2, 1)
        assert seen.decision == "scale to 5"
        assert seen.reason.startswith(
            "2 registered -> 5: R 2.50 of query 'counts' is at or above 0.9"
        )

    def test_what_the_sources_told_is_in_it(self, deployed):
        kept = overload(deployed)
        kept.queries = (
            Query(QUERY, active=True, behind_ms=1234, source_shards=4),
            Query("other", active=True, behind_ms=9876, source_shards=2),
            Query("ended", active=False, behind_ms=10**9, source_shards=50),
        )
        seen = deployed.tick().seen()
        assert (seen.lag, seen.shards) == (9.88, 6)
        kept.queries += (Query("silent", active=True),)
        seen = deployed.tick().seen()
        assert (seen.lag, seen.shards) == (9.88, None)

    @pytest.mark.parametrize("state", ["unreachable", "not started", "failed"])
    def test_what_was_not_measured_is_none_and_never_zero(self, deployed, state):
        if state != "not started":
            overload(deployed).reachable = state != "unreachable"
        if state == "failed":
            deployed.world.end("clicks")
        tick = deployed.tick()
        known = {"at", "state"} if state == "not started" else {"at", "state", "epoch"}
        assert {key for key, value in asdict(tick.seen()).items() if value is not None} == known
        (event,) = tick.told()
        assert [key for key in event.metadata if key[0].isdigit()] == []

    def test_the_state_of_queries_has_numbers_where_it_is_declared(self):
        deployed = Deployment([stateful()])
        kept = deployed.world.run(stateful(), queries=(kept_by(rows=7),), batch_seconds=1.0)
        (event,) = deployed.tick().told()
        assert event.metadata["5. state (rows)"].value == 7
        assert event.metadata["6. state (partitions)"].value == 4
        assert event.metadata["query state"].value.startswith("|query|rows, memory, partitions|")
        kept.reachable = False
        deployed.cursor = None
        (event,) = deployed.tick().told()
        assert event.metadata.keys().isdisjoint({"5. state (rows)", "6. state (partitions)"})
        assert "query state" not in event.metadata

    def test_limits_of_sources_are_shown_and_plotted_where_they_are_declared(self):
        stream = structured(backpressure=BackpressurePolicy())
        deployed = Deployment([stream])
        limit = Limit("clicks", QUERY, 50.0, "estimator", estimator="work", records=400)
        kept = deployed.world.run(stream, limits=(limit,), batch_seconds=1.0)
        now = time.time()
        kept.batches = (Batch(QUERY, now, 900, records=490, limit=500.0),)
        tick = deployed.tick()
        (event,) = tick.told()
        assert event.metadata["7. limit (records/s)"].value == 50
        assert "|clicks |50, estimate |" in event.metadata["limits"].value
        assert (tick.seen().limit, tick.seen().throttled) == (50, QUERY)
        assert "limits that were set" not in event.metadata
        deployed.world.records["clicks"] = replace(
            deployed.world.records["clicks"],
            rates={"*": {"maxRate": 50.0}},
            limited={"*": Limited("set_limits run 1a2b3c4d", 60.0)},
        )
        deployed.cursor = None
        (event,) = deployed.tick().told()
        assert "by set\\_limits run 1a2b3c4d since 1970-01-01 00:01 UTC" in (
            event.metadata["limits that were set"].value
        )
        kept.reachable = False
        deployed.cursor = None
        (event,) = deployed.tick().told()
        assert "7. limit (records/s)" not in event.metadata
        assert "limits" not in event.metadata

    def test_the_asset_is_that_of_the_stream_with_its_prefix(self):
        deployed = Deployment([structured(key_prefix=("raw", "web-logs"))])
        (event,) = deployed.tick().told()
        assert event.asset_key == dg.AssetKey(["raw", "web-logs", "clicks"])


class TestRequests:
    def test_a_rescale_is_requested_with_all_that_the_run_needs(self, deployed):
        overload(deployed)
        before = int(time.time())
        (request,) = deployed.tick().requests
        assert request.job_name == "rescale"
        (config,) = (op["config"] for op in request.run_config["ops"].values())
        assert config["stream"] == "clicks"
        assert (config["target"], config["epoch"]) == (5, 1)
        assert config["reason"].startswith("2 registered -> 5: R 2.50")
        own = {k: v for k, v in request.tags.items() if k.startswith(PREFIX)}
        assert own == {
            PREFIX + "stream": "clicks",
            PREFIX + "cluster": "spark_cluster",
            PREFIX + "operation": "rescale",
            PREFIX + "expires": "true",
            PREFIX + "epoch": "1",
        }
        stream, epoch, second = request.run_key.split(":")
        assert (stream, epoch) == ("clicks", "1")
        assert before <= int(second) <= time.time()

    def test_a_restart_of_a_failed_driver_is_requested_when_it_is_due(self, deployed):
        overload(deployed)
        deployed.world.end("clicks", ended_at=time.time() - 11)
        (request,) = deployed.tick().requests
        assert request.job_name == "restart"
        (config,) = (op["config"] for op in request.run_config["ops"].values())
        assert config["failed_epoch"] == 1
        assert "restart 1 of 5" in config["reason"]
        assert request.tags[PREFIX + "operation"] == "restart"

    def test_a_restart_that_is_not_due_yet_is_not_requested(self):
        patient = RecoveryPolicy(first_delay=HOUR, longest_delay=HOUR, within=24 * HOUR)
        deployed = Deployment([structured(autoscale=RatioPolicy(), recovery=patient)])
        overload(deployed)
        deployed.world.end("clicks", ended_at=time.time())
        tick = deployed.tick()
        assert tick.requests == []
        assert "restart 1 of 5 at" in tick.data.skip_message

    def test_each_stream_gets_its_own(self):
        deployed = Deployment([scaled(name) for name in ("a", "b", "c")])
        for stream in deployed.streams:
            overload(deployed, stream, batch_seconds={"a": 25, "b": 5, "c": 0}[stream.name])
        requests = {
            request.tags[PREFIX + "stream"]: request for request in deployed.tick().requests
        }
        assert set(requests) == {"a", "c"}
        assert len({request.run_key for request in requests.values()}) == 2

    def test_with_nothing_to_do_the_reason_of_every_stream_is_given(self):
        deployed = Deployment([scaled("a"), structured("b"), scaled("c")])
        overload(deployed, deployed.streams[0], batch_seconds=5)
        overload(deployed, deployed.streams[1])
        tick = deployed.tick()
        assert tick.requests == []
        assert tick.data.skip_message.splitlines() == [
            "a: hold: R 0.50 of query 'counts' is between 0.3 and 0.9",
            "b: hold: the stream has no autoscale policy",
            "c: hold: not started: materialize the asset to start it",
        ]

    def test_an_evaluation_before_the_interval_has_passed_is_not_acted_on(self):
        deployed = Deployment([scaled(interval=600)])
        overload(deployed)
        assert len(deployed.tick().requests) == 1
        again = deployed.tick()
        assert again.requests == []
        assert "not due yet; otherwise: scale to 5" in again.data.skip_message

    @pytest.mark.parametrize(
        ("seconds", "acted_on"), [(1, False), (50, False), (59.5, True), (60, True), (65, True)]
    )
    def test_a_tick_that_is_early_by_a_moment_is_not_skipped(self, clock, seconds, acted_on):
        deployed = Deployment([scaled(interval=60)])
        overload(deployed)
        assert len(deployed.tick().requests) == 1
        clock[0] += seconds
        assert bool(deployed.tick().requests) == acted_on

    def test_a_clock_that_was_set_back_does_not_stop_the_scaling(self, deployed, clock):
        overload(deployed)
        clock[0] += 30 * 24 * HOUR
        deployed.tick()
        clock[0] -= 30 * 24 * HOUR
        assert len(deployed.tick().requests) == 1

    @pytest.mark.parametrize(
        ("interval", "seconds"), [(10, 30), (30, 30), (60, 48), (100, 80), (600, 120)]
    )
    def test_executors_are_awaited_until_the_next_evaluation_but_half_a_minute_at_least(
        self, interval, seconds
    ):
        deployed = Deployment([scaled(interval=interval)])
        overload(deployed)
        (request,) = deployed.tick().requests
        assert request.run_config["ops"]["rescale"]["config"]["wait_seconds"] == seconds

    @pytest.mark.parametrize(
        "cursor", ["", "{", "[]", '{"clicks": {"decided_at": "x"}}', '{"clicks": {"checks": 1}}']
    )
    def test_a_cursor_that_cannot_be_read_does_not_stop_the_scaling(self, deployed, cursor):
        deployed.cursor = cursor
        overload(deployed)
        assert len(deployed.tick().requests) == 1

    def test_another_cluster_has_names_of_its_own(self):
        deployed = Deployment([STREAM], cluster_key="west")
        overload(deployed)
        (request,) = deployed.tick().requests
        assert request.job_name == "rescale_west"
        assert request.tags[PREFIX + "cluster"] == "west"
        assert deployed.run(request).success
        assert deployed.world.streams["clicks"].requested == 5


class TestBatchesBetweenTicks:
    """A driver with one slow batch, which completed three seconds after the first tick."""

    @pytest.fixture
    def slow(self, deployed, clock, monkeypatch):
        overload(deployed)
        first = clock[0]

        def answer(kept):
            batches = (batch(25, now=first, ago=-3),) if clock[0] > first else ()
            return replace(status_of(kept), batches=batches, last_seq=len(batches))

        monkeypatch.setattr("tests.in_memory.cluster.status_of", answer)
        assert "no batch completed in the last 60 s" in deployed.tick().decided()
        return deployed

    def test_one_that_is_older_than_the_window_by_the_next_tick_is_judged_by(self, slow, clock):
        clock[0] += 65
        tick = slow.tick()
        assert tick.seen().ratio == 2.5
        assert tick.seen().input_rate == pytest.approx(100 / 65, abs=1e-2)
        assert len(tick.requests) == 1

    def test_but_only_once(self, slow, clock):
        clock[0] += 65
        slow.tick()
        clock[0] += 65
        assert slow.tick().seen().ratio is None

    def test_nor_is_it_forgotten_while_the_agent_is_silent(self, slow, clock):
        kept = slow.world.streams["clicks"]
        kept.reachable = False
        clock[0] += 65
        slow.tick()
        kept.reachable = True
        clock[0] += 65
        assert slow.tick().seen().ratio == 2.5

    def test_a_policy_that_could_not_see_its_stream_is_due_at_the_next_tick(self, clock):
        deployed = Deployment([scaled(interval=600, max_executors=10)])
        overload(deployed).reachable = False
        deployed.tick()
        deployed.world.streams["clicks"].reachable = True
        clock[0] += 60
        assert len(deployed.tick().requests) == 1

    def test_an_agent_is_asked_for_as_much_as_that_takes(self, slow, clock, monkeypatch):
        asked = []
        plain = MemoryAgent.status

        def status(agent, timeout=5.0, window=None):
            asked.append(window)
            return plain(agent, timeout, window)

        monkeypatch.setattr(MemoryAgent, "status", status)
        clock[0] += 65
        slow.tick()
        clock[0] += 3600
        slow.tick()
        assert 75 <= asked[0] < 180
        assert asked[1] == 180
