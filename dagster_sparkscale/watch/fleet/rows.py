"""All streams of a cluster as rows, the worst first. Pure.

A row says what the last look at a stream brought, and when that was. What was not measured is None
in a row, null in JSON, and a dash in a table; never a zero.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.declare.decisions import Hold
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.findings import Finding, Health
from dagster_sparkscale.observe.status import Status
from dagster_sparkscale.quantities import counted
from dagster_sparkscale.remedy import WithRemedy, joined
from dagster_sparkscale.watch.assess import Assessment
from dagster_sparkscale.watch.fleet.orphan import Orphan

ORPHAN = "orphan"
"""The state of a stream that runs and that nobody declares."""
RESTARTS_WITHIN = 86400.0
"""Seconds before the look in which restarts count."""
UNJUDGED = tuple(health.value for health in Health)
"""What can't be told of a stream that nobody has looked at: no check has failed, nor passed."""
STATES = ("running", "starting", "failed", "unknown", ORPHAN, "stopped", "not started")
CRASH_LOOP = 2
"""Restarts within `CRASH_LOOP_WITHIN` that make a crash loop."""
CRASH_LOOP_WITHIN = 3600.0
SETTLED = 300.0
"""Seconds that a driver runs until it counts as out of a crash loop."""


@dataclass(frozen=True, slots=True)
class Failing:
    """A health check that has failed."""

    check: str
    text: str
    mark: str
    """Tells one failure from the next, where the check tells them apart."""
    urgent: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One stream of the fleet."""

    stream: str
    asset: tuple[str, ...]
    """The key of the stream's asset."""
    state: str
    """One of `STATES`."""
    seen_at: float
    """When it was looked at, seconds since the epoch."""
    since: float | None = None
    """When its driver was started; of one that failed, when that ended; of a stopped one, since
    when it has both ended and been asked to. None: not known."""
    epoch: int | None = None
    """None: no driver is known."""
    ratio: float | None = None
    lag: float | None = None
    """Seconds behind the tip of its source."""
    backlog: int | None = None
    """Records that its sources have and no batch has taken yet."""
    files: int | None = None
    """Files that its sources have found and no batch has taken yet, at least."""
    pending: int | None = None
    """DStreams: batches that are due and not completed."""
    batch_for: float | None = None
    """Seconds that the batch in progress has run, of several the longest."""
    offered_rate: float | None = None
    """DStreams: records per second that its receivers take in; None: not known."""
    taken_rate: float | None = None
    """Records per second that entered completed batches."""
    possible_rate: float | None = None
    """Records per second of processing time: what it takes in where it does nothing else."""
    stuck_for: float | None = None
    """Seconds since when no batch completes, or nothing is heard of a query; None: that is not
    so, or not known."""
    failed_batches: int = 0
    """Batches of its window that failed, while others completed."""
    warming: bool = False
    """Whether nothing but its first batch since the start is known yet."""
    idle: bool = False
    """Whether it answers, and no batch has completed in its window nor is one overdue."""
    busy: bool = False
    """Whether its driver is in the middle of a change during which no batch completes."""
    limit: float | None = None
    """Records per second that it may take; None: as many as it likes, or not known."""
    limit_set: bool = False
    """Whether a limit that was set by a person or by Dagster is in force on one of its sources."""
    throttled: bool = False
    """Whether a query of it takes all that its limit lets it."""
    registered: int | None = None
    requested: int | None = None
    maximum: int | None = None
    """Executors it may have; None: whatever the cluster has, or not known."""
    decision: str = ""
    """The decision in two or three words; empty: nobody decides."""
    reason: str = ""
    acts: bool = False
    """Whether a run is wanted."""
    gave_up: bool = False
    """Whether it has failed and only a person will start it again."""
    restarts: int | None = None
    """Restarts by recovery within `RESTARTS_WITHIN`."""
    looping: bool = False
    """Whether it fails again and again: that it runs at the moment says little."""
    failure: str = ""
    """What its last driver but one failed of, where it fails again and again; empty: not known."""
    waits: str | None = None
    """What it waits for: an operation in flight, executors, a person."""
    failing: tuple[Failing, ...] = ()
    """The urgent ones first."""
    executor_hours: float | None = None
    """What its executors have cost since the day began in UTC; None: not known here."""
    steering: tuple[str, ...] = ()
    """How far it may be changed by itself, the most decisive first; empty: nothing bars that."""
    ahead: str | None = None
    """What its calendar says next and from when; None: it has none."""
    untold: tuple[str, ...] = ()
    """The health checks that can't be told now: what they said before stands."""

    @property
    def often(self) -> str:
        """How often it was restarted, and what it failed of last, of one that fails again and
        again."""
        restarts = "several" if self.restarts is None else str(self.restarts)
        why = f", the last as {self.failure}" if self.failure else ""
        return f"{restarts} restarts within 24 h{why}"

    @property
    def note(self) -> str:
        """What is the matter, in a sentence; empty where nothing is."""
        if self.state in ("failed", ORPHAN):
            return self.reason
        if self.looping:
            return WithRemedy(f"{self.often}; ", self.waits or self.reason)
        if self.failing and self.state != "stopped":
            # What it is busy with explains a failing check more often than the other way round.
            busy = (self.waits,) if self.busy and self.waits else ()
            # A stream that is held by hand fails by that, and the text of a check can't know it.
            return joined((*busy, self.failing[0].text, *self.steering[:1]))
        if self.state == "running" and self.failed_batches:
            number = self.failed_batches
            return f"{number} {'batch' if number == 1 else 'batches'} failed within the window"
        if self.acts or self.state == "unknown":
            return self.waits or self.reason
        ahead = (self.ahead,) if self.ahead and self.steering else ()
        return self.waits or "; ".join((*self.steering, *ahead))


