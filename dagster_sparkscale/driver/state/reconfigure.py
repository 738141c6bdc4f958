"""One change of the partitions of a query's state, while the query does not run.

    preparing      in place alone, while the query runs: what the next two would refuse
    checking       nothing is in the way: last batch done, provider, key groups
    measuring      the fingerprint of the state as it is
    writing down   what there is in the checkpoint, for whoever has to put it back
    rewriting      Spark's own offline repartitioning
    verifying      the fingerprint of the new state: the same rows, each where Spark looks for it
    accepting      instead of it, where what was prepared is known to be the same
    undoing        only where something went wrong: what was added is deleted
    closing        the query's sink passes over the batch; what was written down is deleted

What must not change: nothing is touched before it is written down; what is not verified does not
stay. A kill at any point leaves what the next start undoes or closes (`closing.py`).
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.spark.looks import first_line
from dagster_sparkscale.driver.spark.releases import TooOld, need

from . import compare, layout, plans
from .before import Before, Beside, Measured
from .closing import close, in_the_middle, keep, need_ours, put_back
from .fingerprint import Fingerprint, Keyless, fingerprint
from .folder import Folder
from .journal import Begun, Journal
from .logs import read_format, read_logs
from .operators import Store, stores
from .plans import StatePlan
from .prepared import Prepared
from .reporting import IN_PLACE, Reporting
from .tasks import cancelled_once, grouped, wait_until_still
from .unchangeable import why_unchangeable
from .uncounted import uncounted
from .undo import files_of, undo

LEAST = "4.2"
"""The first Spark that has offline repartitioning."""
RETAINED_LEAST = 3
"""Batches that have to be retained for a change in place. For a minute or so after a run has ended,
its stores go on: they take a snapshot of its last batch, and delete all that is older than what is
retained, counted from the newest that they see (`StateStore.doMaintenance`, Spark 4.3). That is the
change's, so that what it was made from, and is put back to, must not be the last to be retained,
nor hang on that snapshot, which an undo deletes."""

READINGS = 2
"""How often state is read at most. A batch of a query that runs may be purged while it is read. And
Hadoop may close the client of an object store while a file is read: the finalizer of what Spark has
opened it by does so (`S3A.finalize`), and nothing may refer to that any more (HADOOP-18476)."""


class Refusal(Exception):
    """The state is left as it is; the text says why."""


class NotNow(Refusal):
    """The state can't be changed now; a later try may succeed."""


class NeedsRestart(NotNow):
    """The state can't be changed while the driver runs; a restart may do it."""


