"""What is tried on a stream: policies, fixed numbers, other loads, and what is said of each."""

from dataclasses import replace
from itertools import pairwise

import pytest

from dagster_sparkscale.advice import text
from dagster_sparkscale.advice.backtest import run_backtest
from dagster_sparkscale.advice.specs import application_of, declaration, named
from dagster_sparkscale.backtest.loads import constant
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.learner import Workload
from tests.advice.recorded import STREAM, application, recorded, waves


def still(executors=3):
    return named(f"fixed:executors={executors}", STREAM)


def test_what_was_recorded_is_counted_by_its_minutes():
    minutes = [
        replace(each, throttled="counts") if number % 10 == 0 else each
        for number, each in enumerate(recorded())
    ]
    found = run_backtest(minutes, STREAM, ["fixed:executors=19"], most_late=5)
    ran, asked = found.ran, [each.requested for each in minutes]
    assert ran.minutes == len(minutes)
    assert ran.rescales == sum(one != other for one, other in pairwise(asked))
    assert ran.longest_delay == max(each.delay or 0 for each in minutes)
    assert ran.doubtful == sum(each.throttled is not None for each in minutes)
    assert f"{ran.doubtful} of {ran.minutes} minutes say little" in "".join(text.believed(found))
    # Nobody has ever seen it on so many.
    assert max(each.registered for each in minutes) < 19
    assert found.outcomes[1].unseen > 90 > found.outcomes[0].unseen
    dear = replace(found, outcomes=(found.outcomes[1],))
    assert next(text.notes(dear)).startswith("executors=19: ")


def test_the_part_that_is_held_out_may_be_another():
    half, most = (run_backtest(recorded(), STREAM, held_out=share) for share in (0.5, 0.2))
    assert half.replay.held_out.minutes > 2 * most.replay.held_out.minutes
    ran = [each.declared.held_out.executor_hours for each in (half, most)]
    assert ran[0] > 1.8 * ran[1]
    for share in (0.0, 1.0):
        with pytest.raises(ValueError, match="held_out"):
            run_backtest(recorded(), STREAM, held_out=share)


def test_a_load_needs_no_history_where_the_application_is_known():
    found = run_backtest([], STREAM, ["capacity"], load=waves(2), application=application())
    assert found.replay is None and len(found.outcomes) == 2
    assert [*text.believed(found)] == []
    assert text.as_dict("clicks", found)["replay"] is None
    with pytest.raises(ValueError, match="load = None"):
        run_backtest([], STREAM, application=application())


def test_a_stream_without_a_policy_keeps_its_executors():
    load, known = constant(500.0, 3600.0), application()
    found = run_backtest([], still(4), ["ratio:max_executors=4"], load=load, application=known)
    declared, ratio = found.outcomes
    assert declared.whole.rescales == 0
    assert declared.whole.executor_hours == pytest.approx(4.0)
    assert ratio.name == "RatioPolicy(max_executors=4)"
    assert ratio.whole.executor_hours < 4


def test_what_is_late_is_told_to_declare_what_is_not():
    load, known = constant(5000.0, 3600.0), application()
    found = run_backtest([], still(2), ["fixed:executors=12"], load=load, application=known)
    assert text.is_late(found)
    assert text.conclusion("clicks", found).startswith("clicks: declare executors=12 (")


def test_a_limit_hides_what_whoever_knew_the_load_would_have_needed():
    load, known = constant(500.0, 3600.0), application(max_records=100_000)
    found = run_backtest([], still(2), load=load, application=known)
    assert found.oracle_hours is None
    assert "a limit keeps records back" in "".join(text.notes(found))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("fixed:cores=4", "must be as fixed:executors=4"),
        ("fixed:executors=x", "executors"),
        ("declared:max_executors=3", "clicks has no policy"),
    ],
)
def test_what_a_stream_can_not_have_is_said(line, fault):
    with pytest.raises(DeclarationError, match=fault):
        named(line, still())


def test_a_number_of_executors_is_declared_as_one():
    assert declaration(still(4)) == "executors=4"
    assert named("declared", still()) == still()


def test_an_application_in_a_line():
    workload = Workload(10.0, 2)
    found = application_of("overhead=0.8,work=0.003,partitions=64,queues=false", workload)
    assert (found.overhead, found.partitions, found.queues) == (0.8, 64, False)
    for line, fault in (
        ("work=1,partitions=2", "must have overhead"),
        ("overhead=1,work=1,wrok=2", "'wrok': must be one of overhead, work"),
        ("overhead=1,work=fast", "work = 'fast': must be a number"),
        ("overhead=1,work=-1,partitions=1", "work = -1: must be seconds"),
        ("overhead=1,work=1", "partitions = None: must be given"),
    ):
        with pytest.raises(ValueError, match=fault):
            application_of(line, workload)