def row(
    assessment: Assessment, *, operation: str | None = None, executor_hours: float | None = None
) -> Row:
    """The row of a declared stream.

    Args:
        operation: the operation in flight on the stream, for people.
        executor_hours: what its executors have cost today; None: not known here.
    """
    situation, decision = assessment.situation, assessment.decision
    stream, driver, now = situation.stream, situation.driver, situation.now
    seen = situation.evaluation
    return Row(
        stream=stream.name,
        asset=(*stream.key_prefix, stream.name),
        state=assessment.state,
        seen_at=now,
        since=_since(driver),
        epoch=assessment.epoch,
        ratio=seen.ratio if seen else None,
        lag=seen.lag if seen else None,
        **_load(seen, situation.status),
        busy=assessment.busy is not None,
        limit=seen.limit if seen else None,
        limit_set=_limit_set(situation.status),
        throttled=seen is not None and seen.throttled is not None,
        registered=seen.registered if seen else None,
        requested=seen.requested if seen else None,
        maximum=situation.bounds.maximum,
        decision=str(decision),
        reason=decision.reason,
        acts=assessment.acts,
        gave_up=isinstance(decision, Hold) and decision.gave_up,
        restarts=_restarts(driver, now),
        looping=loops(driver, now),
        failure=_failure(driver, now),
        waits=_waits(assessment, operation),
        failing=_failing(assessment.health.items()),
        executor_hours=executor_hours,
        steering=situation.steering.lines,
        ahead=situation.steering.ahead,
        untold=tuple(c.value for c, found in assessment.health.items() if found.passed is None),
    )


def _load(seen: Evaluation | None, status: Status | None) -> dict[str, Any]:
    """What waits, what is taken, and whether anything comes to completion."""
    if seen is None:
        return {}
    young = seen.uptime is None or seen.uptime < seen.window or not (status and status.queries)
    idle = seen.ratio is None and seen.stalled is None and not (seen.unpaced and seen.completed)
    return {
        "backlog": seen.backlog_records,
        "files": seen.files_waiting,
        "pending": seen.pending_batches,
        "batch_for": seen.batch_for,
        # Only batches of DStreams have one interval's input each, however late they are.
        "offered_rate": None if seen.pending_batches is None else seen.gathered_rate,
        "taken_rate": seen.input_rate,
        "possible_rate": seen.processed_rate,
        "stuck_for": seen.silent if seen.stalled is None else seen.stalled_for,
        "failed_batches": seen.failed,
        "warming": idle and (young or seen.warming is not None),
        "idle": idle,
    }


def _limit_set(status: Status | None) -> bool:
    return status is not None and any(limit.by == "set" for limit in status.limits)


