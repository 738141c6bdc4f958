"""How many receivers a stream needs, by what it takes (SPARK-12133, version 3). Pure.

    u         records per second that the stream takes / (receivers * capacity of one)
    u >= up   more: as many as bring u below it, `step` at a time
    u <= down of fewer: as few as stay at or below it, `step` at a time
    between   hold: the dead band. A change is a restart, so a driver runs for `cooldown` before it

What the stream takes is told by its batches, each of which has what came in one interval: how many
complete in a window says what is processed, and not what comes.

Fewer are judged by the u that they would have, and not by that of all: so what was added is not
taken away by the same rate, as long as down is below up.

What one receiver can take is declared, or learned from windows in which all of them were seen to
take no more though there was more. The highest rate ever seen would not do: it is as high as the
input was.

A limit that a person or a retuning has set is not what a receiver can take, and is not answered by
more of them. As long as it stands, fewer are judged by it: they could take no more than it lets
them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dagster_sparkscale.capability import Running
from dagster_sparkscale.declare.decisions import Decision, Hold, ReceiversTo
from dagster_sparkscale.declare.receivers import ReceiverCount
from dagster_sparkscale.declare.streams import DStream
from dagster_sparkscale.in_force.limits import RECEIVER_MAX
from dagster_sparkscale.in_force.receiver_counts import count_of
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.quantities import counted, number

CHANGED = "set receivers"
"""Cause of a start with another number, in the history of submissions."""
KEPT = "receivers as before"
"""Cause of a start with the number of before, a change of it having failed. It is stored and
decides when the change is tried again: an id, which is never worded anew."""
AGAIN_AFTER = 6 * 3600.0
"""Seconds after which a change that has failed is tried again by itself."""
GROWS = -0.05
"""Seconds of lag lost per second, from which on a stream falls behind."""
DISPROVED = 1.25
"""Times what one receiver was seen to take at most, from which on that was not the most it can."""
LATE_INTERVALS = 2.0
"""Batch intervals that a stream is behind at least for its lag to say anything."""

CAPACITY = "capacity"
"""The key of the sensor's cursor under which it is remembered what one receiver can take."""
_OF_RECEIVERS = ("max_rate", "source")
"""The origins of limits that are declared for each receiver: they show what one can take."""
_HELD = {"set": "that is set", "tuned": "that was tuned to what the executors do"}
"""The origins of limits that must hold, however many receivers run."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The receivers of a driver, as far as their number can be decided on."""

    running: int | None
    """The receivers that its program has started; None: not known."""
    asked: int
    """The receivers that it was to start."""
    places: int | None
    """Tasks that run at a time on the most executors that the stream can have; None: any number."""
    capacity: float | None
    """Records per second that one can take; None: not known."""
    allowed: float | None = None
    """Records per second that one may take by the limit in force, which only a start reads; None:
    any number."""
    cause: str | None = None
    """Why the driver was started."""


def capacity_of(stream: DStream) -> float | None:
    """What one receiver can take by what is declared, in records per second; None: that says
    nothing of it."""
    count, limits = count_of(stream), stream.limits
    rates = (
        count.capacity if count is not None else None,
        limits.max_rate if limits is not None else None,
        _rate(stream.spark_conf.get(RECEIVER_MAX, "").strip()),
    )
    return min((rate for rate in rates if rate is not None), default=None)


def learned(evaluation: Evaluation, receivers: int | None) -> float | None:
    """What one receiver has shown that it can take, in records per second; None: this window shows
    nothing of it.

    It does where the input stood at limits that are declared for receivers, or where the stream
    fell behind a source that tells, unlimited, while its batches fitted into their interval.
    """
    if (
        not receivers
        or not evaluation.gathered_rate
        or evaluation.uptime is None
        or evaluation.uptime < evaluation.window
    ):
        return None
    if evaluation.throttled is not None:
        return (
            evaluation.gathered_rate / receivers
            if evaluation.throttled_by in _OF_RECEIVERS
            else None
        )
    if evaluation.lag is None or evaluation.catching_up is None or evaluation.ratio is None:
        return None
    late = evaluation.lag > LATE_INTERVALS * (evaluation.batch_interval or evaluation.window)
    if (
        late
        and evaluation.catching_up <= GROWS
        and evaluation.ratio < 1
        and evaluation.overdue is None
    ):
        return evaluation.gathered_rate / receivers
    return None


def still_known(known: float | None, evaluation: Evaluation, receivers: int | None) -> float | None:
    """What one receiver can take, in records per second, by what was known of that before and what
    this window shows; None: that is not known, or not any more.

    What they took at a limit of which another is declared since was the limit, not what they can.
    """
    if (shown := learned(evaluation, receivers)) is not None or known is None:
        return shown
    if evaluation.uptime is None or evaluation.uptime < evaluation.window:
        return known
    took = evaluation.gathered_rate / receivers if receivers and evaluation.gathered_rate else 0.0
    return None if took > DISPROVED * known else known


def learn(situation: Running, decision: Decision) -> Mapping[str, float]:
    """What one receiver can take, as it is known from now on."""
    known, receivers = situation.learned.get(CAPACITY), situation.status.receivers
    if receivers:
        known = still_known(known, situation.evaluation, len(receivers))
    return {} if known is None else {CAPACITY: known}


