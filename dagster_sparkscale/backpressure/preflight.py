"""What is to be done about a stream's limits, and what bars it. Changes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dagster_sparkscale.backpressure.advice import gains, shown
from dagster_sparkscale.backpressure.plan import (
    LimitChange,
    Present,
    by_hand,
    change,
    present,
    situation,
)
from dagster_sparkscale.backpressure.recommend import Advice, recommend
from dagster_sparkscale.backpressure.tunables import with_values
from dagster_sparkscale.backpressure.verify import measured
from dagster_sparkscale.clusters.base import ClusterManager, Driver, DriverState
from dagster_sparkscale.clusters.errors import AgentRefused, AgentUnreachable
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.requests import Refused
from dagster_sparkscale.declare.backpressure import Retune
from dagster_sparkscale.declare.drift import drift
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.in_force.limits import set_by_a_person
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.observe.status import Status
from dagster_sparkscale.remedy import Remedy, WithRemedy

BASELINE = 86400.0
"""Seconds before a change that are compared with the time after it: a day has all its loads."""

_ANSWERS = 10.0
"""Seconds that the agent has to answer."""


@dataclass(frozen=True)
class Preflight:
    """A stream that may be retuned, and what is to be done about its limits."""

    driver: Driver
    status: Status
    record: Record
    now: Present
    change: LimitChange | None = None
    """None: nothing is to be done."""
    why_not: str = ""
    notes: tuple[str, ...] = ()
    baseline: Mapping[str, float] = field(default_factory=dict)
    by_hand: bool = False
    """Whether a person has given the values."""


def rules(stream: Stream) -> Retune:
    """How it is retuned; as a person may have it, too, where the stream declares nothing of it."""
    return stream.retune if stream.retune is not None else Retune(schedule=None)


def look(
    cluster: ClusterManager,
    stream: Stream,
    requester: Requester,
    minutes: Sequence[Minute],
    values: Mapping[str, float] | None = None,
    *,
    now: float,
) -> Preflight:
    """What is to be done about the limits of `stream`. Changes nothing. What people have said
    before does not bind a person.

    Args:
        values: by limit, as a person gives them; None: as the history recommends.
        minutes: the stream's history, in order of time.
        now: seconds since the epoch.

    Raises:
        Refused: nothing can be done about it, or not now; says why.
        DeclarationError: a value that a person gave makes no sense.
        ClusterError: the cluster manager can't be asked.
    """
    driver, status, record = running(cluster, stream, requester.epoch)
    if requester.decided:
        _refuse_by_itself(stream, driver, record, now)
    here = present(stream, record)
    if not here.values:
        raise Refused(
            f"{stream.name!r} declares no limits that could be retuned: give it limits, which its "
            "program takes by stream_options(), or backpressure"
        )
    if values is not None:
        wanted = by_hand(values, here)
        advice = Advice(wanted, why_not="" if wanted else "these values are in force already")
        with_values(stream, here.values, values)  # also one that is in force already
    else:
        advice = recommend(
            minutes, situation(stream, record, here, status), rules(stream).least_gain
        )
    found = None
    if advice.recommended:
        found = change(stream, here, advice.recommended, status, record.rates or {})
    lately = [minute for minute in minutes if minute.at >= now - BASELINE]
    looked = Preflight(
        *(driver, status, record, here, found, advice.why_not, advice.notes),
        baseline=measured(lately),
        by_hand=values is not None,
    )
    if requester.decided and found is not None:
        _refuse_what_was_put_back(stream, record, found, here)
    if requester.decided and found is not None and found.how == "restart":
        _refuse_other_changes(stream, driver)
    return looked


def running(
    cluster: ClusterManager, stream: Stream, epoch: int | None
) -> tuple[Driver, Status, Record]:
    """The driver of a stream that runs and does well enough to be changed.

    Args:
        epoch: the epoch that the driver must have; None: any.

    Raises:
        Refused: no driver runs; says why.
    """
    name = stream.name
    driver, record = cluster.find(name), cluster.store().read(name)
    if driver is None or record is None:
        raise Refused(WithRemedy(f"{name!r} is not started: ", Remedy.START))
    if epoch is not None and driver.epoch != epoch:
        raise Refused(
            f"{name!r}: this was asked for driver {epoch}, and driver {driver.epoch} has come since"
        )
    if driver.hold is not None:
        raise Refused(f"{name!r} is held by {driver.hold.by}, in the middle of: {driver.hold.step}")
    if driver.state is not DriverState.RUNNING:
        raise Refused(f"{name!r} is {driver.state.value}: only one that runs is retuned")
    try:
        status = cluster.status(driver, timeout=_ANSWERS)
    except (AgentUnreachable, AgentRefused) as error:
        raise Refused(f"{name!r}: its driver can't be asked: {error}") from None
    if status.reconfiguring is not None:
        raise Refused(f"{name!r}: its state is being reconfigured: retune it when that is over")
    if status.phase != "running":
        raise Refused(f"{name!r}: its driver is {status.phase}")
    if not any(query.active for query in status.queries):
        raise Refused(f"{name!r}: no query of it is active")
    return driver, status, record


def _refuse_by_itself(stream: Stream, driver: Driver, record: Record, now: float) -> None:
    """Refuse what only a person may do at present.

    Raises:
        Refused: a person set limits, or limits were put back, a short time ago.
    """
    tuning = record.tuning
    for source, each in set_by_a_person(record).items():
        raise Refused(
            f"{stream.name!r}: hands off: a live limit of {source!r} was set {each.in_words}"
        )
    if record.limited_at is not None:
        _hands_off(stream, record.limited_at, now, "a person has set live limits of it")
    if tuning is None:
        return
    if tuning.verify_at is not None:
        raise Refused(
            f"{stream.name!r}: what {tuning.by} has changed is still being verified: "
            + (tuning.outcome or "it was not looked at yet")
        )
    if tuning.by_hand:
        _hands_off(stream, tuning.at, now, f"its limits were set by {tuning.by or 'a person'}")
    if tuning.put_back:
        _hands_off(stream, tuning.at, now, f"its limits were put back ({tuning.outcome})")


def _hands_off(stream: Stream, since: float, now: float, why: str) -> None:
    """Refuse for as long as a stream is left alone after something has happened to it."""
    # The clock that wrote the moment may have been ahead.
    if (left := min(since, now) + rules(stream).hands_off - now) > 0:
        raise Refused(f"{stream.name!r}: hands off for {left / 3600:.1f} h more: {why}")


def _refuse_what_was_put_back(
    stream: Stream, record: Record, found: LimitChange, here: Present
) -> None:
    """Refuse what was tried and put back: by the same history it would be tried for ever, and put
    back each time, with two restarts.

    Raises:
        Refused: one of the limits is much the same as the one that was put back.
    """
    tuning = record.tuning
    if tuning is None or not tuning.put_back:
        return
    back = replace(tuning, settings=tuning.before, rates=tuning.rates_before)
    tried = present(stream, replace(record, tuning=back)).values
    for each in found.recommended:
        was = tried.get(each.limit)
        if was is None or was == here.values.get(each.limit):
            continue
        if not gains(was, each.after, rules(stream).least_gain):
            raise Refused(
                f"{stream.name!r}: {each.limit} = {shown(was)} was in force before, and was put "
                f"back ({tuning.outcome}): retune it by hand, or declare another value"
            )


def _refuse_other_changes(stream: Stream, driver: Driver) -> None:
    """Refuse a restart that nobody has asked for, if it would bring more than limits."""
    if lines := drift(driver.declared, stream):
        raise Refused(
            f"{stream.name!r}: a restart would change more than limits, as its declaration has "
            f"changed: {'; '.join(lines)}. Restart it, or retune it by hand"
        )
