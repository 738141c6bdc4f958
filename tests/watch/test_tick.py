"""A tick always ends, and what it had no time for comes with the next ones."""

import itertools
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import itemgetter

import dagster as dg
import pytest

from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.clusters.agents import http
from dagster_sparkscale.clusters.agents.http import Address, Connections
from dagster_sparkscale.clusters.errors import AgentUnreachable
from dagster_sparkscale.definitions import all_operations
from dagster_sparkscale.lifecycle.recovery import Restart
from dagster_sparkscale.operations import Operations, Streams
from dagster_sparkscale.watch import cursor, telling, turns
from dagster_sparkscale.watch.memory import Memory
from dagster_sparkscale.watch.sensor import autoscale_sensor
from tests.fakes import scaled
from tests.watch.deployment import Deployment, overload

NAMES = [f"s{number}" for number in range(12)]


def ticking(deployed: Deployment, seconds: float) -> Deployment:
    """With ticks of so many seconds."""
    known = Streams(deployed.streams, "spark_cluster")
    deployed.sensor = autoscale_sensor(
        *(known, Operations(known, all_operations()), CAPABILITIES),
        default_status=dg.DefaultSensorStatus.STOPPED,
        seconds=seconds,
    )
    return deployed


@pytest.fixture
def many() -> Deployment:
    deployed = Deployment([scaled(name, max_executors=10) for name in NAMES])
    for stream in deployed.streams:
        overload(deployed, stream, batch_seconds=5)
    return deployed


@pytest.fixture
def room_for(monkeypatch):
    """Lets each tick tell of so many streams, and no more."""

    def allow(streams: int) -> None:
        monkeypatch.setattr(
            turns.Room, "is_left", lambda self, elapsed: next(self.__dict__["left"])
        )
        init = turns.Room.__init__

        def begin(self, *args, **kwargs):
            init(self, *args, **kwargs)
            self.__dict__["left"] = itertools.chain([True] * streams, itertools.repeat(False))

        monkeypatch.setattr(turns.Room, "__init__", begin)

    return allow


class TestTelling:
    def test_who_asks_for_a_run_is_told_of_first(self, many, room_for):
        many.world.streams["s7"].batch_seconds = 25
        room_for(1)
        tick = many.tick()
        assert [request.tags["dagster-sparkscale/stream"] for request in tick.requests] == ["s7"]
        assert [name for name in NAMES if tick.told(name)] == ["s7"]

    def test_all_runs_are_asked_for_at_once_however_little_can_be_told(self, many, room_for):
        for kept in many.world.streams.values():
            kept.batch_seconds = 25
        room_for(0)
        tick = many.tick()
        assert len(tick.requests) == len(NAMES)
        assert tick.of((dg.AssetMaterialization, dg.AssetCheckEvaluation)) == []

    def test_everybody_is_told_of_within_as_many_ticks_as_it_takes(self, many, room_for, clock):
        room_for(5)
        told = []
        for _ in range(3):
            tick = many.tick()
            told += [name for name in NAMES if tick.told(name)]
            clock[0] += 60
        assert sorted(told) == sorted(NAMES)

    def test_no_minute_of_those_that_wait_is_lost(self, many, room_for, clock):
        room_for(1)
        begun = int(clock[0])
        for _ in range(10):
            many.tick()
            clock[0] += 60
        memory = Memory.load(many.cursor)
        for name in NAMES:
            waits = [minute.at for minute in memory.of(name).minutes]
            since = int(memory.of(name).told.at)
            first = begun if not since else since + 60
            assert waits == list(range(first, int(clock[0]), 60))

    def test_it_says_how_many_wait(self, many, room_for):
        room_for(5)
        assert many.tick().data.skip_message.startswith("told of 5 of 12 streams: the rest follows")

    def test_a_fleet_that_cannot_be_told_of_costs_no_cursor(self, many, monkeypatch):
        def broken(*_, **__):
            raise OSError("database is locked")

        monkeypatch.setattr(telling, "fleet_event", broken)
        tick = many.tick()
        assert all(tick.told(name) for name in NAMES)
        assert "the fleet can't be told of: OSError: database is locked" in tick.data.skip_message
        assert Memory.load(many.cursor).streams.keys() == set(NAMES)

    def test_what_the_fleet_was_not_told_it_is_told_by_the_next_tick(
        self, many, monkeypatch, clock
    ):
        def broken(*_, **__):
            raise OSError("database is locked")

        many.tick()
        many.world.end("s3", ended_at=clock[0])
        monkeypatch.setattr("dagster_sparkscale.watch.fleet.memory.CALM", 600.0)
        with monkeypatch.context() as locked:
            clock[0] += 60
            locked.setattr("dagster_sparkscale.watch.fleet.events.in_flight", broken)
            assert many.tick().fleet is None
        clock[0] += 60
        [problem] = many.tick().fleet["for alerts"]["problems"]
        assert (problem["stream"], problem["problem"]) == ("s3", "failed")
        assert problem["since"] == clock[0] - 60

    def test_nor_are_the_minutes_lost_for_which_it_has_no_room(self, many, monkeypatch, clock):
        def broken(*_, **__):
            raise OSError("database is locked")

        many.tick()
        monkeypatch.setattr(telling, "fleet_event", broken)
        monkeypatch.setattr(cursor, "ROOM", 1)
        monkeypatch.setattr(cursor, "A_STREAM", 0)
        clock[0] += 60
        many.tick()
        fresh = Deployment(many.streams, many.world, many.instance, many.cursor)
        clock[0] += 600
        assert len(fresh.tick().told("s3")) == 1

    def test_what_the_cursor_had_no_room_for_the_next_tick_says(self, many, monkeypatch, clock):
        monkeypatch.setattr(cursor, "ROOM", 1)
        monkeypatch.setattr(cursor, "A_STREAM", 0)
        many.tick()
        clock[0] += 60
        first, *_ = many.tick().data.skip_message.splitlines()
        assert first.startswith("the cursor of the last tick had no room for ")
        assert "usage, of each stream" in first

    def test_an_endless_reason_is_cut(self, many, monkeypatch):
        many.world.streams["s0"].batch_seconds = 25
        monkeypatch.setattr(telling, "REASON", 20)
        assert len(many.tick().seen("s0").reason) == 20