def orphan_row(orphan: Orphan, *, now: float) -> Row:
    """The row of a stream that nobody declares."""
    driver = orphan.driver
    return Row(
        stream=driver.stream,
        asset=orphan.asset,
        state=ORPHAN,
        seen_at=now,
        since=_since(driver) if driver.epoch else None,
        epoch=driver.epoch or None,  # 0: its record can't be read
        reason=orphan.why,
        restarts=_restarts(driver, now),
    )


def loops(driver: Driver | None, now: float) -> bool:
    """Whether a driver is one of a crash loop."""
    if driver is None or driver.restarted_at is None or driver.state not in _LOOPING:
        return False
    restarts = sum(1 for at in driver.restarted_at if 0 <= now - at < CRASH_LOOP_WITHIN)
    settled = driver.state.alive and now - driver.submitted_at >= SETTLED
    return restarts >= CRASH_LOOP and not settled


def _failure(driver: Driver | None, now: float) -> str:
    # Of one that has failed itself, its reason says it.
    if driver is None or driver.record is None or driver.state is DriverState.FAILED:
        return ""
    return driver.record.failure if loops(driver, now) else ""


_LOOPING = (DriverState.FAILED, DriverState.STARTING, DriverState.RUNNING)


def worst_first(rows: Iterable[Row]) -> list[Row]:
    """Sort the rows, worst first, whatever their order was."""
    return sorted(rows, key=_place)


def in_trouble(row: Row) -> bool:
    """Whether somebody should look at the stream. One that was stopped, or never started, is as
    somebody wants it."""
    return _rank(row) < _RANK_OF_FINE


def as_dicts(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """The rows for JSON, with a null for what is not known."""
    return [asdict(row) for row in rows]


_RANK_OF_FINE = 4


def _rank(row: Row) -> int:
    if row.state == "failed" or row.looping:
        return 0
    if row.state == "unknown" or (row.state == "running" and any(f.urgent for f in row.failing)):
        return 1
    if row.state == ORPHAN:
        return 2
    if row.failing and row.state in ("running", "starting"):
        return 3
    if row.failed_batches and row.state == "running":
        return 3
    return _RANK_OF_FINE + ("starting", "running", "stopped", "not started").index(row.state)


def _place(row: Row) -> tuple[Any, ...]:
    unmeasured = float("-inf")
    return (
        _rank(row),
        not row.gave_up,
        -len(row.failing),
        -(unmeasured if row.ratio is None else row.ratio),
        -(unmeasured if row.lag is None else row.lag),
        row.stream,
    )


def _since(driver: Driver | None) -> float | None:
    if driver is None:
        return None
    if driver.state.alive:
        return driver.submitted_at
    if driver.state is not DriverState.STOPPED or driver.asked_to_stop_at is None:
        return driver.ended_at
    # One that had failed before is stopped since somebody said so.
    return max(driver.asked_to_stop_at, driver.ended_at or driver.asked_to_stop_at)


def _restarts(driver: Driver | None, now: float) -> int | None:
    if driver is None or driver.restarted_at is None:
        return None
    return sum(1 for at in driver.restarted_at if now - at < RESTARTS_WITHIN)


def _waits(assessment: Assessment, operation: str | None) -> str | None:
    driver, busy = assessment.situation.driver, assessment.busy
    if driver is not None and driver.hold is not None:
        return f"held by {driver.hold.by}, in the middle of: {driver.hold.step}"
    if assessment.waits is not None:
        return assessment.waits
    if operation is not None:
        return f"{operation} is in progress" + (f": {busy}" if busy else "")
    if busy is not None:
        return busy
    if assessment.acts:
        return f"a run of {assessment.decision.operation} is asked for"
    seen = assessment.evaluation
    if seen is None or seen.requested is None or seen.staying is None:
        return None
    missing = seen.requested - seen.staying
    return f"{counted(missing, 'executor')} to come" if missing > 0 else None


def _failing(health: Iterable[tuple[Health, Finding]]) -> tuple[Failing, ...]:
    failed = [
        Failing(check.value, finding.text, finding.mark, finding.urgent)
        for check, finding in health
        if finding.passed is False
    ]
    return tuple(sorted(failed, key=lambda each: not each.urgent))
