"""What has become of a driver, wherever it runs, and how that is told. Pure.

A cluster manager says what it has found (`Seen`); what was wished for the stream stands in its
record; from both comes what everybody else is told (`Driver`).
"""

from dataclasses import dataclass

from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.observe.stop_report import Stopped, drained

_SIGNALS = 64
"""Linux knows as many."""
_HOW_ONLY = "exit code", "killed by signal", "its program returned", "ended without a trace"
"""So begin the reasons that do not say who has ended a driver, such as for room on its node."""


@dataclass(frozen=True)
class Fate:
    """What has become of a submission, whatever was wished for it."""

    state: DriverState
    """STARTING, RUNNING, FAILED or UNKNOWN."""
    pid: int | None = None
    ended_at: float | None = None
    """When it was seen to end, seconds since the epoch."""
    reason: str | None = None
    heard_of_at: float | None = None
    """Of one whose end nobody has seen: when its supervisor last showed that it lived."""


@dataclass(frozen=True)
class Seen:
    """What was found of a submission."""

    fate: Fate
    where: str = ""
    """Host and process, pod or application id: where a person would look."""
    agent_url: str | None = None
    app_id: str | None = None
    ui_url: str | None = None
    stopped: Stopped | None = None
    """How it has ended, as it has told, being asked to stop; None: it has not, or lives."""
    fenced: str | None = None
    """Why it may not have its checkpoint, as it has told; None: it has not, or lives."""


def by_code(code: int) -> str:
    """How a process ended, by the exit code that a shell or a container tells: of one that was
    killed by a signal it is 128 and the signal's number."""
    if 128 < code <= 128 + _SIGNALS:
        return f"killed by signal {code - 128}"
    return f"exit code {code}"


def driver_of(stream: str, record: Record, seen: Seen) -> Driver:
    """The newest driver of `stream`, from what is remembered and what was found of it."""
    fate = seen.fate
    state, reason = fate.state, fate.reason
    told = None if state.alive else seen.stopped
    if told is not None and told.sigterm:
        asked = "ended by SIGTERM" if told.clean else f"ended by SIGTERM; {told.in_words()}"
        how_only = reason is None or reason.startswith(_HOW_ONLY)
        reason = asked if how_only else f"{reason}; {asked}"
    if state is DriverState.FAILED and record.desired == "restarting":
        reason = f"{reason}, and the restart that stopped it was not completed"
    if state is DriverState.FAILED and record.desired == "stopped":
        state = DriverState.STOPPED
        # One that has told how it obeyed was asked before, whatever the clock of its host says:
        # some tell whole seconds only.
        obeyed = told is not None and not told.sigterm
        ended_at = fate.ended_at
        before = not obeyed and ended_at is not None and ended_at < record.desired_since
        reason = f"{reason}, before it was asked to stop" if before else "stop requested"
    fenced = None if state.alive else seen.fenced
    if fenced is not None and state is DriverState.FAILED:
        reason = fenced or reason
    if told is not None and not told.clean and state is DriverState.STOPPED:
        reason = f"{reason}; {told.in_words()}"
    return Driver(
        stream=stream,
        epoch=record.epoch,
        state=state,
        submitted_at=record.submitted_at,
        agent_url=seen.agent_url,
        app_id=seen.app_id,
        ui_url=seen.ui_url,
        declared=record.declared,
        owner=record.owner,
        asset=record.asset,
        identity=record.identity,
        hold=record.hold,
        asked_to_stop_at=record.asked_to_stop_at,
        restarted_at=record.restarted_at,
        where=seen.where,
        ended_at=fate.heard_of_at if fate.ended_at is None else fate.ended_at,
        exit_reason=reason,
        fenced=fenced is not None,
        ending=told.in_words() if told else None,
        drained=drained(told) if told else None,
        cause=record.cause,
        receivers=record.receivers,
        record=record,
    )