class TestSilentAgents:
    """More than a tick has time for: their looks hang until it is over."""

    @pytest.fixture
    def silent(self, many, clock):
        many.tick()
        many.passing(1, clock)
        release = threading.Event()
        many.world.on_look = lambda kept: release.wait(30)
        yield ticking(many, 1.0)
        release.set()

    def test_who_was_not_asked_stays_as_it_was_seen_for_a_while(self, silent, clock, monkeypatch):
        monkeypatch.setattr("dagster_sparkscale.watch.collect.THREADS", 4)
        tick = silent.tick()
        assert tick.told("s11") == []
        assert Memory.load(silent.cursor).of("s11").told.headline == "running"
        assert all("not looked at within" in line for line in tick.data.skip_message.splitlines())
        clock[0] += turns.PATIENCE
        (event,) = silent.tick().told("s11")
        assert event.description == "running -> not answering"

    def test_that_it_is_not_well_is_not_over_because_nobody_has_looked_yet(
        self, silent, clock, monkeypatch
    ):
        monkeypatch.setattr("dagster_sparkscale.watch.collect.THREADS", 4)
        silent.tick()
        clock[0] += turns.PATIENCE
        before = silent.tick().fleet["for alerts"]["problems"]
        assert [one["problem"] for one in before] == ["unhealthy"] * len(NAMES)
        fresh = Deployment(silent.streams, silent.world, silent.instance, silent.cursor)
        clock[0] += 600
        after = ticking(fresh, 1.0).tick().fleet["for alerts"]["problems"]
        # Whose driver is not even found in time comes first, on a busy machine another one.
        assert sorted(after, key=itemgetter("stream")) == sorted(before, key=itemgetter("stream"))

    def test_a_driver_that_failed_is_restarted_all_the_same(self, silent, clock):
        silent.world.end("s11", ended_at=clock[0] - 30)
        clock[0] += 60
        (request,) = silent.tick().requests
        assert request.tags["dagster-sparkscale/stream"] == "s11"
        assert request.job_name == Restart.operation

    def test_where_there_was_no_time_to_judge_that_is_done_first_the_next_time(
        self, many, monkeypatch, clock
    ):
        many.tick()
        monkeypatch.setattr("dagster_sparkscale.watch.tick.ASSESSING", 0.0)
        first = []
        monkeypatch.setattr(
            "dagster_sparkscale.watch.collect.Collector.first",
            lambda self, names: first.extend(names),
        )
        clock[0] += 60
        tick = many.tick()
        assert sorted(first) == sorted(NAMES)
        assert all(tick.told(name) == [] for name in NAMES)
        assert "not judged within 0.0 s" in tick.data.skip_message


class TestAnAnswerWithoutAnEnd:
    """As of a driver that tells of everything it ever did."""

    @pytest.fixture
    def endless(self):
        sent = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", str(141_000_000))
                self.end_headers()
                try:
                    for _ in range(141):
                        self.wfile.write(b" " * 1_000_000)
                        sent.append(1)
                except OSError:
                    pass

            def log_message(self, *_):
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}", sent
            server.shutdown()

    def test_is_read_no_further_than_it_may_be_long(self, endless):
        url, sent = endless
        with pytest.raises(AgentUnreachable, match=f"longer than {http.MAX_ANSWER} bytes"):
            Connections().call("the agent", Address(url), "t", "GET", "/v1/status", None, 30.0)
        assert len(sent) < 141

    def test_costs_the_other_streams_nothing(self, endless, many):
        url, _ = endless

        def look(kept):
            if kept.driver.stream == "s3":
                Connections().call("the agent", Address(url), "t", "GET", "/", None, 30.0)

        many.world.on_look = look
        tick = many.tick()
        assert tick.seen("s3").ratio is None
        assert tick.seen("s4").ratio == 0.5


def test_many_streams_of_which_the_same_is_said_are_one_line_behind_the_others():
    deployed = Deployment([scaled(f"s{number:02}") for number in range(13)])
    overload(deployed, deployed.streams[7], batch_seconds=5)
    first, second = deployed.tick().data.skip_message.splitlines()
    assert first.startswith("s07: hold: R 0.50 ")
    assert second.startswith("12 streams (s00, s01, s02 and 9 more): hold: not started: ")
