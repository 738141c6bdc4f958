"""One change of the partitions of a query's state, while the query does not run.

    checking       nothing is in the way: last batch done, provider, key groups
    measuring      the fingerprint of the state as it is
    writing down   what there is in the checkpoint, for whoever has to put it back
    rewriting      Spark's own offline repartitioning
    verifying      the fingerprint of the new state: the same rows, each where Spark looks for it
    undoing        only where something went wrong: what was added is deleted
    closing        the query's sink passes over the batch; what was written down is deleted

What must not change: nothing is touched before it is written down; what is not verified does not
stay. A kill at any point leaves what the next start, by `resume`, undoes or closes.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.spark.looks import first_line
from dagster_sparkscale.driver.spark.releases import TooOld, need

from . import compare, layout, plans
from .fingerprint import Fingerprint, Keyless, Store, fingerprint, stores
from .folder import Folder
from .journal import Begun, Journal
from .logs import read_logs
from .plans import StatePlan
from .reporting import Reporting
from .tasks import grouped, wait_until_still
from .unchangeable import why_unchangeable
from .undo import files_of, undo

LEAST = "4.2"
"""The first Spark that has offline repartitioning."""


class InTheMiddle(RuntimeError):
    """The checkpoint is in the middle of a change and can't be put back now: its query must not
    start."""


class Refusal(Exception):
    """The state is left as it is; the text says why."""


class NotNow(Refusal):
    """The state can't be changed now; a later try may succeed."""


def resume(
    folder: Folder,
    journal: Journal,
    report: Callable[[str, int, int], Reporting],
    pass_over: Callable[[int], None] = lambda batch: None,
) -> None:
    """Undo or close what an earlier driver has begun; nothing to do if there is nothing.

    Args:
        report: begins a report of a change, given its id and the numbers of partitions.
        pass_over: has the query's sink know that a batch writes nothing.

    Raises:
        InTheMiddle: the change can't be undone or finished now.
    """
    change = journal.begun()
    if change is None:
        return
    told = report(change.id, change.before, change.after)
    try:
        if journal.is_verified(change):
            told.step("closing")
            pass_over(change.batch + 1)
            _close(journal)
            told.over("changed", "an earlier driver had done it, and was ended before it said so")
            return
        _put_back(folder, journal, change, told, "its driver was ended in the middle of it")
    except Exception as error:
        raise _in_the_middle(folder, told, error) from error


def change(
    session: Any,
    folder: Folder,
    journal: Journal,
    plan: StatePlan,
    told: Reporting,
    version: str,
    stopping: Callable[[], bool] = lambda: False,
    pass_over: Callable[[int], None] = lambda batch: None,
) -> bool:
    """Carry `plan` out on the checkpoint in `folder`, and tell `told` what it comes to.

    Args:
        version: of Spark.
        stopping: whether the driver was asked to stop: then nothing is begun that its end may cut.
        pass_over: has the query's sink know that a batch writes nothing.

    Returns:
        Whether that is worth to be noted for the drivers to come: it would come to the same again,
        or has been done.

    Raises:
        InTheMiddle: the change failed, and can't be put back now.
    """
    try:
        begun = _begin(session, folder, journal, plan, told, version, stopping)
    except Refusal as refusal:
        told.over("refused", str(refusal))
        return not isinstance(refusal, NotNow)
    except Exception as error:
        told.over("refused", f"before anything was touched: {first_line(error)}")
        return False
    if begun is None:
        told.over("unchanged", f"it has {plan.partitions} partitions already")
        return False
    before, noted = begun
    try:
        why = _rewrite(session, folder, plan, told, before, noted)
        _need_ours(journal, noted)
        why = why or _verified(journal, noted)
        if why is None:
            told.step("closing")
            # Not before it is certain that the batch stays, and before anybody forgets to do it.
            pass_over(noted.batch + 1)
            _close(journal)
            told.over("changed")
        else:
            journal.unverify()
            _put_back(folder, journal, noted, told, why)
    except Exception as error:
        raise _in_the_middle(folder, told, error) from error
    return True


def _begin(
    session: Any,
    folder: Folder,
    journal: Journal,
    plan: StatePlan,
    told: Reporting,
    version: str,
    stopping: Callable[[], bool],
) -> tuple[Fingerprint, Begun] | None:
    """All up to the point where it is written down what there is; None: there is nothing to do.

    Raises:
        Refusal: the change can't be made; nothing was touched.
    """
    told.step("checking")
    checked = _refuse_what_cannot_be(session, folder, journal, plan, told, version)
    if checked is None:
        return None
    logs, of, key_groups = checked

    _refuse_to_be_cut(stopping)
    told.step("measuring")
    was = logs.bound.partitions
    assert was is not None
    try:
        before = fingerprint(session, folder.path, of, logs.batch, was, key_groups)
    except Keyless as error:
        raise Refusal(str(error)) from None
    told.measured(before, key_groups)
    if faults := compare.faults_of(before):
        raise Refusal(faults[0])

    _refuse_to_be_cut(stopping)
    told.step("writing down")
    noted = Begun(plan.id, logs.batch, was, plan.partitions, files_of(folder))
    if missing := layout.unlisted(noted.files, logs.batch, {operator for operator, _ in of}, was):
        # What is not in it would be deleted if the change is undone.
        raise NotNow(f"its file system lists only some of its files, and not {missing[0]}")
    try:
        journal.begin(noted)
    except Exception:
        with suppress(Exception):  # it may be there, whole, all the same
            journal.close()
        raise
    return before, noted


