"""Commits under random schedules: what may be committed, and what never."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.sources.kinesis.dstream.commits import Commits, Patience, Planned
from dagster_sparkscale.sources.kinesis.positions import Kind, Offset, Position

START = Offset("s", {"a": Position(Kind.TRIM)})


def at(number: int) -> Offset:
    return Offset("s", {"a": Position(Kind.AFTER, str(number))})


def planned(time_ms: int, empty: bool = False) -> Planned:
    return Planned(time_ms, at(time_ms), covered_ms=1000.0, empty=empty)


@dataclass
class Scheduler:
    """What Spark does: makes jobs, runs them, some at a time, and tells of it, or forgets to.

    A batch is of the time at which its jobs were made; where the stream slides, these use what was
    planned for the times before it too.
    """

    commits: Commits = field(default_factory=lambda: Commits(START))
    made: dict[int, list[int]] = field(default_factory=dict)
    """By batch time, the times whose records its jobs use."""
    running: list[int] = field(default_factory=list)
    succeeded: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    time_ms: int = 0

    def make(self, slide: int) -> None:
        times = [self.time_ms + 1000 * (step + 1) for step in range(slide)]
        for time_ms in times:
            self.commits.planned(planned(time_ms))
        self.time_ms = times[-1]
        self.made[self.time_ms] = times
        self.running.append(self.time_ms)

    def run(self, which: int, told: bool, works: bool) -> None:
        time_ms = self.running[which]
        if not works:
            # Its jobs stay where they are; that the context has an error is seen with every event.
            self.failed.add(time_ms)
            self.running.pop(which)
            if told:
                self.commits.failed(f"{time_ms}")
            return
        self.running.pop(which)
        self.succeeded.add(time_ms)
        if not told:
            return
        if self.failed:
            self.commits.failed("the context has an error")
        self.commits.succeeded(time_ms, {*self.running, *self.failed})

    def check(self) -> None:
        committed = self.commits.committed
        if committed == START:
            return
        upto = int(committed.shards["a"].sequence or 0)
        for time_ms, used in self.made.items():
            if min(used) <= upto:
                assert time_ms in self.succeeded, f"{time_ms} is not done, {upto} is committed"


@st.composite
def schedules(draw: st.DrawFn) -> list[tuple[str, int, bool, bool]]:
    actions = st.tuples(
        st.sampled_from(["make", "make", "run"]),
        st.integers(0, 5),
        st.sampled_from([True, True, True, False]),
        st.sampled_from([True] * 9 + [False]),
    )
    return draw(st.lists(actions, max_size=60))


@given(schedules(), st.integers(1, 4))
@settings(max_examples=400, deadline=None)
def test_nothing_is_committed_that_is_not_done(
    schedule: list[tuple[str, int, bool, bool]], jobs: int
) -> None:
    spark = Scheduler()
    for what, number, told, works in schedule:
        if what == "make":
            spark.make(slide=number % 3 + 1)
        elif spark.running:
            spark.run(number % min(jobs, len(spark.running)), told, works)
        spark.check()


@given(schedules(), st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_all_is_committed_once_the_last_batch_is_told_of(
    schedule: list[tuple[str, int, bool, bool]], jobs: int
) -> None:
    """Whatever events Spark has dropped before."""
    spark = Scheduler()
    for what, number, told, _ in schedule:
        if what == "make":
            spark.make(slide=number % 3 + 1)
        elif spark.running:
            spark.run(number % min(jobs, len(spark.running)), told, works=True)
    while spark.running:
        spark.run(0, told=False, works=True)
    spark.make(slide=1)
    spark.run(0, told=True, works=True)
    spark.check()
    assert spark.commits.committed == at(spark.time_ms)
    assert spark.commits.unfinished() == 0


def test_in_order_whatever_ends_first() -> None:
    commits = Commits(START)
    for time_ms in (1, 2, 3):
        commits.planned(planned(time_ms))
    assert commits.succeeded(2, {1, 3}) == []
    assert commits.committed == START
    assert [batch.time_ms for batch in commits.succeeded(1, {3})] == [1, 2]
    assert commits.committed == at(2)


def test_never_past_a_failed_batch() -> None:
    commits = Commits(START)
    for time_ms in (1, 2, 3):
        commits.planned(planned(time_ms))
    commits.succeeded(1, {2, 3})
    commits.failed("the sink is gone")
    commits.failed("something later")
    # Spark keeps a batch with a failed job as pending, or not: it depends on which job failed.
    assert commits.succeeded(3, set()) == []
    assert commits.committed == at(1)
    assert commits.failure == "the sink is gone"


@pytest.mark.parametrize("itself", [{3}, set()], ids=["still listed", "not listed"])
@pytest.mark.parametrize("later", [{4}, set()], ids=["one behind", "none behind"])
def test_a_window_that_slides_by_three_batches_commits_them_all_at_once(
    itself: set[int], later: set[int]
) -> None:
    """Whether Spark tells before it takes the batch from its list, and whatever comes behind."""
    commits = Commits(START)
    for time_ms in (1, 2, 3, 4):
        commits.planned(planned(time_ms))
    assert [batch.time_ms for batch in commits.succeeded(3, itself | later)] == [1, 2, 3]
    assert commits.committed == at(3)


def test_batches_with_something_to_read_are_counted() -> None:
    commits = Commits(START)
    commits.planned(planned(1))
    commits.planned(planned(2, empty=True))
    commits.planned(planned(3))
    assert commits.unfinished() == 2
    commits.succeeded(3, {1, 2})
    assert commits.unfinished() == 1
    commits.succeeded(1, {2})
    assert commits.unfinished() == 0


def test_a_time_that_has_passed_cannot_be_planned() -> None:
    commits = Commits(START)
    assert not commits.is_past(0)
    commits.planned(planned(2))
    assert commits.is_past(1) and commits.is_past(2) and not commits.is_past(3)
    with pytest.raises(ValueError, match="batch 1 is planned after batch 2"):
        commits.planned(planned(1))


def test_patience() -> None:
    patience = Patience(10.0)
    assert not patience.is_over(100.0)
    assert not patience.is_over(109.0)
    patience.worked()
    assert not patience.is_over(110.0)
    assert patience.is_over(120.0)


def test_a_batch_in_progress_has_a_begin_and_an_end() -> None:
    commits = Commits(START)
    commits.planned(planned(1))
    assert commits.span_of(1) == (START, at(1))
    with pytest.raises(LookupError, match="no batch of time 2"):
        commits.span_of(2)
    commits.succeeded(1, set())
    commits.planned(planned(2))
    assert commits.span_of(2) == (at(1), at(2))
    with pytest.raises(LookupError, match="no batch of time 1"):
        commits.span_of(1)


@pytest.mark.parametrize("fails", [True, False])
def test_a_batch_that_reads_nothing_beside_another_has_no_end_to_keep(fails: bool) -> None:
    """Its end is that of the other: whoever keeps it loses what the other has not written."""
    commits = Commits(START)
    commits.planned(planned(1))
    if fails:
        commits.failed("the sink is gone")
    commits.planned(Planned(2, commits.end, empty=True))
    assert commits.span_of(2) is None
