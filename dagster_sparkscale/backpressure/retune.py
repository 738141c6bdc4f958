"""Changes of a stream's limits, whether they did any good, and the way back. No Dagster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dagster_sparkscale.backpressure.apply import Applied, apply, start_again, unchanged
from dagster_sparkscale.backpressure.fallback import AGAIN
from dagster_sparkscale.backpressure.plan import Present, present, way_back
from dagster_sparkscale.backpressure.preflight import Preflight, rules, running
from dagster_sparkscale.backpressure.verify import SETTLING, Verdict, measured, verdict
from dagster_sparkscale.clusters.base import ClusterManager, DriverState
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.records.store import Record, Tuning
from dagster_sparkscale.clusters.requests import Refused
from dagster_sparkscale.declare.drift import drift
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.in_force.tuned import before, declared_limits, with_tuning
from dagster_sparkscale.observe.minutes import Minute

LEAST = 30
"""Minutes to be measured after a change, before anything is said of it; fewer where it is to be
verified sooner."""
_AHEAD = 300.0
"""Seconds that the clock of whoever changed the limits may have been ahead of this one."""
LOOKS = 12
"""Times `verify_after` for which it is looked at whether a change did any good."""


@dataclass(frozen=True)
class Verified:
    """What came of looking whether a change did any good."""

    verdict: Verdict | None
    """None: nothing was to be verified."""
    said: str
    put_back: Applied | None = None
    verify_at: float | None = None
    """When it is looked at again."""


def retune(
    cluster: ClusterManager, stream: Stream, looked: Preflight, requester: Requester, *, now: float
) -> Applied:
    """Carry out what `look` has found.

    Args:
        now: seconds since the epoch.

    Raises:
        Refused, StaleEpoch, OperationInProgress, NotDone, ClusterError: as `apply`.
    """
    found = looked.change
    assert found is not None
    given = looked.by_hand
    verified = not given and stream.retune is not None and found.how != "start"
    outcome = ""
    if found.how == "start":
        outcome = "in force from the next start on"
    elif given:
        outcome = "set by hand"
    tuning = Tuning(
        settings=_beside(declared_limits(stream), found.settings),
        by=requester.name,
        at=now,
        by_hand=given,
        declared=declared_limits(stream),
        before=looked.now.settings,
        baseline=looked.baseline,
        verify_at=now + rules(stream).verify_after if verified else None,
        outcome=outcome,
        rates=found.rates,
        rates_before=looked.now.rates,
    )
    return apply(cluster, stream, looked, tuning, found.how, requester)


def put_back(
    cluster: ClusterManager,
    stream: Stream,
    requester: Requester,
    *,
    now: float,
    why: str = "",
    expected: Tuning | None = None,
) -> Applied:
    """Have what was in force before the last tuning; of a stream that does not run, from its next
    start on. One that has failed of the harm that was done is started.

    Args:
        why: what harm was done; empty: a person wishes it.
        expected: the tuning that has done it; None: whichever is the last.

    Raises:
        Refused: nothing was tuned, or something else was in the meantime; nothing was touched.
        StaleEpoch, OperationInProgress, NotDone, ClusterError: as `retune`.
    """
    record = cluster.store().read(stream.name)
    tuning = record.tuning if record is not None else None
    if record is None or tuning is None or not (tuning.settings or tuning.rates or tuning.before):
        raise Refused(f"{stream.name!r}: nothing of it was tuned that could be put back")
    if expected is not None:
        unchanged(record, expected, stream.name)
    here = present(stream, record)
    back = _as_before(stream, tuning, here, requester.name, now, why)
    newest = cluster.find(stream.name)
    if newest is None or newest.state is not DriverState.RUNNING:
        with cluster.lease(stream.name, requester, requester.lease_wait) as lease:
            unchanged(lease.record, tuning, stream.name)
            lease.write(with_tuning(lease.record, back))
        state = newest.state.value if newest is not None else "not started"
        requester.tell(f"{stream.name!r} is {state}: its next start has the limits of before")
        if why and newest is not None and newest.state is DriverState.FAILED:
            return start_again(cluster, stream, newest, requester)
        return Applied(newest, "start", 0.0, None)
    live = dict(back.rates) != dict(tuning.rates)
    how = way_back(stream, here, {**back.declared, **back.settings}, live)
    driver, status, record = running(cluster, stream, requester.epoch)
    unchanged(record, tuning, stream.name)  # the driver may have taken long to answer
    if why and how == "restart" and (lines := drift(driver.declared, stream)):
        requester.tell(f"it is remembered for the next start: {_would_change_more(lines)}")
        back = replace(back, verify_at=now + AGAIN, outcome=f"{_TO_BE}{back.outcome}")
        how = "start"
    looked = Preflight(driver, status, record, here)
    return apply(cluster, stream, looked, back, how, requester)


def _as_before(
    stream: Stream, tuning: Tuning, here: Present, by: str, now: float, why: str
) -> Tuning:
    """The limits that were in force before `tuning`, to be put back."""
    declared = declared_limits(stream)
    settings, rates = before(tuning, declared)
    return Tuning(
        settings=_beside(declared, settings),
        by=by,
        at=now,
        by_hand=not why,
        declared=declared,
        before=here.settings,
        outcome=f"put back: {why}" if why else "put back by hand",
        put_back=True,
        rates=rates,
        rates_before=tuning.rates,
    )


def _remember(
    cluster: ClusterManager, stream: Stream, requester: Requester, expected: Tuning, tuning: Tuning
) -> None:
    """Remember `tuning` in the place of `expected`.

    Raises:
        Refused: somebody else has tuned the stream in the meantime.
    """
    with cluster.lease(stream.name, requester, requester.lease_wait) as lease:
        unchanged(lease.record, expected, stream.name)
        lease.write(replace(lease.record, tuning=tuning))


def verify(
    cluster: ClusterManager,
    stream: Stream,
    minutes: Sequence[Minute],
    requester: Requester,
    *,
    now: float,
) -> Verified:
    """See whether the last change did any good, and put back what was before if it did harm.

    Args:
        minutes: the stream's history since before the change, in order of time.

    Raises:
        StaleEpoch, OperationInProgress, NotDone, ClusterError: as `retune`.
    """
    record = cluster.store().read(stream.name)
    tuning = record.tuning if record is not None else None
    if record is None or tuning is None or tuning.verify_at is None:
        done = f" ({tuning.outcome})" if tuning is not None and tuning.outcome else ""
        return Verified(None, f"nothing is to be verified{done}")
    after_all = rules(stream).verify_after
    if tuning.at > now + _AHEAD:
        said, soon = "the clock of the host that changed it was ahead", now + after_all
        _remember(cluster, stream, requester, tuning, replace(tuning, at=now, verify_at=soon))
        return Verified(None, f"it is verified later: {said}", verify_at=soon)
    if now < tuning.verify_at:
        left = (tuning.verify_at - now) / 60
        return Verified(None, f"it is too early: {left:.0f} min more", verify_at=tuning.verify_at)
    if tuning.put_back:
        return _put_back_waits(cluster, stream, record, requester, now)
    found, limited = _verdict(stream, record, tuning, minutes, now)
    again: float | None = None
    if found.outcome == "worse":
        requester.tell(str(found))
        try:
            story = put_back(cluster, stream, requester, now=now, why=str(found), expected=tuning)
            done = "to be put back" if story.verify_at is not None else "put back"
            return Verified(found, f"{done}: {found}", story, story.verify_at)
        except Refused as refused:
            again, said = now + min(after_all, AGAIN), f"to be put back: {found}; {refused}"
    elif limited:
        said = "kept: a person has set live limits since: nothing can be compared"
    elif found.outcome == "unknown" and now + after_all <= tuning.at + LOOKS * after_all:
        again, said = now + after_all, f"it is looked at again: {found}"
    else:
        said = f"kept: {found}"
    looked_at = replace(tuning, verify_at=again, outcome=said)
    _remember(cluster, stream, requester, tuning, looked_at)
    return Verified(found, said, verify_at=again)


def _verdict(
    stream: Stream, record: Record, tuning: Tuning, minutes: Sequence[Minute], now: float
) -> tuple[Verdict, bool]:
    """Whether the stream does better than before `tuning`, and whether a person has set live limits
    since."""
    since = since_when(record, tuning, now)
    limited = record.limited_at is not None and record.limited_at >= tuning.at
    baseline = tuning.baseline
    if limited:  # how it does is then not of what was tuned; that no driver comes up may be
        baseline = {name: value for name, value in baseline.items() if name == "down"}
    found = verdict(
        baseline,
        measured([minute for minute in minutes if since + SETTLING <= minute.at < now]),
        least=max(3, min(LEAST, round(rules(stream).verify_after / 120))),
        interval=stream.batch_interval,
    )
    return found, limited


def _put_back_waits(
    cluster: ClusterManager, stream: Stream, record: Record, requester: Requester, now: float
) -> Verified:
    """See to a put-back that waits for a start: it is over with one, and made where nothing bars it
    any more.

    Raises:
        StaleEpoch, OperationInProgress, NotDone, ClusterError: as `retune`.
    """
    tuning = record.tuning
    assert tuning is not None
    done = replace(tuning, verify_at=None, outcome=tuning.outcome.replace(_TO_BE, "", 1))
    said: str | None = None
    if since_when(record, tuning, now) > now:
        try:
            driver, status, record = running(cluster, stream, requester.epoch)
            if not (lines := drift(driver.declared, stream)):
                here = present(stream, record)
                looked = Preflight(driver, status, record, here)
                story = apply(cluster, stream, looked, done, "restart", requester)
                return Verified(None, done.outcome, story)
            said = f"{tuning.outcome}; {_would_change_more(lines)}"
        except Refused as refused:
            said = f"{tuning.outcome}; {refused}"
    later = done if said is None else replace(tuning, verify_at=now + AGAIN)
    _remember(cluster, stream, requester, tuning, later)
    return Verified(None, said or done.outcome, verify_at=later.verify_at)


_TO_BE = "to be "
"""Begins the outcome of a put-back that waits for a start."""


def _would_change_more(lines: Sequence[str]) -> str:
    return (
        "a restart by itself would change more than limits, as the declaration has changed: "
        f"{'; '.join(lines)}"
    )


def is_due(tuning: Tuning, now: float) -> bool:
    """Whether it is time to see to a change: also where the clock of whoever made it was ahead."""
    if tuning.verify_at is None:
        return False
    return tuning.verify_at <= now or tuning.at > now + _AHEAD


def since_when(record: Record, tuning: Tuning, now: float) -> float:
    """The time since which the tuned limits are in force, seconds since the epoch; infinity where
    they wait for a start. A start in the future is one by a clock that was ahead."""
    if {**tuning.declared, **tuning.settings} == dict(tuning.before):
        return tuning.at  # live limits alone
    starts = [
        each.at if each.at <= now else tuning.at for each in record.history if each.at >= tuning.at
    ]
    return min(starts, default=float("inf"))


def _beside(declared: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """The wanted settings that differ from the declared ones."""
    return {name: value for name, value in wanted.items() if declared.get(name) != value}