@dataclass(frozen=True)
class Attempt:
    """One try to carry `plan` out on the checkpoint in `folder`, and to report what it comes to."""

    session: Any
    folder: Folder
    journal: Journal
    plan: StatePlan
    report: Reporting
    version: str
    """The version of Spark."""
    stopping: Callable[[], bool] = lambda: False
    """Whether the driver was asked to stop: then nothing is begun that its end may cut."""
    pass_over: Callable[[int], None] = lambda batch: None
    """Has the query's sink know that a batch writes nothing."""
    slots: Callable[[], int | None] = lambda: None
    """How many tasks Spark can run at a time; None: not known."""

    @cached_property
    def offline(self) -> Any:
        """The session in which the state is read and rewritten."""
        return uncounted(self.session, read_format(self.folder))

    def rehearse(self) -> Fingerprint | None:
        """While the query runs: find what keeps the change from being made. Returns the state as of
        the last batch that is done; None: it has the number of partitions already.

        Raises:
            NeedsRestart: what it is can't be told while it runs.
            Refusal: the change can't be made.
        """
        for _ in range(READINGS):
            checked = self._check()
            if checked is None:
                return None
            logs, of, key_groups = checked
            if (kept := int(self.session.conf.get(layout.RETAINED, "100"))) < RETAINED_LEAST:
                raise NeedsRestart(
                    f"{layout.RETAINED} = {kept}: stores of the run that ends may delete what a "
                    f"change begins from; must be at least {RETAINED_LEAST}"
                )
            assert logs.committed is not None
            try:
                return self._measure_unless_stopped(of, logs.committed, logs, key_groups)
            except Refusal:
                raise
            except Exception as error:
                self._say_unread(error)
                failed = error
            self._refuse_to_be_cut()
        why = f"its state can't be read while it runs: {first_line(failed)}"
        raise NeedsRestart(why) from failed

    def carry_out(
        self, earlier: Fingerprint | None = None, prepared: Prepared | None = None
    ) -> bool:
        """Change the state. Returns whether the outcome is to be noted for later drivers, as it was
        done, or would come to the same again.

        Args:
            earlier: the state as it was when the query ran, in which nothing was wrong. Then that
                of the last batch may be read while it is rewritten.
            prepared: the new state, where it was made while the query ran. If it is not the same,
                it is put back, and the change is made as without it.

        Raises:
            InTheMiddle: the change failed, and can't be put back now.
        """
        try:
            begun = self._begin(earlier, deferred=prepared is not None)
        except Refusal as refusal:
            self.report.over("refused", str(refusal))
            return not isinstance(refusal, NotNow)
        except Exception as error:
            self.report.over("refused", f"before anything was touched: {first_line(error)}")
            return False
        if begun is None:
            self.report.over("unchanged", f"it has {self.plan.partitions} partitions already")
            return False
        before, noted = begun
        try:
            why = self._rewrite(before, noted, prepared)
            need_ours(self.journal, noted)
            why = why or keep(self.journal, noted)
            if why is None:
                self.report.step("closing")
                # Not before it is certain that the batch stays, and before anybody forgets to do
                # it.
                self.pass_over(noted.batch + 1)
                close(self.journal)
                self.report.over("changed")
            else:
                self.journal.unverify()
                if prepared is None or not self._taken_back(noted):
                    put_back(self.folder, self.journal, noted, self.report, why)
                    prepared = None
        except Exception as error:
            raise in_the_middle(self.folder, self.report, error) from error
        if why is None or prepared is None:
            return True
        self.report.add(way=IN_PLACE, beside=why)
        return self.carry_out(before.known or earlier)

    def _taken_back(self, noted: Begun) -> bool:
        """Whether what was prepared is out of the checkpoint again. Old versions may have gone: the
        stores of the run that has ended clean up for a while. What is made next is compared."""
        self.report.step("undoing")
        undone = undo(self.folder, noted)
        if undone.ran is None:
            self.journal.close()
        return undone.ran is None

    def _begin(self, earlier: Fingerprint | None, deferred: bool) -> tuple[Before, Begun] | None:
        """All up to the point where it is written down what there is; None: there is nothing to do.

        Args:
            deferred: whether the state is not read yet, as that may not be needed.

        Raises:
            Refusal: the change can't be made; nothing was touched.
        """
        plan = self.plan
        self.report.step("checking")
        checked = self._check()
        if checked is None:
            return None
        logs, of, key_groups = checked
        if why := layout.why_not_settled(logs):
            raise NotNow(why)

        self._refuse_to_be_cut()
        was = logs.bound.partitions
        assert was is not None
        what = (of, logs.batch, logs, key_groups)
        before: Before
        if earlier is not None and earlier.batch == logs.batch:
            before = Measured(earlier)
        elif earlier is not None and (deferred or self._has_room(was)):
            before = Beside(partial(self._measure, *what))
        else:
            self.report.step("measuring")
            before = Measured(self._read(partial(self._measure_unless_stopped, *what)))

        self._refuse_to_be_cut()
        self.report.step("writing down")
        noted = Begun(plan.id, logs.batch, was, plan.partitions, files_of(self.folder))
        operators = {operator for operator, _ in of}
        if missing := layout.unlisted(noted.files, logs.batch, operators, was):
            # What is not in it would be deleted if the change is undone.
            raise NotNow(f"its file system lists only some of its files, and not {missing[0]}")
        try:
            self.journal.begin(noted)
        except Exception:
            with suppress(Exception):  # it may be there, whole, all the same
                self.journal.close()
            raise
        return before, noted

    def _measure_unless_stopped(
        self, of: tuple[Store, ...], batch: int, logs: layout.Logs, key_groups: int
    ) -> Fingerprint:
        """The state as a batch has left it. Reading it is given up once the driver is asked to
        stop, which would wait for it.

        Raises:
            Refusal: a change of it could not be verified, or it was given up.
        """
        group = f"sparkscale reads {self.folder.path}"
        try:
            with cancelled_once(self.offline, group, "state is read", self.stopping):
                return self._measure(of, batch, logs, key_groups)
        except Refusal:
            raise
        except Exception:
            self._refuse_to_be_cut()
            raise

    def _measure(
        self, of: tuple[Store, ...], batch: int, logs: layout.Logs, key_groups: int
    ) -> Fingerprint:
        """The state as a batch has left it.

        Raises:
            Refusal: a change of it could not be verified.
        """
        was = logs.bound.partitions
        assert was is not None
        try:
            state = fingerprint(self.offline, self.folder.path, of, batch, was, key_groups)
        except Keyless as error:
            raise Refusal(str(error)) from None
        self.report.measured(state, key_groups)
        if faults := compare.faults_of(state):
            raise Refusal(faults[0])
        return state

    def _read(self, reading: Callable[[], Fingerprint]) -> Fingerprint:
        """State of a query that does not run; once more where it can't be read, unless the driver
        is to stop."""
        for _ in range(READINGS - 1):
            try:
                return reading()
            except Refusal:
                raise
            except Exception as error:
                if self.stopping():
                    raise
                self._say_unread(error)
        return reading()

    def _say_unread(self, error: Exception) -> None:
        say(f"state of {self.folder.name} can't be read: {first_line(error)}")

    def _has_room(self, partitions: int) -> bool:
        """Whether tasks that read a partition each can run beside those that read them to rewrite
        them."""
        slots = self.slots()
        return slots is not None and slots > partitions

    def _check(self) -> tuple[layout.Logs, tuple[Store, ...], int] | None:
        """The logs of the query, its state stores and its key groups; None: it has the number of
        partitions already.

        Raises:
            Refusal: the change can't be made.
        """
        plan = self.plan
        try:
            need("changing the partitions of state", LEAST, self.version)
        except TooOld as error:
            raise Refusal(str(error)) from None
        logs = read_logs(self.folder)
        if logs is None:
            raise NotNow("it has not run a batch yet: it begins with the number that is set")
        key_groups = self.journal.key_groups() or plan.key_groups
        self.report.add(before=logs.bound.partitions, key_groups=key_groups)
        if logs.bound.partitions is None:
            raise Refusal("its checkpoint was written by a Spark that did not note its partitions")
        if key_groups != plan.key_groups:
            raise Refusal(f"its checkpoint has {key_groups} key groups, and not {plan.key_groups}")
        if why := plans.misfit(plan.partitions, key_groups, plan.plain_hash):
            raise Refusal(why)
        if logs.bound.partitions == plan.partitions:
            return None
        if why := why_unchangeable(self.folder, logs.bound):
            raise Refusal(why)
        if logs.committed is None:
            raise NotNow("no batch of it is done yet")
        of = stores(self.folder)
        if not of:
            raise Refusal("it keeps no state")
        return logs, of, key_groups

    def _refuse_to_be_cut(self) -> None:
        if self.stopping():
            raise NotNow("its driver was asked to stop before anything was touched")

    def _by_spark(self) -> str | None:
        """Have Spark rewrite the state; why it could not, in words; None: it has."""
        session, path, plan = self.offline, self.folder.path, self.plan
        self.report.step("rewriting")
        with grouped(session, f"sparkscale {path}", f"state -> {plan.partitions}") as running:
            try:
                # Exactly-once: or Spark would skip a batch that is not done, and read its input
                # again.
                session._streamingCheckpointManager.repartition(path, plan.partitions, True)
            except Exception as error:
                wait_until_still(running)
                return f"Spark could not change it: {first_line(error)}"
            # The slower ones of tasks that were run twice (speculation).
            wait_until_still(running)
        return None

    def _rewrite(self, before: Before, noted: Begun, prepared: Prepared | None) -> str | None:
        """Change the state and verify it; why it may not stay, in words; None: it may."""
        session, path, plan = self.offline, self.folder.path, self.plan
        if prepared is None:
            before.begin()
            why = self._by_spark()
        else:
            why = prepared.write(noted)
        if why is not None:
            return why
        if prepared is not None:
            if (proved := prepared.proved) is not None:
                self.report.step("accepting")
                self.report.measured_after(proved)
                return None
            before.begin()
        self.report.step("verifying")
        try:
            was = self._read(before.state)
        except Exception as error:
            return f"the state as it was can't be read: {first_line(error)}"
        of, batch = tuple(sorted(was.stores)), noted.batch + 1
        try:
            after = self._read(
                partial(fingerprint, session, path, of, batch, plan.partitions, plan.key_groups)
            )
        except Exception as error:
            return f"the new state can't be read: {first_line(error)}"
        self.report.measured_after(after)
        found = compare.faults(was, after)
        return f"the new state is not the same: {'; '.join(found)}" if found else None