def _refuse_what_cannot_be(
    session: Any, folder: Folder, journal: Journal, plan: StatePlan, told: Reporting, version: str
) -> tuple[layout.Logs, tuple[Store, ...], int] | None:
    """The logs of the query, its state stores and its key groups; None: it has the number of
    partitions already.

    Raises:
        Refusal: the change can't be made.
    """
    try:
        need("changing the partitions of state", LEAST, version)
    except TooOld as error:
        raise Refusal(str(error)) from None
    logs = read_logs(folder)
    if logs is None:
        raise NotNow("it has not run a batch yet: it begins with the number that is set")
    key_groups = journal.key_groups() or plan.key_groups
    told.tell(before=logs.bound.partitions, key_groups=key_groups)
    if logs.bound.partitions is None:
        raise Refusal("its checkpoint was written by a Spark that did not note its partitions")
    if key_groups != plan.key_groups:
        raise Refusal(f"its checkpoint has {key_groups} key groups, and not {plan.key_groups}")
    if why := plans.misfit(plan.partitions, key_groups, plan.plain_hash):
        raise Refusal(why)
    if logs.bound.partitions == plan.partitions:
        return None
    if why := why_unchangeable(folder, logs.bound):
        raise Refusal(why)
    if why := layout.why_not_settled(logs):
        raise NotNow(why)
    of = stores(session, folder.path)
    if not of:
        raise Refusal("it keeps no state")
    return logs, of, key_groups


def _rewrite(
    session: Any,
    folder: Folder,
    plan: StatePlan,
    told: Reporting,
    before: Fingerprint,
    noted: Begun,
) -> str | None:
    """Change the state and verify it; why it may not stay, in words; None: it may."""
    told.step("rewriting")
    with grouped(session, f"sparkscale {folder.path}", f"state -> {plan.partitions}") as running:
        try:
            # Exactly-once: or Spark would skip a batch that is not done, and read its input again.
            session._streamingCheckpointManager.repartition(folder.path, plan.partitions, True)
        except Exception as error:
            wait_until_still(running)
            return f"Spark could not change it: {first_line(error)}"
        wait_until_still(running)  # the slower ones of tasks that were run twice (speculation)
    told.step("verifying")
    try:
        after = fingerprint(
            session,
            folder.path,
            tuple(sorted(before.stores)),
            noted.batch + 1,
            plan.partitions,
            plan.key_groups,
        )
    except Exception as error:
        return f"the new state can't be read: {first_line(error)}"
    told.measured_after(after)
    found = compare.faults(before, after)
    return f"the new state is not the same: {'; '.join(found)}" if found else None


def _refuse_to_be_cut(stopping: Callable[[], bool]) -> None:
    if stopping():
        raise NotNow("its driver was asked to stop before anything was touched")


def _need_ours(journal: Journal, noted: Begun) -> None:
    """A driver that was cut off from its cluster and its checkpoint for long may come back to find
    that another has undone this and runs: all of that one's files would be taken for this change's.

    Raises:
        RuntimeError: what has begun is not what this driver has begun.
    """
    if journal.begun() != noted:
        raise RuntimeError("another driver has undone or closed it meanwhile")


def _verified(journal: Journal, noted: Begun) -> str | None:
    """Have it stay; why it may not, in words; None: it does."""
    try:
        journal.verify(noted)
    except Exception as error:
        return f"it can't be written down that the new state is right: {first_line(error)}"
    return None


def _close(journal: Journal) -> None:
    try:
        journal.close()
    except Exception as error:  # what is verified stays: the next start closes it
        say(f"what was written down of a change of state stays for now: {first_line(error)}")


def _put_back(folder: Folder, journal: Journal, noted: Begun, told: Reporting, why: str) -> None:
    """Undo it, unless somebody has run the query past us, such as a notebook, meanwhile."""
    told.step("undoing")
    undone = undo(folder, noted)
    told.step("closing")
    journal.close()
    if undone.ran:
        told.over("failed", f"{why}, and {undone.ran}: left as it is")
    elif undone.trouble:
        told.over("failed", f"{why}; {undone.trouble}")
    else:
        told.over("undone", why)


def _in_the_middle(folder: Folder, told: Reporting, error: Exception) -> InTheMiddle:
    # So py4j tells of a JVM that is gone.
    gone = isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError"
    why = "the JVM of its driver has ended" if gone else first_line(error)
    reason = (
        f"the state in {folder.name} is in the middle of a change, and can't be put back now: "
        f"{why}. The next start tries again"
    )
    told.over("failed", reason)
    return InTheMiddle(reason)
