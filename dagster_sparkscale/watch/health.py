"""Is a stream healthy: seven checks of what a look has brought. Pure."""

from collections.abc import Mapping, Sequence

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.records.starts import last_refusal
from dagster_sparkscale.declare.decisions import Decision, Hold
from dagster_sparkscale.durations import span
from dagster_sparkscale.markdown import clock
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.findings import STARTUP_GRACE, Finding, Health
from dagster_sparkscale.observe.status import Status
from dagster_sparkscale.remedy import Remedy, WithRemedy
from dagster_sparkscale.watch.sighting import Sighting

SPARK_SILENT = 120.0
"""Seconds without an answer of Spark to its agent, after which a driver does not count as running.
The agent asks at least every ten seconds; a long pause for garbage is a minute."""

STOP_SECONDS = 60.0
"""Seconds after which a driver that was asked to stop should have begun to."""
NOT_STOPPED = "not stopped"
"""The mark of a driver that was asked to stop and runs on."""
_NO_FAULTS: Mapping[Health, Finding] = {}


def check_health(
    sighting: Sighting,
    evaluation: Evaluation | None,
    decision: Decision,
    max_lag: float | None = None,
    drift: Sequence[str] = (),
    *,
    now: float,
    operation: str | None = None,
    busy: str | None = None,
    faults: Mapping[Health, Finding] = _NO_FAULTS,
) -> dict[Health, Finding]:
    """The outcome of every check for one look at a stream.

    Args:
        max_lag: seconds it may be behind its source; None: nobody says.
        drift: what a restart would change, in words.
        now: seconds since the epoch, by the clock of the cluster's records.
        operation: in flight on the stream, for people.
        busy: what its driver is in the middle of, in words.
        faults: that capabilities have found. One stands where the check itself finds none.
    """
    found = {
        Health.RUNNING: _running(sighting, now, operation),
        Health.BATCHES_COMPLETING: _completing(sighting, evaluation, busy, faults),
        Health.RATIO_BELOW_ONE: _ratio(evaluation),
        Health.BELOW_MAXIMUM: _maximum(evaluation, decision),
        Health.LAG_WITHIN_LIMIT: _lag(evaluation, max_lag),
        Health.NO_DATA_LOST: _lost(evaluation),
        Health.DECLARATION_APPLIED: _applied(sighting, drift, faults),
    }
    found |= {health: fault for health, fault in faults.items() if found[health].passed}
    if sighting.driver is not None and sighting.driver.state is DriverState.STOPPED:
        ended = _ENDS_WITH_A_STOP - ({Health.LAG_WITHIN_LIMIT} if max_lag is None else set())
        found |= dict.fromkeys(ended, _STOPPED)
    return found


_ENDS_WITH_A_STOP = {*Health} - {Health.RUNNING, Health.NO_DATA_LOST}
"""What says nothing of a stream that was stopped: a failure of it must not stand for as long as it
is stopped. Data that was lost is still missing."""
_STOPPED = Finding(True, "not judged: the stream was stopped on request", urgent=False)


def left_running(sighting: Sighting, now: float) -> WithRemedy | None:
    """Say that the driver was asked to stop and runs on, such as after a stop that was cut off;
    None if it does not."""
    driver, status = sighting.driver, sighting.status
    if driver is None or driver.asked_to_stop_at is None:
        return None
    if status is None or status.phase != "running" or now - driver.asked_to_stop_at < STOP_SECONDS:
        return None
    return WithRemedy(
        f"driver {driver.epoch} was asked to stop at {clock(driver.asked_to_stop_at)} and runs "
        "on, and nothing restarts it should it fail: ",
        Remedy.STOP_AGAIN_OR_KEEP,
    )


