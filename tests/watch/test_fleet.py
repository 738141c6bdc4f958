"""The rows of the fleet, their order, and what programs read of them."""

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.records.steering import Steered
from dagster_sparkscale.clusters.records.store import DurableHold, Record, Submission
from dagster_sparkscale.declare.drift import declared
from dagster_sparkscale.observe.status import Limit, Query
from dagster_sparkscale.watch.fleet.orphan import Orphan
from dagster_sparkscale.watch.fleet.rows import (
    Row,
    as_dicts,
    in_trouble,
    orphan_row,
    row,
    worst_first,
)
from dagster_sparkscale.watch.sighting import Sighting
from tests.fakes import QUERY, batch, driver, scaled, status, structured
from tests.state.saying import change
from tests.watch.assessing import assess
from tests.watch.fleets import NOW, failing, fleets, line

STREAM = scaled(max_executors=8)
DAY = 86400.0


def seen(sighting=None, stream=STREAM, now=NOW, operation=None, due=True, **fields):
    """The row of a stream whose agent says this."""
    sighting = sighting or Sighting("clicks", driver(), status(**fields))
    found = assess(stream, sighting, now=now, due=due, operation=operation)
    return row(found, operation=operation)


class TestARow:
    def test_of_a_running_stream_has_what_was_measured(self):
        made = seen(batches=(batch(5),), stream=scaled("clicks", max_executors=8))
        assert made == Row(
            stream="clicks",
            asset=("clicks",),
            state="running",
            seen_at=NOW,
            since=1000.0,
            epoch=1,
            ratio=0.5,
            taken_rate=made.taken_rate,
            possible_rate=made.possible_rate,
            registered=2,
            requested=2,
            maximum=8,
            decision="hold",
            reason=made.reason,
            untold=("lag_within_limit", "no_data_lost", "declaration_applied"),
        )
        assert made.reason
        assert made.taken_rate and made.possible_rate

    def test_has_the_maximum_that_its_driver_was_started_with(self):
        started = driver(declared=declared(scaled(max_executors=4)))
        sighting = Sighting("clicks", started, status())
        assert seen(sighting).maximum == 4
        stopped = Sighting("clicks", replace(started, state=DriverState.STOPPED))
        assert seen(stopped).maximum == 8

    def test_has_how_far_behind_it_is_and_which_failure_it_is(self):
        behind = Query(QUERY, active=True, behind_ms=4000, source_lost=2)
        made = seen(batches=(batch(5),), queries=(behind,))
        assert made.lag == 4.0
        assert [(each.check, each.mark) for each in made.failing] == [("no_data_lost", "2")]

    def test_has_what_it_may_take_and_whether_it_does(self):
        limit = Limit("s", query=QUERY, rate=20.0, by="set")
        full = replace(batch(5), records=200, limit=200.0)
        queries = (Query(QUERY, active=True),)
        made = seen(batches=(full,), queries=queries, limits=(limit,))
        assert (made.limit, made.limit_set, made.throttled) == (20.0, True, True)
        estimated = replace(limit, by="estimator")
        half = replace(full, records=100)
        made = seen(batches=(half,), queries=queries, limits=(estimated,))
        assert (made.limit, made.limit_set, made.throttled) == (20.0, False, False)
        made = seen(batches=(batch(5),), queries=queries)
        assert (made.limit, made.limit_set, made.throttled) == (None, False, False)

    def test_what_was_not_measured_is_none_and_never_zero(self):
        made = seen(Sighting("clicks", error="no route to host"))
        assert (made.ratio, made.lag, made.registered, made.requested) == (None,) * 4
        assert (made.since, made.epoch, made.restarts) == (None,) * 3
        assert (made.state, made.note) == ("unknown", "no route to host")

    def test_of_one_that_failed_says_since_when_and_why(self):
        failed = driver(DriverState.FAILED, 3, ended_at=1990.0, exit_reason="exit code 1")
        made = seen(Sighting("clicks", failed))
        assert (made.state, made.since, made.epoch, made.gave_up) == ("failed", 1990.0, 3, False)
        assert made.note == "driver 3 failed (exit code 1); restart 1 of 5"

    def test_of_one_given_up_says_so(self):
        failed = driver(DriverState.FAILED, 9, ended_at=1990.0)
        history = tuple(Submission(n, 1900.0 + n, "recovery") for n in range(9))
        made = seen(Sighting("clicks", failed, history=history))
        assert made.gave_up
        assert "giving up" in made.note

    @pytest.mark.parametrize(
        ("ended", "asked", "since"),
        [
            (1990.0, 1980.0, 1990.0),  # it took its time to end
            (1100.0, 1980.0, 1980.0),  # it had failed long before
            (None, 1980.0, 1980.0),
            (1990.0, None, 1990.0),  # a cluster manager that does not tell
            (None, None, None),
        ],
    )
    def test_of_one_that_is_stopped_says_since_when(self, ended, asked, since):
        stopped = driver(DriverState.STOPPED, ended_at=ended, asked_to_stop_at=asked)
        assert seen(Sighting("clicks", stopped)).since == since

    def test_of_one_that_nobody_restarts_is_given_up_too(self):
        failed = driver(DriverState.FAILED, ended_at=1990.0)
        made = seen(Sighting("clicks", failed), structured(recovery=None))
        assert made.gave_up

    def test_counts_the_restarts_of_a_day(self):
        now = 10 * DAY
        at = (now - 2 * DAY, now - DAY, now - DAY + 1, now - 5)
        made = seen(Sighting("clicks", driver(restarted_at=at), status()), now=now)
        assert made.restarts == 2
        none = seen(Sighting("clicks", driver(restarted_at=()), status()))
        assert none.restarts == 0

    def test_has_what_failed_the_urgent_first(self):
        hanging = status(spark_age=500.0, batches=(batch(30),))
        made = seen(Sighting("clicks", driver(), hanging))
        assert [each.urgent for each in made.failing] == sorted(
            (each.urgent for each in made.failing), reverse=True
        )
        assert {each.check for each in made.failing} == {"running", "ratio_below_one"}
        assert "Spark has not answered" in made.note

    def test_of_one_that_fails_while_it_is_steered_says_both(self):
        frozen = {"freeze": Steered("ann", "the sink is moved", NOW - 60)}
        record = replace(Record.new("clicks"), steering=frozen)
        made = seen(Sighting("clicks", driver(record=record), status(spark_age=500.0)))
        said = "frozen by ann until it is resumed (the sink is moved)"
        assert made.note.startswith(made.failing[0].text) and made.note.endswith(f"; {said}")

    def test_of_a_stream_with_a_prefix_has_its_assets_key(self):
        assert seen(stream=structured(key_prefix=("web",))).asset == ("web", "clicks")


