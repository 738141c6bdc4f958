"""Dagster's storage that does not answer: no tick waits for it for long."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dagster_sparkscale.deadlines import NoAnswer
from dagster_sparkscale.names import PREFIX
from dagster_sparkscale.watch import reads as reads_module
from dagster_sparkscale.watch.memory import Memory
from dagster_sparkscale.watch.reads import Reads
from tests.fakes import scaled
from tests.waiting import HANGS, wait_for
from tests.watch.deployment import STREAM, Deployment, grown, overload

LAG = scaled("lagging", max_lag=60.0)


@contextmanager
def hanging(owner: object, *methods: str) -> Iterator[None]:
    """These do not return before the block ends."""
    release = threading.Event()

    def hang(*_: object, **__: object) -> None:
        release.wait(HANGS)
        raise RuntimeError("it was given up")

    with pytest.MonkeyPatch.context() as patch:
        for method in methods:
            patch.setattr(owner, method, hang)
        try:
            yield
        finally:
            release.set()


def reading() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "sparkscale-read"]


class TestReads:
    def test_what_they_come_to(self) -> None:
        reads = Reads()
        reads.tick(time.monotonic() + HANGS)
        assert reads.within(lambda: 3) == 3
        with pytest.raises(ZeroDivisionError):
            reads.within(lambda: 1 // 0)
        assert reads.given_up is None

    def test_after_one_that_hangs_there_is_none_more_in_a_tick(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reads_module, "ANSWER", 0.1)
        reads, release = Reads(), threading.Event()
        reads.tick(time.monotonic() + HANGS)
        with pytest.raises(NoAnswer, match="Dagster's storage gave no answer within 0 s"):
            reads.within(lambda: release.wait(HANGS))
        asked: list[int] = []
        with pytest.raises(NoAnswer, match="gave no answer"):
            reads.within(lambda: asked.append(1))
        assert asked == [] and len(reading()) == 1
        reads.tick(time.monotonic() + HANGS)
        monkeypatch.setattr(reads_module, "ANSWER", HANGS)
        assert reads.within(lambda: 3) == 3
        release.set()
        wait_for("the read to end", lambda: not reading())

    def test_there_is_none_once_the_time_of_a_tick_is_over(self) -> None:
        reads = Reads()
        reads.tick(time.monotonic() - reads_module.GRACE - 1.0)
        with pytest.raises(NoAnswer, match="the time of the tick is over"):
            reads.within(lambda: 3)

    def test_threads_that_hang_are_not_more_and_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reads_module, "ANSWER", 0.02)
        monkeypatch.setattr(reads_module, "HANGING", 3)
        reads, release = Reads(), threading.Event()
        for _ in range(6):
            reads.tick(time.monotonic() + HANGS)
            with pytest.raises(NoAnswer):
                reads.within(lambda: release.wait(HANGS))
        assert len(reading()) == 3
        assert reads.given_up == "Dagster's storage is not read: 3 reads hang"
        release.set()
        wait_for("the reads to end", lambda: not reading())
        reads.tick(time.monotonic() + HANGS)
        monkeypatch.setattr(reads_module, "ANSWER", HANGS)
        assert reads.within(lambda: 3) == 3


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What hangs is given up soon, and what is only slow on a busy machine is not."""
    monkeypatch.setattr(reads_module, "ANSWER", 3.0)


@pytest.mark.usefixtures("patient")
class TestTick:
    def test_nothing_is_done_while_it_is_not_known_what_is_in_flight(
        self, deployed: Deployment, clock: list[float]
    ) -> None:
        overload(deployed)
        with hanging(deployed.instance, "get_run_records"):
            tick = deployed.tick()
        assert tick.requests == []
        assert tick.decided().startswith(
            "hold: which operations are in progress can't be told: Dagster's storage gave no answer"
        )
        assert "; otherwise: scale to 5: 2 registered -> 5" in tick.decided()
        # It is as due as it was.
        clock[0] += 1
        (request,) = deployed.tick().requests
        assert request.tags[f"{PREFIX}stream"] == "clicks"

    def test_nor_is_a_driver_restarted_that_has_failed(
        self, deployed: Deployment, clock: list[float]
    ) -> None:
        deployed.world.run(STREAM)
        deployed.passing(2, clock)
        deployed.world.end("clicks")
        clock[0] += 60
        with hanging(deployed.instance, "get_run_records"):
            assert deployed.tick().requests == []
        clock[0] += 60
        (request,) = deployed.tick().requests
        assert request.job_name == "restart"

    def test_no_minute_is_lost_while_nothing_can_be_read(
        self, deployed: Deployment, clock: list[float]
    ) -> None:
        grown(deployed.world.run(STREAM))
        deployed.passing(2, clock)
        began = int(clock[0])
        everything = ("get_run_records", "get_run_ids", "fetch_observations")
        more = ("fetch_materializations", "get_latest_materialization_event")
        with hanging(deployed.instance, *everything, *more):
            for _ in range(3):
                tick = deployed.tick()
                assert "Dagster's storage gave no answer within 3 s" in tick.data.skip_message
                clock[0] += 60
        known = Memory.load(deployed.cursor).of("clicks")
        told = [each.at for each in known.minutes if each.at >= began]
        told += [each.at for each in tick.minutes() if each.at >= began and each.at not in told]
        assert sorted(told)[-1] == began + 120


@pytest.mark.usefixtures("patient")
def test_a_check_that_could_not_be_told_is_told_by_the_next_tick(
    deployed: Deployment, clock: list[float]
) -> None:
    kept = grown(deployed.world.run(STREAM))
    deployed.passing(3, clock)
    kept.batch_seconds = 25.0
    with (
        hanging(deployed.instance.event_log_storage, "get_latest_asset_check_execution_by_key"),
        hanging(deployed.instance, "get_latest_materialization_event"),
    ):
        # Into another hour, in which it looks at what is stored.
        clock[0] += 3600
        first = deployed.tick()
    assert first.checks() == {}
    clock[0] += 60
    assert deployed.tick().checks()["ratio_below_one"] is False
