"""How many receivers the next driver starts, and in which checkpoint folder."""

from dataclasses import replace
from typing import Any

import pytest

from dagster_sparkscale.clusters.launch.spark_settings import settings
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.declare.drift import declared
from dagster_sparkscale.declare.receivers import ReceiverCount, ReceiverPolicy
from dagster_sparkscale.in_force.receiver_counts import (
    at_start,
    changed,
    count_of,
    in_force,
    put_back,
    settings_of,
)
from tests.declare.test_receivers import counting
from tests.fakes import dstream, structured

NUMBER, GENERATION = "spark.sparkscale.receivers", "spark.sparkscale.receivers.generation"
REMOVAL = "spark.sparkscale.receivers.removal"


def record(**fields: Any) -> Record:
    plain: dict[str, Any] = {"epoch": 3, "receivers": 2, "receivers_declared": 2}
    return replace(Record.new("x"), **{**plain, **fields})


def started(
    stream: Any, before: Record, drained: bool | None = True
) -> tuple[int | None, int, tuple[str, ...]]:
    """Number and generation of a start, and what is said."""
    now, lines = at_start(before, stream, drained)
    return now.receivers, now.receivers_generation, lines


def test_a_stream_that_counts_remembers_its_number_from_the_first_start_on() -> None:
    now, _ = at_start(Record.new("x"), counting(), None)
    assert (now.receivers, now.receivers_declared, now.receivers_generation) == (2, 2, 0)


@pytest.mark.parametrize("stream", [dstream(receivers=2), structured(), dstream()])
def test_any_other_has_none_to_remember(stream: Any) -> None:
    assert at_start(Record.new("x"), stream, True) == (Record.new("x"), ())
    assert count_of(stream) is None


def test_what_was_set_stands_while_the_declaration_does() -> None:
    before = changed(record(), counting(), 4)
    for drained in (True, False, None):
        assert started(counting(), before, drained) == (4, 1, ())


def test_another_declaration_is_in_force_once_all_was_processed() -> None:
    before = changed(record(), counting(), 4)
    line = "receivers 4 -> 3, as it is declared now"
    assert started(counting(3), before) == (3, 2, (line,))
    assert started(counting(3), at_start(before, counting(3), True)[0]) == (3, 2, ())


@pytest.mark.parametrize("drained", [False, None])
def test_before_that_the_number_stays_with_its_checkpoint_and_it_is_said(
    drained: bool | None,
) -> None:
    before = changed(record(), counting(), 4)
    now, (line,) = at_start(before, counting(3), drained)
    assert (now.receivers, now.receivers_generation) == (4, 1)
    assert line.startswith("receivers: 3 by what is declared now, but the driver before did not")
    assert started(counting(3), now)[:2] == (3, 2), "the next start has it"


def test_a_number_outside_new_bounds_is_brought_into_them() -> None:
    before = changed(record(), counting(), 4)
    stream = counting(count=ReceiverCount(maximum=3))
    assert started(stream, before)[:2] == (3, 2)
    assert started(stream, before, False)[:2] == (4, 1)


def test_where_nothing_counts_any_more_the_declared_number_is_in_force_again() -> None:
    before = changed(record(), counting(), 4)
    plain = dstream(receivers=2)
    assert started(plain, before)[:2] == (2, 2)
    assert started(plain, before, None)[:2] == (4, 1), "not before all is processed"


def test_one_that_begins_to_count_goes_on_with_the_checkpoint_that_it_has() -> None:
    before = record(
        receivers=None, receivers_declared=None, declared=declared(dstream(receivers=2))
    )
    assert started(counting(), before, None) == (2, 0, ())
    assert started(counting(3), before)[:2] == (3, 1)
    kept, _ = at_start(before, counting(3), None)
    assert (kept.receivers, kept.receivers_declared, kept.receivers_generation) == (2, 2, 0)
    assert started(counting(3), kept)[:2] == (3, 1)


@pytest.mark.parametrize("declared", [None, {}, {"receivers": "many"}])
def test_what_an_older_release_did_not_remember_is_taken_to_be_as_declared(
    declared: dict[str, str] | None,
) -> None:
    before = record(receivers=None, receivers_declared=None, declared=declared)
    assert started(counting(), before, None) == (2, 0, ())


@pytest.mark.parametrize("drained", [False, None])
def test_one_that_had_no_receivers_begins_with_those_that_are_declared_now(
    drained: bool | None,
) -> None:
    before = record(receivers=None, receivers_declared=None, declared=declared(dstream()))
    assert started(counting(), before, drained) == (2, 0, ())
    assert started(counting(), before, True)[:2] == (2, 1), "with a checkpoint of its own"


def test_a_folder_that_was_begun_is_never_taken_again() -> None:
    before = record()
    tried = changed(before, counting(), 4)
    back = put_back(tried, before)
    assert (back.receivers, back.receivers_declared, back.receivers_generation) == (2, 2, 0)
    again = changed(back, counting(), 4)
    assert (again.receivers, again.receivers_generation) == (4, 2)


def test_a_driver_knows_its_number_and_generation() -> None:
    before = changed(record(), counting(), 4)
    assert settings_of(counting(), before) == {NUMBER: "4", GENERATION: "1"}
    assert (in_force(counting(), before), in_force(counting(), Record.new("x"))) == (4, None)
    assert settings_of(counting(), Record.new("x")) == {}
    assert settings_of(structured(), before) == {}


def test_and_what_is_declared_before_any_was_set() -> None:
    made = settings(counting(), 1, "local")
    assert (made[NUMBER], made[REMOVAL]) == ("2", "fitting")
    assert GENERATION not in made
    plain = settings(dstream(receivers=3), 1, "local")
    assert plain[NUMBER] == "3" and REMOVAL not in plain
    policy = ReceiverPolicy()
    assert settings(dstream(receivers=3, receiver_policy=policy), 1, "local")[REMOVAL] == "never"
    assert NUMBER not in settings(dstream(), 1, "local")