def count(policy: ReceiverCount, evaluation: Evaluation, now: Counted) -> Hold | ReceiversTo:
    """How many receivers there are to be.

    Args:
        evaluation: what the stream did in a whole window.
        now: what there is.
    """
    running = now.running
    if running is None:
        return Hold("the number of its receivers is not known")
    if evaluation.uptime is None or evaluation.uptime < evaluation.window:
        return Hold("the driver has not run for a whole window yet")
    if now.cause == KEPT and evaluation.uptime < AGAIN_AFTER:
        return Hold(
            "the last change of the number of receivers has failed, and is tried again "
            f"{AGAIN_AFTER / 3600:g} h after that; by hand, set_receivers does at any time"
        )
    if evaluation.uptime < policy.cooldown:
        return Hold(
            f"the driver started {evaluation.uptime:.0f} s ago; the number of receivers is changed "
            f"{policy.cooldown:g} s after a start at the earliest"
        )
    if running != now.asked:
        return Hold(
            f"{running} receivers run, and {now.asked} were to be started: the program has to take "
            "their number by receiver_count, and its checkpoint folder by receiver_checkpoint"
        )
    places = policy.maximum + 1 if now.places is None else now.places
    most = max(policy.minimum, min(policy.maximum, places - 1))
    within = max(policy.minimum, min(running, most))
    if within != running:
        return ReceiversTo(
            within, f"{running} receivers are outside the bounds {policy.minimum} to {most}"
        )
    if evaluation.gathered_rate is None:
        return Hold("what its receivers take is not known: no batch completed")
    if now.capacity is None:
        if evaluation.throttled is not None and evaluation.throttled_by in _HELD:
            return Hold(f"{_held(evaluation)}: it does not show what one receiver can take")
        return Hold(
            "what one receiver can take is not known: declare capacity; it is learned only while "
            "the receivers stand at limits declared for them, or fall behind a source that tells"
        )
    return _by_rate(policy, evaluation, now, running, most, evaluation.gathered_rate, now.capacity)


def _by_rate(
    policy: ReceiverCount,
    evaluation: Evaluation,
    now: Counted,
    running: int,
    most: int,
    rate: float,
    capacity: float,
) -> Hold | ReceiversTo:
    up, down = policy.scale_up_ratio, policy.scale_down_ratio
    load = rate / (running * capacity)
    why = (
        f"{number(rate)} records/s are {load:.2f} of what {counted(running, 'receiver')} can take "
        f"({number(capacity)} each)"
    )
    if load >= up:
        return _more(policy, evaluation, running, most, rate / (capacity * up), why)
    each = capacity if now.allowed is None else min(capacity, now.allowed)
    fewer = max(policy.minimum, running - policy.step, math.ceil(rate / (each * down)))
    if fewer >= running:
        may = "" if each == capacity else f" of the {number(each)} that each may take"
        return Hold(f"{why}, below {up:g}, and fewer would be above {down:g}{may}")
    left = rate / (fewer * each)
    fewer_say = f"{why}: {left:.2f} of what {fewer} can take is at or below {down:g}"
    if evaluation.throttled is not None:
        return Hold(f"{fewer_say}, but the input stands at its limit")
    if evaluation.overdue is not None:
        return Hold(f"{fewer_say}, but a batch is overdue")
    if evaluation.catching_up is not None and evaluation.catching_up <= GROWS:
        return Hold(f"{fewer_say}, but it falls behind its source")
    return ReceiversTo(fewer, f"{fewer_say}: {running} -> {fewer}")


def _more(
    policy: ReceiverCount, evaluation: Evaluation, running: int, most: int, wanted: float, why: str
) -> Hold | ReceiversTo:
    """Up, or why not: more receivers bring more, which has to be processed."""
    why = f"{why}, at or above {policy.scale_up_ratio:g}"
    if evaluation.throttled is not None and evaluation.throttled_by in _HELD:
        return Hold(f"{why}, but {_held(evaluation)}: raise it, more receivers are no way past it")
    if running >= most:
        bound = "the maximum" if most == policy.maximum else "as many as leave a core for batches"
        return Hold(f"{why}, but {most} are {bound}")
    if evaluation.overdue is not None or (evaluation.ratio is not None and evaluation.ratio >= 1):
        return Hold(f"{why}, but its batches do not fit into their interval as it is")
    if evaluation.throttled is not None and evaluation.throttled_by not in _OF_RECEIVERS:
        return Hold(f"{why}, but the executors bound the input: more receivers bring no more")
    target = min(max(running, math.floor(wanted)) + 1, running + policy.step, most)
    return ReceiversTo(target, f"{why}: {running} -> {target}")


def _held(evaluation: Evaluation) -> str:
    """Say that the input stands at a limit that must hold, and who set it."""
    who = f" ({evaluation.throttled_who})" if evaluation.throttled_who else ""
    return f"its input stands at its limit, and {_HELD[evaluation.throttled_by or '']}{who}"


def _rate(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdecimal() and int(text) else None
