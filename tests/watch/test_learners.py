"""What a policy has learned in the sensor is what the stored minutes say."""

import sys
import time
import traceback
from dataclasses import dataclass, replace
from typing import Self

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale import (
    AutoscalePolicy,
    Bounds,
    CapacityPolicy,
    Evaluation,
    Hold,
    Minute,
    ScaleTo,
    history,
)
from dagster_sparkscale.declare.learner import BLOCK, Learned, Workload, since
from dagster_sparkscale.in_flight import InFlight
from dagster_sparkscale.watch import learners as learners_module
from dagster_sparkscale.watch import tick as tick_module
from dagster_sparkscale.watch.learners import Learners, learned_so_far
from dagster_sparkscale.watch.memory import StreamMemory
from tests.fakes import structured
from tests.watch.deployment import HOUR, Deployment, overload

KEY = dg.AssetKey("clicks")


@dataclass(frozen=True)
class Counting:
    """Remembers which minutes it has learned from."""

    ats: tuple[int, ...] = ()
    workload: Workload | None = None

    def after(self, minute: Minute, /) -> Self:
        return replace(self, ats=(*self.ats, minute.at))

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        return Hold(f"{len(self.ats)} minutes on {self.workload}")


class Learning(AutoscalePolicy):
    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        return Hold("nothing is known of before")

    def learner(self, workload: Workload, /) -> Counting:
        return Counting(workload=workload)


class Failing(AutoscalePolicy):
    """One whose author has made a mistake, in a place that `at` names."""

    at: str

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        raise AssertionError("its learner decides")

    def learner(self, workload: Workload, /) -> "FailingLearner":
        if self.at == "learner":
            raise KeyError("no such model")
        return FailingLearner(self.at)


@dataclass(frozen=True)
class FailingLearner:
    at: str

    def after(self, minute: Minute, /) -> Self:
        if self.at == "after":
            raise KeyError("no such model")
        return self

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        raise KeyError("no such model")


@pytest.fixture
def noon(clock):
    """A clock that tests move, at noon of a day."""
    clock[0] += 12 * HOUR - (time.time() % (24 * HOUR))
    return clock


def running() -> Deployment:
    deployed = Deployment([structured(autoscale=Learning(max_executors=9))])
    overload(deployed, deployed.streams[0])
    return deployed


def counted(deployed: Deployment) -> int:
    text = deployed.tick().decided()
    return int(text.removeprefix("hold: ").partition(" ")[0])


