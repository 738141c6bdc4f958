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
