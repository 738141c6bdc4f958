"""A deadline passes soon where nothing happens, and late where others use the machine."""

import itertools

import pytest

from tests.waiting import Deadline, share, wait_for


@pytest.mark.parametrize(
    ("loadavg", "cores", "expected"),
    [
        ("0.00 0.01 0.05 1/300 4711", 2, 1.0),
        ("1.90 0.01 0.05 2/300 4711", 2, 1.0),
        ("9.90 8.00 7.00 10/300 4711", 2, 0.2),
        ("9.90 8.00 7.00 4000/9000 4711", 2, 1 / 40),
        ("0.00 0.00 0.00 0/0 0", 2, 1.0),
    ],
)
def test_a_program_gets_its_share_of_the_processors(
    loadavg: str, cores: int, expected: float
) -> None:
    assert share(loadavg, cores) == pytest.approx(expected)


@pytest.mark.parametrize(("share", "looks"), [(1.0, 11), (0.5, 21), (0.1, 101)])
def test_a_deadline_is_as_much_later_as_the_machine_is_busy(share: float, looks: int) -> None:
    clock = itertools.count().__next__
    deadline = Deadline(10.0, lambda: float(clock()), lambda: share)
    assert next(n for n in itertools.count(1) if deadline.passed()) == pytest.approx(looks, abs=1)


def test_what_is_true_is_returned_at_once() -> None:
    assert wait_for("seven", lambda: 7, seconds=0) == 7


def test_what_never_comes_is_told_with_what_was_seen_and_more() -> None:
    with pytest.raises(AssertionError, match=r"(?s)waited 0.01 s for rain; last seen: \[\].*a log"):
        wait_for("rain", lambda: list[int](), 0.01, every=0.001, about=lambda: "a log")
