"""The fate of a driver, wherever it runs. Pure.

A cluster manager says what it found (`Observed`); the record says what was wished for the stream;
from both comes the `Driver` that everybody else uses.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.observe.end_report import LineageEnd, Slots, Stopped, drained

_SIGNALS = 64
"""Linux knows as many."""

How = Literal["exit code", "signal", "returned", "no trace"]
"""The way a process ended, which does not say who ended it, such as for room on its node."""


@dataclass(frozen=True)
class Fate:
    """The fate of a submission, whatever was wished for it."""

    state: DriverState
    """STARTING, RUNNING, FAILED or UNKNOWN."""
    pid: int | None = None
    ended_at: float | None = None
    """When somebody noticed its end, seconds since the epoch."""
    reason: str | None = None
    how: How | None = None
    """The way it ended, where `reason` says no more; None: it says who ended it, or it lives."""
    heard_of_at: float | None = None
    """When its supervisor last showed that it lived, if nobody noticed its end."""


@dataclass(frozen=True)
class Observed:
    """All that a cluster manager found out about a submission."""

    fate: Fate
    where: str = ""
    """Host and process, pod or application id: where a person would look."""
    agent_url: str | None = None
    app_id: str | None = None
    ui_url: str | None = None
    stopped: Stopped | None = None
    """The driver's report of a requested stop; None: it made none, or lives."""
    fenced: str | None = None
    """The driver's report why it may not have its checkpoint; None: it made none, or lives."""
    slots: Slots | None = None
    """The task slots that its real-time queries lacked; None: it reports none, or lives."""
    lineage: LineageEnd | None = None
    """How its lineage was told to have ended; None: it reports none, or lives."""


class End(NamedTuple):
    """The end of a process: why, in words, and the way it ended, where the words say no more."""

    reason: str
    how: How | None = None


def declared_gone(record: Record) -> Fate | None:
    """The fate of a newest driver that a person has declared gone; None: nobody has."""
    if record.gone != record.epoch:
        return None
    return Fate(DriverState.FAILED, reason=f"declared gone by {record.gone_by}")


RETURNED = End("its program returned, exit code 0", "returned")


def by_code(code: int) -> End:
    """Describe the end of a process by its exit code in a shell or container, which is 128 and the
    signal's number for a killed one."""
    if 128 < code <= 128 + _SIGNALS:
        return End(f"killed by signal {code - 128}", "signal")
    return End(f"exit code {code}", "exit code")


def driver_of(stream: str, record: Record, observed: Observed) -> Driver:
    """The newest driver of `stream`, from its record and from what was found out about it."""
    fate = observed.fate
    state, reason = fate.state, fate.reason
    stopped = None if state.alive else observed.stopped
    if stopped is not None and stopped.sigterm:
        asked = "ended by SIGTERM" if stopped.clean else f"ended by SIGTERM; {stopped.in_words()}"
        says_who = reason is not None and fate.how is None
        reason = f"{reason}; {asked}" if says_who else asked
    if state is DriverState.FAILED and record.desired == "restarting":
        reason = f"{reason}, and the restart that stopped it was not completed"
    if state is DriverState.FAILED and record.desired == "stopped":
        state = DriverState.STOPPED
        # One that reports how it obeyed was asked before, whatever the clock of its host says:
        # some count whole seconds only.
        obeyed = stopped is not None and not stopped.sigterm
        ended_at = fate.ended_at
        before = not obeyed and ended_at is not None and ended_at < record.desired_since
        reason = f"{reason}, before it was asked to stop" if before else "stop requested"
    fenced = None if state.alive else observed.fenced
    if fenced is not None and state is DriverState.FAILED:
        reason = fenced or reason
    if stopped is not None and not stopped.clean and state is DriverState.STOPPED:
        reason = f"{reason}; {stopped.in_words()}"
    return Driver(
        stream=stream,
        epoch=record.epoch,
        state=state,
        submitted_at=record.submitted_at,
        agent_url=observed.agent_url,
        app_id=observed.app_id,
        ui_url=observed.ui_url,
        declared=record.declared,
        hold=record.hold,
        asked_to_stop_at=record.asked_to_stop_at,
        restarted_at=record.restarted_at,
        where=observed.where,
        ended_at=fate.heard_of_at if fate.ended_at is None else fate.ended_at,
        exit_reason=reason,
        fenced=fenced is not None,
        ending=stopped.in_words() if stopped else None,
        drained=drained(stopped) if stopped else None,
        cause=record.cause,
        slots=None if state.alive else observed.slots,
        lineage=None if state.alive else observed.lineage,
        record=record,
    )
