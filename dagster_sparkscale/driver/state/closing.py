"""The end of a change of state: what is verified is closed, what is not is put back.

What must not change: a change is never half in and half out. What can't be put back now is
`InTheMiddle`, and no query starts on it; the next start tries again, by `resume`.
"""

from collections.abc import Callable

from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.spark.looks import first_line

from .folder import Folder
from .journal import Begun, Journal
from .reporting import Reporting
from .undo import undo


class InTheMiddle(RuntimeError):
    """The checkpoint is in the middle of a change and can't be put back now: its query must not
    start."""


def resume(
    folder: Folder,
    journal: Journal,
    begin_report: Callable[[str, int, int], Reporting],
    pass_over: Callable[[int], None] = lambda batch: None,
) -> None:
    """Undo or close what an earlier driver has begun; nothing to do if there is nothing.

    Args:
        begin_report: begins a report of a change, given its id and the numbers of partitions.
        pass_over: has the query's sink know that a batch writes nothing.

    Raises:
        InTheMiddle: the change can't be undone or finished now.
    """
    change = journal.begun()
    if change is None:
        return
    report = begin_report(change.id, change.before, change.after)
    try:
        if journal.is_verified(change):
            report.step("closing")
            pass_over(change.batch + 1)
            close(journal)
            report.over("changed", "an earlier driver had done it, and was ended before it said so")
            return
        put_back(folder, journal, change, report, "its driver was ended in the middle of it")
    except Exception as error:
        raise in_the_middle(folder, report, error) from error


def need_ours(journal: Journal, noted: Begun) -> None:
    """A driver that was cut off from its cluster and its checkpoint for long may come back to find
    that another has undone this and runs: all of that one's files would be taken for this change's.

    Raises:
        RuntimeError: what has begun is not what this driver has begun.
    """
    if journal.begun() != noted:
        raise RuntimeError("another driver has undone or closed it meanwhile")


def keep(journal: Journal, noted: Begun) -> str | None:
    """Have the new state stay; why it may not, in words; None: it does."""
    try:
        journal.verify(noted)
    except Exception as error:
        return f"it can't be written down that the new state is right: {first_line(error)}"
    return None


def close(journal: Journal) -> None:
    """Delete what was written down of a change that stays."""
    try:
        journal.close()
    except Exception as error:  # what is verified stays: the next start closes it
        say(f"what was written down of a change of state stays for now: {first_line(error)}")


def put_back(folder: Folder, journal: Journal, noted: Begun, report: Reporting, why: str) -> None:
    """Undo it, unless somebody has run the query past us, such as a notebook, meanwhile."""
    report.step("undoing")
    undone = undo(folder, noted)
    report.step("closing")
    journal.close()
    if undone.ran:
        report.over("failed", f"{why}, and {undone.ran}: left as it is")
    elif undone.trouble:
        report.over("failed", f"{why}; {undone.trouble}")
    else:
        report.over("undone", why)


def in_the_middle(folder: Folder, report: Reporting, error: Exception) -> InTheMiddle:
    """What a change is in that could not be ended for `error`, which is reported."""
    # So py4j tells of a JVM that is gone.
    gone = isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError"
    why = "the JVM of its driver has ended" if gone else first_line(error)
    reason = (
        f"the state in {folder.name} is in the middle of a change, and can't be put back now: "
        f"{why}. The next start tries again"
    )
    report.over("failed", reason)
    return InTheMiddle(reason)
