"""The operation `steer`, by hand from the launchpad or the command line.

It changes the stream's record alone, by compare-and-swap and without the stream's lease: a person
can pin a stream while an operation holds it, or while nothing of it answers.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from dagster_sparkscale.autoscale.steer import (
    ACTIONS,
    RESUME,
    Asker,
    SteerRequest,
    resume_it,
    steered,
)
from dagster_sparkscale.clusters.records.leases import steer
from dagster_sparkscale.clusters.records.overtaking import STEER
from dagster_sparkscale.clusters.records.steering import Entries
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.requests import Refused
from dagster_sparkscale.in_force.limits import bounds_in_force
from dagster_sparkscale.in_force.steering import Entry, Steering, in_force
from dagster_sparkscale.operation import choice
from dagster_sparkscale.operations import Operation, OperationConfig, Report, Run

Action: Any = choice(*ACTIONS)


class SteerConfig(OperationConfig):
    """The config of a run: an action, and what belongs to it."""

    action: Action = Field(
        description="freeze: nothing is changed by itself but a failed driver started again; pin: "
        "the number of executors is size; pause: it stays as it is; advise: decisions are made, "
        "shown and not carried out; bounds: executors move between minimum and maximum; resume: "
        "ends what was set."
    )
    size: int | None = Field(default=None, description="Executors, of a pin.")
    minimum: int | None = Field(default=None, description="Fewest executors, of bounds.")
    maximum: int | None = Field(default=None, description="Most executors, of bounds.")
    lasts: str | None = Field(
        default=None, description="How long, such as 2h; left out: until it is resumed."
    )
    until: str | None = Field(
        default=None, description="Until when: a time of day in UTC, such as 14:00, or a date too."
    )
    kinds: list[str] = Field(
        default_factory=list, description="What resume ends, such as pin; left out: all."
    )


def _carry_out(run: Run[SteerConfig]) -> Report:
    config, stream, before = run.config, run.stream, Record.new("")
    request = SteerRequest(
        *(run.name, config.action.value, config.size, config.minimum, config.maximum),
        *(config.lasts, config.until, tuple(config.kinds)),
    )
    asker = Asker.of(run.requester, config.reason, time.time())
    if request.action == "bounds" and stream.autoscale is None:
        raise Refused(
            f"bounds: {run.name!r} declares no autoscale, whose numbers they would replace; pin "
            "sets its number of executors"
        )
    reach = bounds_in_force(stream, run.cluster.find(run.name), Steering(asker.now))

    def change(entries: Entries) -> Entries:
        nonlocal before
        before = replace(before, steering=entries)
        return steered(entries, request, asker, reach)

    after = steer(run.cluster.store(), run.name, change)
    was, now = in_force(before, stream, asker.now), in_force(after, stream, asker.now)
    gone = [each for each in was.entries if each not in now.entries]
    ended = [was.in_words(each) for each in gone if each.source != "calendar"]
    # What a person sets stands before the calendar's, which comes back.
    behind = [was.in_words(each) for each in gone if each.source == "calendar"]
    return Report(
        "; ".join([_line(request, ended, now), *(f"in place of: {line}" for line in behind)]),
        {"action": request.action, "ended": ended, "steering": list(now.lines)},
        outcome=_outcome(request, [each for each in gone if each.source != "calendar"], now),
    )


def _outcome(request: SteerRequest, ended: Sequence[Entry], now: Steering) -> str:
    """What it came to, as a line of what happened says it, which has who and why besides."""
    if request.action == RESUME:
        what = ", ".join(each.what() for each in ended)
        return f"ended: {what}" if ended else "nothing to resume"
    entry = _set(request, now)
    return f"{entry.what()} {entry.ends(now.now)}"


def _set(request: SteerRequest, now: Steering) -> Entry:
    by_hand = (each for each in now.entries if each.source == "person")
    return next(each for each in by_hand if each.kind == request.action)


def _line(request: SteerRequest, ended: Sequence[str], now: Steering) -> str:
    if request.action == RESUME:
        said = [f"ended: {line}" for line in ended] or ["nothing to resume"]
        return "; ".join([*said, *(f"still in force: {line}" for line in now.lines)])
    entry = _set(request, now)
    said = [now.in_words(entry), resume_it(request.stream, entry.kind)]
    said += [f"ended: {line}" for line in ended]
    if now.decisive not in (None, entry) and entry.kind != "bounds":
        assert now.decisive is not None
        said.append(f"counts before it: {now.in_words(now.decisive)}")
    return "; ".join(said)


STEER_STREAM: Operation[SteerConfig, Any] = Operation(
    STEER,
    "Say how far a stream may be changed by itself: freeze, pin, pause, advise, bounds, resume.",
    SteerConfig,
    _carry_out,
)
