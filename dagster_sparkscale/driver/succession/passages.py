"""The runs of queries that the driver ends to start them again, and what whoever waits for them is
to make of that. No Spark in here; safe for threads.

    ending      it is asked to end; whose end that will be is not settled
    between     the driver has ended it, and is to start it again
    succeeded   another run has come after it: waiting goes on with that one
    over        it has ended for good, of itself or as it could not be started again
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

Phase = Literal["ending", "between", "succeeded", "over"]


@dataclass
class Passage:
    """From the end of one run of a query to the next one. `Passages` alone changes it."""

    run: str
    """The run id."""
    query: str
    """The id of the query, which all of its runs have."""
    manager: int
    """The identity of the query manager of its session."""
    handle: Any
    """The JVM's StreamingQuery of the run."""
    phase: Phase = "ending"
    successor: Any = None
    """The JVM's StreamingQuery that has come after it."""
    next_run: str | None = None
    error: str | None = None
    """Why it was not started again, for people; None: it was, or has ended of itself."""
    stop_wanted: bool = False
    """Whether the program has asked for its end meanwhile."""
    progress: Any = None
    """The last progress of the run, for who asks before the next one has any."""
    withheld: list[Callable[[], None]] = field(default_factory=list)
    """What tells the program's listeners of the end, should it be one for good."""


@dataclass
class Ends:
    """What is to be told of the ends of one manager's queries, beside what Spark tells of them."""

    settled: int = 0
    """How often an end of ours was taken from what Spark tells."""
    query: Any = None
    """The JVM's StreamingQuery that has ended where that was taken along with one of ours."""
    error: str | None = None
    """Why a query was not started again."""
    ended: bool = False


class Passages:
    """All passages of a driver."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._by_run: dict[str, Passage] = {}
        self._ends: dict[int, Ends] = {}

    def __bool__(self) -> bool:
        return bool(self._by_run)

    def begin(self, run: str, query: str, manager: int, handle: Any) -> Passage:
        """Note, before a run is asked to end, that its end may be ours."""
        with self._changed:
            passage = Passage(run, query, manager, handle)
            self._by_run[run] = passage
            return passage

    def withdraw(self, passage: Passage) -> None:
        """The run was not ended, and goes on."""
        with self._changed:
            self._by_run.pop(passage.run, None)
            withheld = self._over(passage)
        for tell in withheld:
            tell()

    def ended(self, passage: Passage) -> None:
        """The driver has ended the run."""
        self._enter(passage, "between")

    def succeed(self, passage: Passage, run: str, handle: Any) -> None:
        """The query runs again."""
        with self._changed:
            passage.next_run, passage.successor = run, handle
            # What leads to a newer run keeps no older one: the JVM's are large.
            passage.handle = None
            for each in self._by_run.values():
                if each.next_run == passage.run:
                    each.successor = each.progress = None
            passage.withheld.clear()
            self._enter(passage, "succeeded")

    def give_up(self, passage: Passage, error: str | None = None) -> None:
        """Nothing comes after the run: it has ended of itself, or can't be started again.

        Args:
            error: why it can't.
        """
        with self._changed:
            if passage.phase == "between" or error is not None:
                ends = self.ends(passage.manager)
                ends.ended, ends.error = True, error or ends.error
            passage.error = error
            withheld = self._over(passage)
        for tell in withheld:
            tell()

    def _over(self, passage: Passage) -> list[Callable[[], None]]:
        """Nothing is withheld any more; returns what was, for whoever does not hold the lock."""
        withheld, passage.withheld = passage.withheld, []
        self._enter(passage, "over")
        return withheld

    def _enter(self, passage: Passage, phase: Phase) -> None:
        with self._changed:
            passage.phase = phase
            self._changed.notify_all()

    def want_stop(self, passage: Passage) -> None:
        """The program asks for the end of the query."""
        with self._changed:
            passage.stop_wanted = True

    def withhold(self, run: str, tell: Callable[[], None], within: float) -> bool:
        """Whether the program's listeners are not to be told of the end of a run, now at least.

        Args:
            tell: what tells them.
            within: seconds for which it is waited for whose end it was. Where that is not known
                then, they are told once it is, if it was none of ours.
        """
        passage = self.of(run)
        if passage is None:
            return False
        self.wait(passage, ("between", "succeeded", "over"), within)
        with self._changed:
            if passage.phase in ("ending", "between"):
                passage.withheld.append(tell)
            return passage.phase != "over"

    def starts_again(self, query: str) -> bool:
        """Whether a run of the query that starts now comes after one that the driver has ended."""
        with self._changed:
            return any(each.query == query for each in self._open() if each.phase == "between")

    def of(self, run: str) -> Passage | None:
        """The passage of a run."""
        with self._changed:
            return self._by_run.get(run)

    def progress_before(self, run: str) -> Any:
        """The last progress of the run that this one has come after; None: there was none."""
        with self._changed:
            return next((e.progress for e in self._by_run.values() if e.next_run == run), None)

    def latest(self, run: str) -> Passage | None:
        """The passage of the last run after `run` that has one; None: `run` has none."""
        with self._changed:
            found = self._by_run.get(run)
            while found is not None and found.next_run in self._by_run:
                found = self._by_run[found.next_run or ""]
            return found

    def between(self, manager: int) -> list[Passage]:
        """The passages of a manager's queries that are not active and will be."""
        with self._changed:
            return [e for e in self._open() if e.manager == manager and e.phase == "between"]

    def ending(self, manager: int) -> list[Passage]:
        """The passages of a manager's queries that are asked to end."""
        with self._changed:
            return [e for e in self._open() if e.manager == manager and e.phase == "ending"]

    def phases(self, manager: int) -> list[tuple[str, Phase]]:
        """The phases of a manager's passages, which tell whether anything has changed."""
        with self._changed:
            return [(e.run, e.phase) for e in self._by_run.values() if e.manager == manager]

    def _open(self) -> Iterator[Passage]:
        return (each for each in self._by_run.values() if each.phase in ("ending", "between"))

    def wait(self, passage: Passage, until: tuple[Phase, ...], within: float | None) -> bool:
        """Whether the passage comes to one of these phases in time.

        Args:
            within: seconds; None: for ever.
        """
        with self._changed:
            return self._changed.wait_for(lambda: passage.phase in until, within)

    def ends(self, manager: int) -> Ends:
        """What is to be told of the ends of a manager's queries."""
        with self._changed:
            return self._ends.setdefault(manager, Ends())

    def settle(self, manager: int, other: Any = None) -> None:
        """Note that an end of ours was taken from what Spark tells of a manager's queries.

        Args:
            other: the JVM's StreamingQuery of another one that has ended meanwhile, which was taken
                along; None: none has.
        """
        with self._changed:
            ends = self.ends(manager)
            ends.settled += 1
            if other is not None:
                ends.ended, ends.query = True, other
            self._changed.notify_all()

    def forget_ends(self, manager: int) -> None:
        """The program wants to know of later ends alone."""
        with self._changed:
            settled = self.ends(manager).settled
            self._ends[manager] = Ends(settled)

    def wait_for_verdicts(self, manager: int, deadline: float | None) -> bool:
        """Whether it is settled by a moment of `time.monotonic()`, None: ever, whose ends those of
        a manager's queries are."""

        def settled() -> bool:
            return not any(e.phase == "ending" and e.manager == manager for e in self._open())

        with self._changed:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            return self._changed.wait_for(settled, left)
