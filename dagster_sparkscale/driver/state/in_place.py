"""Changes the partitions of state while the driver runs: on a thread of its own, the query is ended
between two batches, changed as at a start, and started again by its own writer.

    preparing   the query runs: all checks, and the state is read once
    ...         where it is worth it: the new state is made on a copy, beside it (`beside/`), with
                more executors meanwhile where that is asked for
    ending      the query finishes its batch, and is ended
    ...         the change itself, with its journal and its undo (`reconfigure.py`)
    starting    the query is started again, on the new state or the old

What must not change: nothing is ended that can't be changed, as far as can be known before; no
query is started on a state that is in the middle of a change; and whatever raises, the program
learns of a query that does not run again.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from dagster_sparkscale.driver.executors.control import ExecutorControl
from dagster_sparkscale.driver.request import BadRequest, NotReady
from dagster_sparkscale.driver.spark.looks import first_line
from dagster_sparkscale.driver.succession.end import EndedForGood, NotEnded, end
from dagster_sparkscale.driver.succession.passages import Passage, Passages
from dagster_sparkscale.driver.succession.runs import Run, Runs

from .beside import replaying
from .beside.limits import Limits, why_not_read_again
from .beside.more_executors import MoreExecutors
from .beside.state_copy import NotBeside, StateCopy
from .closing import InTheMiddle
from .fingerprint import Fingerprint
from .hook import StateHook, note_outcome
from .plans import StatePlan
from .reconfigure import Attempt, NeedsRestart, NotNow, Refusal
from .reporting import BESIDE, InPlace

T = TypeVar("T")

_NOT_LOOKED_AT = "what it reads has not been looked at yet"


class InPlaceChanges:
    """Carries plans out, one at a time. Safe for threads.

    Args:
        stopping: whether the driver was asked to stop.
        slots: how many tasks Spark can run at a time; None: not known.
        executors: of the driver.
    """

    def __init__(
        self,
        hook: StateHook,
        runs: Runs,
        passages: Passages,
        stopping: Callable[[], bool],
        slots: Callable[[], int | None],
        executors: ExecutorControl,
    ) -> None:
        self._hook, self._runs, self._passages = hook, runs, passages
        self._executors, self._more = executors, MoreExecutors(executors, None, 0.0, stopping)
        self._stopping, self._slots = stopping, slots
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._plan: StatePlan | None = None
        self._beside: Mapping[str, str | None] = {}
        """Why the queries that run can't be changed beside the stream, by the ids of their runs."""

    @property
    def busy(self) -> bool:
        """Whether a plan is being carried out."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def why_not(self) -> Mapping[str, str | None]:
        """The queries that run, and why each can't be changed in place; None: it can, as far as is
        known. Asks no JVM."""
        return {name: run.why_not() for name, run in self._runs.active().items()}

    def why_not_beside(self) -> Mapping[str, str | None]:
        """The queries that run, and why what each has read can't be read a second time, as a
        change beside the stream does, or its state is kept in another way; None: it can. Asks no
        JVM."""
        known = self._beside
        active = self._runs.active().items()
        return {name: known.get(run.run, _NOT_LOOKED_AT) for name, run in active}

    def noted(self, run: Run) -> None:
        """Look at a query that has just started."""
        try:
            frame = run.started.new.frame
            why = why_not_read_again(replaying.sources(frame))
            why = why or replaying.why_not_stored(
                frame.sparkSession, self._hook.format(run.started.new)
            )
        except Exception as error:
            why = f"what it reads, and how it is kept, is not known: {first_line(error)}"
        with self._lock:  # a program may start two at once
            active = {each.run for each in self._runs.active().values()}
            kept = {id: why for id, why in self._beside.items() if id in active}
            self._beside = {**kept, run.run: why}  # the agent's threads read it

    def ask(self, plan: StatePlan, within: float, beside: Limits | None = None) -> None:
        """Have a plan carried out; returns at once. The same plan may be asked for again.

        Args:
            within: seconds that the batch in progress of each query has to end.
            beside: what may be done beside the stream; None: nothing.

        Raises:
            BadRequest: it can't be done in place; nothing was touched.
            NotReady: another plan is being carried out.
        """
        with self._lock:
            if self._plan is not None and self._plan.id == plan.id:
                return
            if self.busy:
                raise NotReady("the state of its queries is being changed already")
            active = self._runs.active()
            for name in plan.queries:
                if name not in active:
                    raise BadRequest(
                        f"query {name!r}: does not run, or was not started by PySpark, so that it "
                        "can't be started again in this driver"
                    )
                if (why := active[name].why_not()) is not None:
                    raise BadRequest(f"query {name!r}: {why}")
            reports = {name: InPlace(plan.id, name, after=plan.partitions) for name in plan.queries}
            runs = {name: active[name] for name in plan.queries}
            # No daemon: what has begun is finished, unless the driver is ended in the middle.
            self._thread = threading.Thread(
                target=self._carry_out,
                args=(plan, within, beside, runs, reports),
                name="sparkscale-state",
            )
            self._thread.start()  # first: where there can be no thread, nothing was taken
            for name, report in reports.items():
                self._hook.show(report, f"in place {name}")
            self._plan = plan

    def _carry_out(
        self,
        plan: StatePlan,
        within: float,
        beside: Limits | None,
        runs: Mapping[str, Run],
        reports: Mapping[str, InPlace],
    ) -> None:
        if beside is not None:
            self._more = MoreExecutors(
                *(self._executors, beside.executors, beside.within, self._stopping, beside.had)
            )
        else:
            self._more = MoreExecutors(self._executors, None, 0.0, self._stopping)
        # Once nothing is changed any more, the number is taken for the stream's own.
        for last in [*reports.values()][-1:]:
            last.before_over = self._more.put_back
        try:
            for name, report in reports.items():
                try:
                    self._change(plan, within, beside, runs[name], report)
                except Exception as error:  # what comes later is heeded where it comes
                    report.finish("refused", f"before anything was touched: {first_line(error)}")
        finally:
            self._more.put_back()

    def _change(
        self, plan: StatePlan, within: float, beside: Limits | None, run: Run, report: InPlace
    ) -> None:
        """Change the state of one query, and have it run again."""
        attempt = self._hook.attempt(run.started.new, plan, report, self._slots)
        if attempt is None:
            report.finish("refused", "it has no checkpoint of its own: give it one")
            return
        ready = _heeding(
            attempt, report, lambda: self._made_ready(attempt, plan, run, report, beside)
        )
        if ready is None:
            return
        earlier, copy = ready
        try:
            with self._hook.holding(attempt.folder):
                passage = _heeding(attempt, report, lambda: self._end(run, report, within))
                if passage is not None:
                    self._change_ended(attempt, run, report, passage, earlier, copy)
        finally:
            if copy is not None:
                copy.drop()

    def _made_ready(
        self,
        attempt: Attempt,
        plan: StatePlan,
        run: Run,
        report: InPlace,
        beside: Limits | None,
    ) -> tuple[Fingerprint, StateCopy | None] | None:
        """All that is done while the query runs: its state as it was then, and a copy that has the
        new one, where that is made; None: nothing is to be changed.

        Raises:
            Refusal: the change can't be made, or not in place.
        """
        # Before they are slowed down by what reads the state.
        usual: Sequence[float] = ()
        with suppress(Exception):  # then it is not known
            usual = replaying.processing(run)
        with self._hook.holding(attempt.folder):
            earlier = self._prepare(attempt, run, report)
        if earlier is None:
            report.finish("unchanged", f"it has {plan.partitions} partitions already")
            return None
        if beside is None:
            return earlier, None
        # Not held meanwhile: the program may have the query end, and start another one.
        copy = _copied(attempt, run, report, beside, (earlier, usual), self._more)
        return earlier if copy is None else copy.latest, copy

    def _end(self, run: Run, report: InPlace, within: float) -> Passage:
        """
        Raises:
            Refusal: it could not be started again as it was, or has ended already.
        """
        report.step("ending")
        if (why := run.why_not_now()) is not None:  # making a copy has taken minutes
            raise NeedsRestart(why)
        return end(self._passages, self._runs, run, within, self._stopping)

    def _prepare(self, attempt: Attempt, run: Run, report: InPlace) -> Fingerprint | None:
        """The state of a query that runs, in which nothing keeps the change from being made; None:
        it has the number of partitions already.

        Raises:
            Refusal: the change can't be made, or not in place.
        """
        report.step("preparing")
        if (why := run.why_not_now()) is not None:
            raise NeedsRestart(why)
        if self._stopping():
            raise NotNow("its driver was asked to stop before anything was touched")
        return attempt.rehearse()

    def _change_ended(
        self,
        attempt: Attempt,
        run: Run,
        report: InPlace,
        passage: Passage,
        earlier: Fingerprint,
        copy: StateCopy | None,
    ) -> None:
        """Change the state of a query that was ended, and start it again; whatever comes, its
        passage is over then."""
        down: str | None = "it was given up"
        try:
            if attempt.carry_out(earlier, copy) and (came := report.came) is not None:
                note_outcome(attempt.journal, came)
            down = self._start(run, report, passage)
        except InTheMiddle as error:
            down = str(error)
        except Exception as error:
            down = f"{type(error).__name__}: {first_line(error)}"
        finally:
            if down is not None:
                self._passages.give_up(passage, down)
            report.finish(down=down)

    def _start(self, run: Run, report: InPlace, passage: Passage) -> str | None:
        """Start a query again; why it does not run, for people; None: it does."""
        report.step("starting")
        if passage.stop_wanted:
            self._passages.give_up(passage)
            return None
        try:
            handle = run.again()._jsq
        except Exception as error:
            return f"it could not be started again: {first_line(error)}"
        self._passages.succeed(passage, str(handle.runId().toString()), handle)
        return None


def _heeding(attempt: Attempt, report: InPlace, do: Callable[[], T | None]) -> T | None:
    """What `do` comes to, which touches nothing; None: nothing, or it was refused, and the report
    says why."""
    try:
        return do()
    except NeedsRestart as refusal:
        report.finish("refused", str(refusal), restart=True)
    except NotEnded as refusal:
        report.finish("refused", str(refusal))
    except EndedForGood as error:
        report.finish("refused", str(error), restart=True, down=str(error))
    except Refusal as refusal:
        report.finish("refused", str(refusal))
        if not isinstance(refusal, NotNow):
            note_outcome(attempt.journal, report.change)
    except Exception as error:
        report.finish("refused", f"before anything was touched: {first_line(error)}")
    return None


def _copied(
    attempt: Attempt,
    run: Run,
    report: InPlace,
    beside: Limits,
    known: tuple[Fingerprint, Sequence[float]],
    more: MoreExecutors,
) -> StateCopy | None:
    """A copy with the new state, which is as far as the query; None: the change is made without,
    and the report says why.

    Args:
        known: the state of the query, and the seconds that its batches take.
    """
    copy = None
    try:
        copy = StateCopy(attempt, run, beside, *known)
        why = copy.why_not(spare=more.target is not None)
        if why is None and more.target is not None:
            why = copy.why_not(spare=_added(more, report))
        if why is None:
            copy.prepare()
            report.add(way=BESIDE)
            return copy
    except NotBeside as refusal:
        why = str(refusal)
    except Exception as error:
        why = first_line(error)
    report.add(beside=why)
    if copy is not None:
        copy.drop()
    return None


def _added(more: MoreExecutors, report: InPlace) -> bool:
    """Whether the executors have come that the stream is to have meanwhile; else the report says
    why not."""
    report.step("adding executors")
    why = more.why_not_there()
    report.add(lacked=why)
    return why is None
