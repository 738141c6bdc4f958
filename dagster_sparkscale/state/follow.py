"""Follows a driver that changes the state of its queries, until it is through. No Dagster here."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from dagster_sparkscale.clusters.base import ClusterManager, Driver
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.lifecycle import trial
from dagster_sparkscale.observe.state import at_step
from dagster_sparkscale.observe.status import Reconfiguration, Status
from dagster_sparkscale.state.plan import GOOD


class OutOfTime(ClusterError):
    """The change has not finished in time; the text says how far it is, and that it goes on."""


@dataclass
class Following:
    """What is seen of a plan, from one driver to the next."""

    cluster: ClusterManager
    id: str
    """The id of the plan."""
    queries: Sequence[str]
    """The queries that the plan changes."""
    tell: Callable[[str], None]
    deadline: float
    """The end of waiting, by the monotonic clock."""
    beside: bool = False
    """Whether it was said that the change would be made beside the stream."""
    results: dict[str, Reconfiguration] = field(default_factory=dict)
    """What was last told of each query, whichever driver told it."""
    status: Status | None = None
    """The last answer of an agent."""
    _reported: dict[tuple[int, str], set[str]] = field(default_factory=dict)
    _took: dict[tuple[int, str], dict[str, float]] = field(default_factory=dict)
    """The seconds of each step as last told."""

    def until_through(self, driver: Driver, in_place: bool = False) -> Driver:
        """Wait until every query is through, with its first batch if its state is as planned.

        Args:
            in_place: whether the driver ran when it was asked for the change: then batches from
                before it are none of these.

        Returns:
            The stream's newest driver: not alive, or another one, where `driver` was not seen to be
            through.

        Raises:
            OutOfTime: the deadline has passed.
        """
        silent = False

        def through(_driver: Driver, status: Status | None) -> bool:
            nonlocal silent
            if status is None:
                if not silent:
                    self.tell("the agent does not answer; waiting for it")
                silent = True
                return False
            silent, self.status = False, status
            self._note(status)
            return self._through_in_place(status) if in_place else self._through(status)

        came = trial.follow(self.cluster, driver, self.deadline, through)
        if came.ending == "out of time":
            raise OutOfTime(self._out_of_time(came.driver, came.status))
        return came.driver

    def _through(self, status: Status) -> bool:
        if status.reconfiguring is not None:
            return False
        ran = {batch.query for batch in status.batches if not batch.failed}
        ended = {query.name for query in status.queries if not query.active and query.error}
        own = {each.query: each for each in status.state_changes if each.id == self.id}
        bad = {each for each, change in own.items() if change.outcome not in GOOD}
        # One whose state can't be put back never starts; any other does, as it was.
        active = {query.name for query in status.queries if query.active}
        over = {each for each in bad if each in active or own[each].outcome == "failed"}
        return (ran | ended | over).issuperset(self.queries)

    def _through_in_place(self, status: Status) -> bool:
        own = {each.query: each for each in status.state_changes if each.id == self.id}
        active = {query.name for query in status.queries if query.active}
        for name in self.queries:
            change = own.get(name)
            if change is None or change.outcome is None:
                return False
            came_back = change.outcome == "changed" and change.down is None and name in active
            if came_back and not any(
                batch.query == name
                and not batch.failed
                and batch.completed_at > (change.over_at or 0.0)
                for batch in status.batches
            ):
                return False
        return True

    def _note(self, status: Status) -> None:
        for each in status.state_changes:
            if each.id == self.id:
                self.results[each.query] = each
                self._tell_step(status.epoch, each)
        # A driver that has done it and died before it was asked has left that in the checkpoint.
        noted = {each.query for each in status.state_changes}
        for last in (q.state.last for q in status.queries if q.state is not None):
            if last is None or last.id != self.id or last.query in noted:
                continue
            known = self.results.get(last.query)
            if known is None or known.outcome is None:
                self.results[last.query] = last
                self._tell_step(status.epoch, last)

    def _tell_step(self, epoch: int, now: Reconfiguration) -> None:
        reported = self._reported.setdefault((epoch, now.query), set())
        if self.beside and now.beside is not None and "" not in reported:
            reported.add("")
            self.tell(f"query {now.query!r}: not beside the stream after all: {now.beside}")
        if (doing := at_step(now)) in reported:
            return
        reported |= {now.step, doing}
        # A step that comes again goes on counting, and the one in progress is not over.
        before = self._took.setdefault((epoch, now.query), {})
        news = {
            step: seconds - before.get(step, 0.0)
            for step, seconds in (now.seconds or {}).items()
            if step != now.step and (step not in before or seconds - before[step] >= 0.05)
        }
        before.update({step: (now.seconds or {})[step] for step in news})
        took = [f"{step} took {seconds:.1f} s" for step, seconds in news.items()]
        self.tell(f"{listed([now])} ({', '.join(took)})" if took else listed([now]))

    def _out_of_time(self, driver: Driver, status: Status | None) -> str:
        if status is None:
            doing = "its agent does not answer"
        elif status.reconfiguring is not None:
            at = status.reconfiguring
            doing = f"it is at the state of query {at.query!r}: {at.step}"
        else:
            doing = "not every query has completed a batch yet"
        return (
            f"out of time: driver {driver.epoch} is {driver.state.value}, and {doing}. It goes on "
            "all the same, and finishes or undoes what it has begun: the stream's page says what "
            "came of it. Or raise state.within"
        )


def listed(changes: Iterable[Reconfiguration]) -> str:
    """What came of each query."""
    return "; ".join(f"query {each.query!r}: {in_words(each)}" for each in changes)


def in_words(change: Reconfiguration) -> str:
    """How far a change is, or what it came to."""
    if change.outcome is None:
        return at_step(change)
    numbers = ""
    if change.before is not None and change.after is not None and change.outcome == "changed":
        numbers = f", {change.before} -> {change.after} partitions"
    return f"{change.outcome}{numbers}{f': {change.reason}' if change.reason else ''}"
