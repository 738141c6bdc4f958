"""How a change of state is made, by what is declared and what the driver says."""

from dataclasses import replace

import pytest

from dagster_sparkscale.driver.state.beside.limits import Limits
from dagster_sparkscale.state.plan import Asked
from tests.fakes import batch
from tests.state.planning import changed
from tests.state.saying import change, kept_by, stateful

CAN = {"counts": None}


def way(declared=None, **fields):
    return changed(declared, **fields).way


def test_is_in_place_where_the_driver_can():
    assert way(in_place=CAN).in_place


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (None, "of an older release, which changes state at its start alone"),
        ({}, "query 'counts': was not started by PySpark, so the driver can't start it again"),
        ({"counts": "its writer was changed"}, "query 'counts': its writer was changed"),
    ],
)
def test_is_by_a_restart_where_the_driver_can_t_and_says_why(known, why):
    found = way(in_place=known)
    assert not found.in_place
    assert found.line.startswith("by a restart of the driver: ") and found.line.endswith(why)


def test_is_by_a_restart_where_that_is_declared():
    found = way(stateful(standstill="restart"), in_place=CAN)
    assert found.line == ("by a restart of the driver: state.standstill = 'restart' is declared")


def test_is_for_the_queries_that_are_changed_alone():
    queries = (kept_by("a"), kept_by("b"))
    known = {"a": None, "b": "its writer was changed"}
    found = changed(None, *queries, in_place=known, asked=Asked(query="a"))
    assert found.way.in_place
    assert not changed(None, *queries, in_place=known).way.in_place


def test_in_place_takes_less_and_says_so():
    found = changed(in_place=CAN)
    assert found.seconds == pytest.approx(3 + 4 + 2.1)
    assert found.lines[1].startswith("in place: the driver runs on")
    assert found.lines[2].startswith("the stream stands still for about 9 s: a rough estimate")


def test_of_several_queries_each_stands_still_for_its_own_change():
    queries = (kept_by("a", rows=100_000), kept_by("b", rows=2_000_000))
    found = changed(None, *queries, in_place={"a": None, "b": None})
    assert found.seconds == pytest.approx(3.4 + 11 + 2 * 2.1)
    assert found.lines[3].startswith("each of these queries stands still for about 13 s")


@pytest.mark.parametrize(("earlier", "seconds"), [("in place", 9), ("restart", 9.1)])
def test_is_estimated_by_an_earlier_change_of_the_same_way(earlier, seconds):
    took = {"preparing": 50.0, "ending": 20.0, "rewriting": 8.0, "starting": 1.0}
    before = change(seconds=took, way=earlier)
    assert changed(in_place=CAN, reconfigurations=(before,)).seconds == seconds


LARGE = (kept_by("counts", rows=10_000_000, operators=("stateStoreSave",)),)


def test_is_beside_the_stream_where_the_state_is_large_and_the_driver_can():
    found = changed(None, *LARGE, in_place=CAN, beside=CAN)
    assert (found.way.name, found.way.why_in_place) == ("beside the stream", None)
    assert found.lines[1].startswith("beside the stream: a copy of the state is changed while")
    assert found.lines[2].startswith("the stream stands still for about 16 s: a rough estimate")
    assert found.way.limits == Limits(500_000, False, 900.0)


@pytest.mark.parametrize(
    ("query", "beside", "why"),
    [
        (LARGE[0], None, "the driver is of an older release, which does not do that"),
        (LARGE[0], {}, "query 'counts': the driver has not looked at it"),
        (LARGE[0], {"counts": "it reads from 'rate'"}, "query 'counts': it reads from 'rate'"),
        (
            kept_by("counts", rows=1000),
            CAN,
            "query 'counts': its 1,000 rows are fewer than 500,000: in place takes less in all",
        ),
        (
            kept_by("counts", rows=10**6, operators=("applyInPandasWithState",)),
            CAN,
            "query 'counts': its program's own state functions (applyInPandasWithState) would be "
            "called a second time with the same rows: State(replay=True) allows that",
        ),
    ],
)
def test_is_in_place_where_it_can_t_be_beside_the_stream_and_says_why(query, beside, why):
    found = changed(None, query, in_place=CAN, beside=beside)
    assert (found.way.name, found.way.why_in_place) == ("in place", why)
    assert found.lines[1].endswith(f"Not beside the stream: {why}")


def test_the_driver_is_asked_in_any_case_as_one_query_may_be_and_another_not():
    queries = (kept_by("a", rows=10**7), kept_by("b", rows=10))
    found = changed(None, *queries, in_place={"a": None, "b": None}, beside={"a": None, "b": None})
    assert found.way.name == "in place" and found.way.limits is not None


def test_is_beside_the_stream_as_it_is_declared():
    declared = stateful(beside_rows=100, replay=True, within="10m")
    own = kept_by("counts", rows=1000, operators=("transformWithStateInPandasExec",))
    found = changed(declared, own, in_place=CAN, beside=CAN)
    assert found.way.name == "beside the stream"
    assert found.way.limits == Limits(100, True, 300.0)
    declared = stateful(standstill="restart")
    assert changed(declared, *LARGE, in_place=CAN, beside=CAN).way.limits is None


@pytest.mark.parametrize(
    ("seconds", "interval", "known", "way"),
    [
        (8.0, 10_000, {"beside": CAN}, "in place"),
        (6.0, 10_000, {"beside": CAN}, "beside the stream"),
        (8.0, None, {"beside": CAN}, "beside the stream"),
        (0.5, 0, {"beside": CAN}, "in place"),
    ],
)
def test_is_in_place_where_batches_leave_nothing_to_spare(seconds, interval, known, way):
    query = replace(LARGE[0], interval_ms=interval)
    batches = (batch(90.0, ago=60.0, cold=True), batch(seconds), batch(50.0, query="another"))
    found = changed(None, query, in_place=CAN, batches=batches, **known)
    assert found.way.name == way
    busy = stateful(beside_executors=2)
    more = changed(busy, query, in_place=CAN, batches=batches, **known)
    assert interval == 0 or more.way.beside


def test_is_beside_the_stream_as_far_as_is_known_where_no_batch_has_completed():
    query = replace(LARGE[0], interval_ms=10_000)
    assert changed(None, query, in_place=CAN, beside=CAN).way.beside