class TestInTheSensor:
    def test_each_minute_counts_once_and_the_one_of_the_tick_is_known(self, noon):
        deployed = running()
        for number in range(1, 8):
            assert counted(deployed) == number
            noon[0] += 60

    def test_the_learner_knows_what_it_has_to_of_its_stream(self, noon):
        (stream,) = (deployed := running()).streams
        assert str(stream.workload) in deployed.tick().decided()
        assert stream.workload.batch_interval == stream.batch_interval

    def test_after_a_restart_of_the_code_location_it_has_learned_the_same(self, noon):
        deployed = running()
        deployed.passing(25, noon)
        stored = len(history(deployed.instance, KEY, time.time() - HOUR))
        again = replace(deployed)  # another process: its sensor remembers nothing
        assert 0 < stored < 25  # some are pending in the cursor
        assert counted(again) == counted(deployed) == 26

    def test_with_a_lost_cursor_what_was_stored_is_read_back(self, noon):
        deployed = running()
        deployed.passing(25, noon)
        stored = len(history(deployed.instance, KEY, time.time() - HOUR))
        again = replace(deployed, cursor=None)
        assert counted(again) == stored + 1

    def test_a_tick_that_was_tried_out_was_none(self, noon):
        deployed = running()
        deployed.passing(5, noon)
        cursor = deployed.cursor
        deployed.tick(stored=False)
        deployed.cursor = cursor
        noon[0] += 60
        assert counted(deployed) == 6

    def test_others_read_what_is_stored(self, noon):
        deployed = running()
        deployed.passing(25, noon)
        stored = len(history(deployed.instance, KEY, time.time() - HOUR))
        learned = learned_so_far(deployed.instance, deployed.streams, time.time(), 60.0)
        assert (
            learned["clicks"]
            .decide(Bounds(1, 9, 1), Evaluation(60))
            .reason.startswith(f"{stored} minutes")
        )
        assert learned_so_far(deployed.instance, deployed.streams, time.time(), 0.0) == {}

    def test_a_policy_that_learns_nothing_needs_no_reading(self, noon):
        deployed = Deployment([structured()])
        assert learned_so_far(deployed.instance, deployed.streams, time.time(), 60.0) == {}

    def test_until_they_are_read_back_the_policy_decides_by_itself(self, noon, monkeypatch):
        monkeypatch.setattr(learners_module, "READING", -1.0)
        monkeypatch.setattr(learners_module, "AT_LEAST", -1.0)
        deployed = running()
        assert deployed.tick().decided() == "hold: nothing is known of before"

    def test_they_are_read_back_though_looking_has_taken_all_the_time(self, noon, monkeypatch):
        monkeypatch.setattr(learners_module, "READING", -1.0)
        deployed = running()
        assert deployed.tick().decided() != "hold: nothing is known of before"

    def test_minutes_that_cannot_be_read_hide_no_other_stream(self, noon, monkeypatch):
        def broken(*_):
            raise OSError("the database is gone")

        monkeypatch.setattr(learners_module, "history", broken)
        deployed = running()
        lines = deployed.tick().data.skip_message.splitlines()
        assert "clicks: its minutes can't be read: OSError: the database is gone" in lines
        assert "clicks: hold: nothing is known of before" in lines

    def test_a_store_that_fails_is_asked_once_a_tick_of_a_stream(self, noon, monkeypatch):
        asked = []

        def broken(key):
            asked.append(key)
            raise OSError("the database is gone")

        # It asks for more executors, which waits for a run: so it is assessed twice.
        deployed = Deployment([structured(autoscale=CapacityPolicy(max_executors=9))])
        overload(deployed, deployed.streams[0])
        monkeypatch.setattr(
            tick_module, "in_flight", lambda *_: {"clicks": InFlight("stop run 1a2b3c4d")}
        )
        monkeypatch.setattr(deployed.instance, "has_asset_key", broken)
        lines = deployed.tick().data.skip_message.splitlines()
        held = "clicks: hold: stop run 1a2b3c4d is in progress; otherwise: scale to 5"
        assert any(line.startswith(held) for line in lines)
        assert asked == [KEY]
        assert lines.count("clicks: its minutes can't be read: OSError: the database is gone") == 1

    @pytest.mark.parametrize("at", ["learner", "after"])
    def test_a_learner_that_has_failed_begins_anew_in_the_next_block(self, noon, at, monkeypatch):
        deployed = Deployment([structured(autoscale=Failing(at=at, max_executors=9))])
        overload(deployed, deployed.streams[0])
        for _ in range(2):
            assert "could not decide" in deployed.tick().decided()
            noon[0] += 60
        monkeypatch.setattr(Failing, "learner", lambda *_: Counting())
        assert "could not decide" in deployed.tick().decided()  # by what it lacked it is mended
        noon[0] += BLOCK
        assert "minutes on None" in deployed.tick().decided()

    @pytest.mark.parametrize("at", ["learner", "after", "decide"])
    def test_a_learner_that_fails_is_a_policy_that_could_not_decide(self, noon, at):
        deployed = Deployment([structured(autoscale=Failing(at=at)), structured(name="views")])
        for stream in deployed.streams:
            overload(deployed, stream)
        for _ in range(2):
            tick = deployed.tick()
            why = "hold: Failing could not decide: KeyError: 'no such model'"
            assert tick.decided().startswith(why)
            noon[0] += 60
        assert tick.seen("views").ratio is not None

    @pytest.mark.parametrize("at", ["learner", "after"])
    def test_a_learner_that_ends_the_process_ends_no_tick(self, noon, at, monkeypatch):
        def end(*_):
            sys.exit("no license")

        monkeypatch.setattr({"learner": Failing, "after": FailingLearner}[at], at, end)
        deployed = Deployment([structured(autoscale=Failing(at="decide"))])
        overload(deployed, deployed.streams[0])
        for _ in range(2):
            why = "hold: Failing could not decide: SystemExit: no license"
            assert deployed.tick().decided().startswith(why)
            noon[0] += 60

    def test_a_learner_that_has_failed_keeps_nothing_of_the_ticks_since(self):
        stream = structured(autoscale=Failing(at="learner"))
        learners = Learners()
        learners.tick([stream.name], 0.0)
        of = learners.of(dg.DagsterInstance.ephemeral(), stream, StreamMemory())
        lengths = set()
        for _ in range(3):
            with pytest.raises(KeyError) as failed:
                of.decide(Bounds(1, 9, 1), Evaluation(60))
            lengths.add(len(traceback.extract_tb(failed.value.__traceback__)))
        assert len(lengths) == 1


minutes = st.lists(st.integers(0, 60 * BLOCK // 60), unique=True, max_size=40).map(sorted)


@given(minutes)
def test_whoever_reads_the_last_two_blocks_back_has_learned_the_same(numbers):
    learned = Learned.of(Counting())
    ats = [number * 60 for number in numbers]
    for at in ats:
        learned = learned.after(Minute(at))
    if not ats:
        return
    read_back = Learned.of(Counting())
    for at in ats:
        if at >= since(ats[-1]):
            read_back = read_back.after(Minute(at))
    assert learned == read_back
    assert learned.of_two.ats == tuple(at for at in ats if at >= since(ats[-1]))


def test_six_to_twelve_hours_count():
    start = 1000 * BLOCK
    assert since(start) == start - BLOCK
    assert since(start + BLOCK - 1) == start - BLOCK
