"""What a driver is told of its checkpoint on its command line."""

from dataclasses import replace

from dagster_sparkscale.clusters.launch.driver_options import fence_options
from dagster_sparkscale.clusters.records.starts import EpochStart
from dagster_sparkscale.clusters.records.store import Record

RECORD = Record("abc", 3, "running", 0.0, "here", (), checkpoint="file:///c")


MINE = EpochStart(RECORD, ("abc", 2), ("clicks", RECORD))


def test_it_is_told_whose_mark_it_makes_and_whose_it_may_step_over() -> None:
    assert fence_options(EpochStart(RECORD)) == ["--record", "abc"]
    assert fence_options(MINE) == ["--record", "abc", "--succeeds", "abc:2"]


def test_without_a_checkpoint_it_is_told_nothing_of_one() -> None:
    assert fence_options(EpochStart(replace(RECORD, checkpoint=None))) == []


def test_it_waits_for_one_before_that_nobody_has_seen_end() -> None:
    def waits(gone: int) -> bool:
        before = "renamed", replace(RECORD, id="def", gone=gone)
        return "--outwait" in fence_options(EpochStart(RECORD, ("def", 2), before))

    assert fence_options(MINE, unseen=True)[-2:] == ["--outwait", "45"]
    # Declared gone; not an earlier one.
    assert waits(2) and waits(3) and not waits(1) and not waits(0)
    gone = replace(RECORD, gone=2)
    assert "--outwait" in fence_options(EpochStart(gone, ("abc", 2), ("clicks", gone)))
    # Of a stream of which nothing is remembered it is not known.
    assert "--outwait" in fence_options(EpochStart(RECORD, ("def", 2)))