def _running(sighting: Sighting, now: float, operation: str | None) -> Finding:
    driver = sighting.driver
    where = f"; {driver.where}" if driver is not None and driver.where else ""
    if sighting.error is not None:
        return Finding(False, WithRemedy(sighting.error, where))
    if operation is not None and (driver is None or driver.state is DriverState.STOPPED):
        return Finding(None, f"{operation} is in progress", urgent=False)
    if driver is None:
        return Finding(False, WithRemedy("never started: ", Remedy.START_FIRST), urgent=False)
    if driver.state is DriverState.STOPPED:
        return Finding(False, "stopped on request", urgent=False)
    if driver.state is DriverState.FAILED:
        error = last_refusal(sighting.history) or ""
        refused = ("; the last restart was refused: ", error) if error else ()
        text = WithRemedy(f"driver {driver.epoch} failed: ", str(driver.exit_reason), *refused)
        return Finding(False, text, mark=error)
    if sighting.status is not None and (hangs := _hangs(sighting.status)):
        return Finding(False, f"driver {driver.epoch} runs, but {hangs}{where}")
    if operation is None and (left := left_running(sighting, now)):
        return Finding(False, left, mark=NOT_STOPPED)
    return Finding(True, f"driver {driver.epoch} is {driver.state.value}")


def _hangs(status: Status) -> str | None:
    """Say that Spark does not answer its agent; None if it does, or may yet."""
    if status.phase not in ("starting", "running"):
        return None  # it is about to end, and Spark ends first
    if status.spark_age is None:
        age = status.now - status.started_at
        if age <= STARTUP_GRACE:
            return None
        return f"Spark has not answered its agent once in {age:.0f} s: look at the driver's log"
    if status.spark_age <= SPARK_SILENT:
        return None
    return (
        f"Spark has not answered its agent for {status.spark_age:.0f} s: its JVM hangs, or the "
        "program has stopped its SparkContext; restart the stream"
    )


def _completing(
    sighting: Sighting, seen: Evaluation | None, busy: str | None, faults: Mapping[Health, Finding]
) -> Finding:
    status = sighting.status
    if status is None or seen is None:
        return Finding(None, "no answer to judge by")
    ended = [q for q in status.queries if not q.active and q.error]
    if ended:
        return Finding(False, f"query {ended[-1].name!r} failed: {ended[-1].error}")
    if busy is not None:
        # The query starts after it, however long that takes.
        return Finding(None, busy)
    if not status.queries:
        age = status.now - status.started_at
        if age <= STARTUP_GRACE:
            return Finding(None, f"no query yet, {age:.0f} s after the start")
        return Finding(False, f"the program has not started a query in {age:.0f} s")
    if seen.failed and not seen.completed:
        return Finding(False, f"all {seen.failed} batches of the last {seen.window:g} s failed")
    if seen.stalled is not None:
        idle = ", and no executor has a task" if seen.active_tasks == 0 else ""
        return Finding(False, f"{_age(seen)}{idle}{_doing(status)}")
    if not any(q.active for q in status.queries):
        return Finding(False, "no query is active")
    if seen.silent is not None:
        return Finding(
            False,
            f"nothing has been heard of query {seen.silent_query!r} for {seen.silent:.0f} s: no "
            f"batch, and no trigger that found no data{_doing(status, seen.silent_query)}",
        )
    if (fault := faults.get(Health.BATCHES_COMPLETING)) is not None:
        return fault
    if not seen.completed:
        return Finding(None, seen.silence or "no batch completed")
    return Finding(True, f"{seen.completed} batches completed in the last {seen.window:g} s")


def _age(seen: Evaluation) -> str:
    """How long the batch has taken that completes no more."""
    assert seen.stalled is not None
    if seen.stalled_for is None:
        return (
            f"no batch completes: the one in progress has taken {seen.stalled:.1f} batch intervals"
        )
    interval = seen.stalled_for / seen.stalled
    length = span(interval) if interval >= 10 else f"{interval:.2g} s"
    ran = f"the one in progress has run for {span(seen.stalled_for)}"
    return f"no batch completes: {ran} (its batch interval is {length})"


