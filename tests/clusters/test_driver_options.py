"""What a driver is told of its checkpoint on its command line."""

from dataclasses import replace

from dagster_sparkscale.clusters.driver_options import fence_options
from dagster_sparkscale.clusters.starts import Start
from dagster_sparkscale.clusters.store import Record

RECORD = Record("abc", 3, "running", 0.0, "here", (), checkpoint="file:///c")


def test_it_is_told_whose_mark_it_makes_and_whose_it_may_step_over() -> None:
    assert fence_options(Start(RECORD)) == ["--record", "abc"]
    assert fence_options(Start(RECORD, ("abc", 2))) == ["--record", "abc", "--succeeds", "abc:2"]


def test_without_a_checkpoint_it_is_told_nothing_of_one() -> None:
    assert fence_options(Start(replace(RECORD, checkpoint=None))) == []


def test_it_waits_for_one_before_that_nobody_has_seen_end() -> None:
    waits = ["--record", "abc", "--succeeds", "abc:2", "--outwait", "45"]
    assert fence_options(Start(RECORD, ("abc", 2)), unseen=True) == waits
    gone = replace(RECORD, gone=2)
    assert fence_options(Start(gone, ("abc", 2))) == waits
    # Not for a later one, nor for that of another stream, whose epochs are others.
    assert "--outwait" not in fence_options(Start(replace(gone, gone=1), ("abc", 2)))
    assert "--outwait" not in fence_options(Start(gone, ("def", 2)))
