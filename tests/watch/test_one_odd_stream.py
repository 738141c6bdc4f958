"""What is odd about one stream costs neither the others nor the tick anything."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from copy import copy

import dagster as dg
import pytest

from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.declare.stream import LONGEST_REPORT
from dagster_sparkscale.definitions import all_operations
from dagster_sparkscale.observe.history import newest
from dagster_sparkscale.observe.status import Query
from dagster_sparkscale.operations import Operations, Streams
from dagster_sparkscale.watch.memory import Memory
from dagster_sparkscale.watch.page import recent
from dagster_sparkscale.watch.sensor import autoscale_sensor
from tests.fakes import QUERY, scaled
from tests.waiting import HANGS
from tests.watch.deployment import Deployment, Tick, overload


def two() -> Deployment:
    deployed = Deployment([scaled("clicks", max_executors=10), scaled("orders", max_executors=10)])
    for stream in deployed.streams:
        overload(deployed, stream)
    return deployed


class TestOneThatCannotBeJudged:
    def test_is_said_to_be_unknown_and_the_others_are_judged(self):
        deployed = two()
        deployed.world.streams["clicks"].queries = (Query(QUERY, active=True, interval_ms="x"),)
        tick = deployed.tick()
        assert tick.decided("orders").startswith("scale to 5")
        assert tick.seen("clicks").state == "unknown"
        assert tick.checks("clicks") == {"running": False}
        (row,) = (line for line in tick.fleet["streams 1"].splitlines() if "clicks" in line)
        assert "unknown" in row
        assert "clicks: it can't be judged: TypeError: " in tick.fleet["at a glance"]


class TestOneWhoseEventsCannotBeReadBack:
    @pytest.fixture
    def restarted(self, clock, monkeypatch):
        """The code location was started anew, and the database is locked when it reads."""
        deployed = two()
        deployed.world.end("clicks")
        deployed.passing(2, clock)
        monkeypatch.setattr(recent, "newest", locked)
        return Deployment(deployed.streams, deployed.world, deployed.instance, deployed.cursor)

    def test_loses_no_minute(self, restarted, clock, monkeypatch):
        before = pending(restarted)
        restarted.tick()
        assert pending(restarted) == before + 1
        monkeypatch.setattr(recent, "newest", newest)
        clock[0] += 600
        tick = restarted.tick()
        assert len(tick.told()) == 1
        assert len(tick.minutes()) == before + 2

    def test_stays_in_the_fleet_and_its_problem_stands(self, restarted, clock):
        clock[0] += 600
        fleet = restarted.tick().fleet
        assert fleet["at a glance"].partition(": ")[2].startswith("2 streams: ")
        assert [each["problem"] for each in fleet["for alerts"]["problems"]] == ["failed"]

    def test_fills_no_cursor_if_it_never_can(self, restarted, clock):
        for _ in range(80):
            clock[0] += 60
            restarted.tick()
        assert pending(restarted) == LONGEST_REPORT / 60


def pending(deployed: Deployment) -> int:
    return len(Memory.load(deployed.cursor).of("clicks").minutes)


def locked(*_):
    raise OSError("database is locked")


class TestTwoEvaluationsAtOnce:
    """As when somebody tests the sensor in the UI beside a tick."""

    def test_both_see_every_stream(self):
        deployed, together = two(), threading.Barrier(2)
        deployed.world.on_look = lambda kept: time.sleep(0.3)

        def tick(one: Deployment) -> Tick:
            together.wait(HANGS)
            return one.tick()

        with ThreadPoolExecutor(2) as pool:
            for told in pool.map(tick, [deployed, trial_of(deployed)]):
                assert {told.seen(name).state for name in ("clicks", "orders")} == {"running"}
                assert all(told.checks(name)["running"] for name in ("clicks", "orders"))

    def test_one_that_waits_in_vain_says_so(self, monkeypatch):
        deployed, begun, goes_on = two(), threading.Event(), threading.Event()

        def owner(*_):
            begun.set()
            assert goes_on.wait(HANGS)
            return "web/spark_cluster"

        monkeypatch.setattr(Streams, "owner", owner)
        known = Streams(deployed.streams, "spark_cluster")
        stopped = dg.DefaultSensorStatus.STOPPED
        deployed.sensor = autoscale_sensor(
            *(known, Operations(known, all_operations()), CAPABILITIES),
            default_status=stopped,
            seconds=0.1,
        )
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(trial_of(deployed).tick)
            try:
                assert begun.wait(HANGS)
                with pytest.raises(RuntimeError, match="another evaluation of this sensor has"):
                    deployed.tick()
            finally:
                goes_on.set()
            first.result(HANGS)
        deployed.tick()


def trial_of(deployed: Deployment) -> Deployment:
    """The same sensor, of which nothing is stored."""
    trial = copy(deployed)
    trial.instance = dg.DagsterInstance.ephemeral()
    return trial