OVERLOADED = {"batches": (batch(25),), "started_at": 0.0}


class TestWhatWaits:
    def test_an_operation_in_flight(self):
        made = seen(operation="rescale run 1a2b", **OVERLOADED)
        assert made.waits == "rescale run 1a2b is in progress"
        assert not made.acts
        held = seen(operation="stop run 1a2b", batches=(batch(6),))
        assert held.waits == "stop run 1a2b is in progress"

    def test_a_change_of_state_says_how_far_it_is(self):
        doing = {"reconfigurations": (change(step="rewriting"),)}
        words = "reconfiguring the state of query 'counts': rewriting"
        run = "reconfigure_state run 1a2b"
        assert seen(operation=run, **doing).waits == f"{run} is in progress: {words}"
        assert seen(**doing).waits == words, "as where recovery undoes it"

    def test_a_change_of_state_is_told_before_what_fails_meanwhile(self):
        doing = {"reconfigurations": (change(step="catching up"),), **OVERLOADED}
        made = seen(operation="reconfigure_state run 1a2b", **doing)
        assert made.note == f"{made.waits}; R is 2.50"

    def test_a_decision_that_is_not_due(self):
        made = seen(due=False, **OVERLOADED)
        assert made.waits == "not due yet"

    def test_a_run_that_is_asked_for(self):
        made = seen(**OVERLOADED)
        assert (made.acts, made.waits) == (True, "a run of rescale is asked for")

    @pytest.mark.parametrize(
        ("asked", "text"),
        [(2, None), (3, "1 executor to come"), (5, "3 executors to come"), (1, None)],
    )
    def test_executors(self, asked, text):
        made = seen(requested=asked, batches=(batch(7),))
        assert made.waits == text

    def test_executors_that_leave_do_not_come(self):
        assert seen(requested=2, removing=1, batches=(batch(7),)).waits == "1 executor to come"

    def test_a_durable_hold(self):
        hold = DurableHold("resize run 1a2b", "moving the state", "run it again", 1.0)
        made = seen(Sighting("clicks", driver(DriverState.STOPPED, hold=hold)))
        assert made.waits == "held by resize run 1a2b, in the middle of: moving the state"
        assert made.note == made.waits