def _doing(status: Status, name: str | None = None) -> str:
    """What Spark says that its queries do for so long, or the one of this name.

    A source that does not answer, as one whose brokers can't be reached, shows in nothing else for
    minutes.
    """
    at_it = [
        query
        for query in status.queries
        if query.active
        and query.doing
        and query.running_ms is not None
        and name in (None, query.name)
    ]
    at_it.sort(key=lambda query: -(query.running_ms or 0))
    lines = [f"query {query.name!r} is at {query.doing!r}" for query in at_it[:3]]
    return f"; Spark says that {', '.join(lines)}" if lines else ""


def _ratio(seen: Evaluation | None) -> Finding:
    load = _load(seen)
    if load is None:
        return Finding(None, "R is unknown", urgent=False)
    assert seen is not None
    if load == seen.stalled and seen.ratio != load:
        text = f"R counts as {load:.2f}: {_age(seen)}"
        return Finding(load < 1, text, urgent=False)
    worst = seen.loads[0] if seen.loads else None
    text = f"R is {load:.2f}"
    planning = worst.planning if worst is not None and worst.ratio == load else None
    if planning is not None and planning > load / 2:
        text += f", of which the driver spends {planning:.2f} on planning"
    return Finding(load < 1, text, urgent=False)


def _maximum(seen: Evaluation | None, decision: Decision) -> Finding:
    if isinstance(decision, Hold) and decision.broken:
        return Finding(False, decision.reason)
    if isinstance(decision, Hold) and decision.pinned:
        return Finding(False, decision.reason, urgent=False)
    if _load(seen) is None:
        return Finding(None, "R is unknown", urgent=False)
    return Finding(True, decision.reason, urgent=False)


def _lag(seen: Evaluation | None, max_lag: float | None) -> Finding:
    if max_lag is None:
        return Finding(None, "no max_lag is declared", urgent=False)
    if seen is None:
        return Finding(None, "no answer to judge by", urgent=False)
    unknown = seen.lag_unknown
    known = [each for each in (seen.lag, seen.lag_at_least) if each is not None]
    if not known:
        why = "no source tells how far behind the stream is"
        return Finding(None, why if unknown is None else f"{why}: {unknown}", urgent=False)
    # What is not known may be further behind, and no less.
    behind = max(known)
    least = "" if unknown is None else f"at least, as {unknown}, "
    text = f"{least}{behind:.1f} s behind the tip of the source; max_lag is {max_lag:g} s"
    if _is_young(seen) or (unknown is not None and behind <= max_lag):
        return Finding(None, text, urgent=False)
    return Finding(behind <= max_lag, text, urgent=False)


def _lost(seen: Evaluation | None) -> Finding:
    if seen is None or seen.lost is None:
        return Finding(None, "no source tells whether data was lost", urgent=False)
    if not seen.lost:
        return Finding(True, "nothing was lost", urgent=False)
    text = (
        f"data was gone before it could be read, {seen.lost} time(s) so far, and is missing "
        "downstream: the stream was behind, or stopped, for longer than its source keeps data"
    )
    return Finding(False, text, urgent=False, mark=str(seen.lost))


def _applied(sighting: Sighting, drift: Sequence[str], faults: Mapping[Health, Finding]) -> Finding:
    driver = sighting.driver
    if driver is None or not driver.state.alive or driver.declared is None:
        return Finding(None, "it is not known what a driver was started with", urgent=False)
    if (fault := faults.get(Health.DECLARATION_APPLIED)) is not None:
        return fault
    if not drift:
        return Finding(True, "the driver was started with what is declared", urgent=False)
    changes = "; ".join(drift)
    text = f"the declaration has changed since the driver was started; a restart applies: {changes}"
    return Finding(False, text, urgent=False, mark=changes)


def _load(seen: Evaluation | None) -> float | None:
    """R, or what an overdue batch makes of it where its query completed none; the worse of them.
    None if it can't be told."""
    if seen is None or _is_young(seen):
        return None
    return max((load for load in (seen.ratio, seen.stalled) if load is not None), default=None)


def _is_young(seen: Evaluation) -> bool:
    """Whether the driver is not known to have run for a whole window."""
    return seen.uptime is None or seen.uptime < seen.window