def test_an_orphan_has_a_row_too():
    broken = orphan_row(Orphan(driver(DriverState.UNKNOWN, 0, stream="old"), ("old",)), now=NOW)
    assert (broken.epoch, broken.since) == (None, None)
    orphan = Orphan(driver(stream="old", restarted_at=(NOW - 5,)), ("web", "old"))
    made = orphan_row(orphan, now=NOW)
    assert (made.stream, made.asset, made.state, made.epoch) == ("old", ("web", "old"), "orphan", 1)
    assert (made.seen_at, made.since, made.restarts, made.decision) == (NOW, 1000.0, 1, "")
    assert made.note.startswith("orphan: driver 1 is running")


WORST_FIRST = [
    line(stream="z", state="failed", gave_up=True),
    line(stream="y", state="failed"),
    line(stream="x", failing=(failing(urgent=True), failing())),
    line(stream="va", state="unknown", failing=(failing("running", True),)),
    line(stream="vb", failing=(failing("running", True),)),
    line(stream="u", state="orphan"),
    line(stream="t", failing=(failing(),), ratio=1.5),
    line(stream="s", failing=(failing(),), ratio=1.2, lag=9.0),
    line(stream="r", failing=(failing(),), ratio=1.2, lag=3.0),
    line(stream="q", state="starting", failing=(failing("running", True),)),
    line(stream="p", state="starting"),
    line(stream="a", ratio=0.5),
    line(stream="b", ratio=0.5),
    line(stream="o", lag=5.0),
    line(stream="n"),
    line(stream="m", state="stopped", failing=(failing("running"),)),
    line(stream="l", state="not started"),
]


@pytest.mark.parametrize("seed", range(5))
def test_the_worst_comes_first(seed):
    shuffled = list(WORST_FIRST)
    random.Random(seed).shuffle(shuffled)
    assert worst_first(shuffled) == WORST_FIRST


@given(fleets, st.randoms())
def test_the_order_does_not_depend_on_the_one_they_came_in(fleet, shuffle):
    other = list(fleet)
    shuffle.shuffle(other)
    assert worst_first(other) == worst_first(fleet)
    trouble = [in_trouble(each) for each in worst_first(fleet)]
    assert trouble == sorted(trouble, reverse=True)


@given(fleets)
def test_the_dicts_are_json(fleet):
    dicts = json.loads(json.dumps(as_dicts(fleet), allow_nan=False))
    assert [each["stream"] for each in dicts] == [each.stream for each in fleet]


def test_one_that_starts_or_is_stopped_is_in_trouble_only_if_something_failed():
    found = (failing("ratio_below_one"),)
    assert in_trouble(line(state="starting", failing=found))
    assert not in_trouble(line(state="starting"))
    assert not in_trouble(line(state="stopped", failing=found))


def test_nothing_is_the_matter_with_one_that_holds():
    assert line(decision="hold", reason="R is 0.60").note == ""
    assert line(decision="scale to 4", reason="R is 0.95", acts=True).note == "R is 0.95"
