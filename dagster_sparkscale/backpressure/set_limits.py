"""Sets a live limit of a source by hand: what is asked for, what is refused, and what came of it.
No Dagster here.

The request is made under the stream's lease, and remembered for the next driver. The wait for the
source to show that it heeds the limit is not: nothing else has to queue up behind it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dagster_sparkscale.clusters.base import ClusterManager, Driver
from dagster_sparkscale.clusters.errors import (
    AgentRefused,
    AgentUnreachable,
    ClusterError,
    StaleEpoch,
)
from dagster_sparkscale.clusters.records.leases import Lease
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.records.store import Limited
from dagster_sparkscale.clusters.requests import Refused, alive, gone
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.driver.live_limits import EVERY
from dagster_sparkscale.driver.wire import LARGEST
from dagster_sparkscale.in_force.limits import MAX_RECORDS_LIVE, LimitInForce, live
from dagster_sparkscale.in_force.live_limits import Rates, SetRates
from dagster_sparkscale.in_force.tuned import MAX_RATE_LIVE
from dagster_sparkscale.observe.status import Batch, Limit, Status
from dagster_sparkscale.quantities import number

ENOUGH_BATCHES = 5
"""Batches that were begun under a limit, after which it counts as not heeded."""
_POLL = 0.5
_SOON = 2.0
"""Seconds within which receivers are told."""
_TIMES = 10**12
"""A batch id above this is a time in milliseconds since the epoch, as DStreams have it."""
NONE_TOLD = (
    "no source has told yet that it takes live limits: receivers of DStreams do, and Python data "
    "sources that report (kinesis-direct); Kafka's are read once, at a start"
)


@dataclass(frozen=True)
class LimitsRequest:
    """What is to be set. With neither rate nor records nor `none` nothing is: it is only told what
    there is."""

    source: str | None = None
    """None: the only one that there is; with `none`, all of them. `*`: each without limits of its
    own."""
    rate: float | None = None
    """Records per second."""
    records: int | None = None
    """Records of a batch."""
    none: bool = False
    """Whether what was set is taken away."""
    wait: float = 60.0
    """Seconds to wait for the source to show that it heeds the limit."""

    @property
    def changes(self) -> bool:
        return self.none or self.rate is not None or self.records is not None


@dataclass
class LimitsSet:
    """What happened, as it happens. The run's page is made of this."""

    driver: Driver
    source: str | None
    set_before: Mapping[str, Mapping[str, float]]
    set_after: Mapping[str, Mapping[str, float]]
    before: tuple[Limit, ...]
    after: tuple[Limit, ...]
    ending: str = "told"
    """`told`, `removed`, `heeded`, `not heeded`, `not known` or `gone`."""
    notes: list[str] = field(default_factory=list)


def known(limits: Sequence[Limit]) -> tuple[str, ...]:
    """The sources that there are, and not only limits for such a name."""
    return tuple(limit.source for limit in limits if limit.query is not None)


def wanted(
    request: LimitsRequest, has: Mapping[str, Mapping[str, float]], limits: Sequence[Limit]
) -> tuple[str | None, Rates]:
    """The source that is meant, None for all of them, and all limits that are to be set then.

    Args:
        has: what is set.
        limits: those of the sources that there are, and of others that something is set for.

    Raises:
        Refused: the request makes no sense, or names a source that there is not.
    """
    asked = {"rate": request.rate, "records": request.records, "none": request.none or None}
    given = [name for name, value in asked.items() if value is not None]
    if len(given) > 1:
        raise Refused(
            f"{' and '.join(given)}: give one: a rate is records per second, records are those of "
            "a batch, none takes away what was set"
        )
    for name, value in (("rate", request.rate), ("records", request.records)):
        if value is not None and not 0 < value < LARGEST:
            raise Refused(f"{name} = {value:g}: must be above 0; to take a limit away, say none")
    rates = {source: dict(each) for source, each in has.items()}
    source = request.source
    if source is None and request.changes and not request.none:
        source = _the_only(known(limits))
    if not request.changes:
        return source, rates
    if source is None:
        return None, {}
    if request.none:
        if source not in rates and source not in known(limits):
            raise Refused(_unknown(source, (*known(limits), *rates)))
        rates.pop(source, None)
        return source, rates
    # One that something is set for may not have told of itself yet, as in the first batch, which is
    # when somebody is in a hurry.
    if source != EVERY and source not in known(limits) and source not in rates:
        raise Refused(_unknown(source, known(limits)))
    new = {MAX_RATE_LIVE: request.rate, MAX_RECORDS_LIVE: request.records}
    others = {name: value for name, value in rates.get(source, {}).items() if name not in new}
    rates[source] = {**others, **{name: n for name, n in new.items() if n is not None}}
    return source, rates


def _the_only(names: Sequence[str]) -> str:
    if len(names) != 1:
        raise Refused(
            f"source: missing; {_those(names)}" + ("" if not names else f", or {EVERY!r} for all")
        )
    return names[0]


def _unknown(source: str, names: Sequence[str]) -> str:
    return f"source = {source!r}: there is no such source; {_those(names)}"


def _those(names: Sequence[str]) -> str:
    return f"there is {', '.join(map(repr, sorted(set(names))))}" if names else NONE_TOLD


def set_limits(
    cluster: ClusterManager, stream: Stream, request: LimitsRequest, requester: Requester
) -> LimitsSet:
    """Carry out `request`, and see whether the source heeds it.

    Raises:
        Refused: the request makes no sense, or the stream does not run.
        BadRates: a limit that such a source can't have.
        OperationInProgress: another operation held the stream for longer than was to be waited.
        ClusterError: the agent could not be asked, or gave no answer in time. What was remembered
            before that is what the next driver begins with.
    """
    tell = requester.tell
    with cluster.lease(stream.name, requester, requester.lease_wait) as lease:
        story, asked = _request(cluster, stream, request, lease, tell)
    if asked is not None and story.source is not None and not request.none:
        _follow(cluster, story, asked, time.monotonic() + request.wait, tell)
    return story


def _request(
    cluster: ClusterManager,
    stream: Stream,
    request: LimitsRequest,
    lease: Lease,
    tell: Callable[[str], None],
) -> tuple[LimitsSet, Status | None]:
    """Set what is asked for. The story until then, and what the agent answered; None: nothing was
    to be set."""
    driver = alive(stream.name, cluster.find(stream.name), "set its limits")
    status = cluster.status(driver, window=0)
    has: Mapping[str, Mapping[str, float]] = status.rates or {}
    source, rates = wanted(request, has, status.limits)
    story = LimitsSet(driver, source, has, has, status.limits, status.limits)
    if not request.changes:  # the run's page and its last line tell what there is
        return story, None
    for limit in status.limits:
        tell(f"before: {in_words(limit)}")
    for each in live(lease.record).values():
        tell(f"before: {set_for(each)}")
    try:
        answer = cluster.change(driver, SetRates(rates), lease=lease)
    except StaleEpoch:
        raise
    except (AgentUnreachable, AgentRefused):
        # It may be in force, and the next driver begins with it.
        _remember_who(lease, request, source)
        raise
    _remember_who(lease, request, source)
    story.set_after, story.after = answer.rates or {}, answer.limits
    if request.none:
        story.ending = "removed"
    said = [f"{name}: {limits_in_words(each)}" for name, each in story.set_after.items()]
    tell(f"set: {'; '.join(said) or 'nothing'}")
    return story, answer


def _remember_who(lease: Lease, request: LimitsRequest, source: str | None) -> None:
    """What a person sets is no retuning's any more, whatever the number: none puts it back."""
    record, now = lease.record, time.time()
    limited = {name: each for name, each in record.limited.items() if name in (record.rates or {})}
    tuning = record.tuning
    if tuning is not None and request.none:
        tuning = replace(tuning, rates=_standing(tuning.rates, record.rates or {}))
    if source is not None and not request.none:
        limited[source] = Limited(lease.holder, now)
        if tuning is not None:
            tuning = replace(
                tuning,
                rates=_but(tuning.rates, source),
                # One of its own, put back, would lift from a source what is set for all.
                rates_before={} if source == EVERY else _but(tuning.rates_before, source),
            )
    lease.write(replace(record, limited_at=now, limited=limited, tuning=tuning))


def _standing(
    tuned: Mapping[str, float], rates: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    """The tuned limits that nobody has taken away: what is not there can't be put back."""
    return {
        name: rate for name, rate in tuned.items() if rates.get(name, {}).get(MAX_RATE_LIVE) == rate
    }


def _but(rates: Mapping[str, float], source: str) -> dict[str, float]:
    return {name: rate for name, rate in rates.items() if name != source}


def _follow(
    cluster: ClusterManager,
    story: LimitsSet,
    asked: Status,
    deadline: float,
    tell: Callable[[str], None],
) -> None:
    """Wait until the source has shown whether it heeds its limit; sets `story.ending`."""
    while True:
        over = time.monotonic() >= deadline
        try:
            status = cluster.status(story.driver)
        except StaleEpoch:
            status = None
        except ClusterError:
            status = asked if not over else None
        if gone(cluster, story.driver):
            story.ending = "gone"
            story.notes.append("the driver ended before the source had shown that it heeds it")
            return
        if status is not None:
            story.after = status.limits
            if (ending := heeded(story.source or "", status, asked.now, over)) is not None:
                _conclude(story, ending, tell)
                return
        if over:
            story.ending = "not known"
            story.notes.append("the agent does not answer")
            return
        time.sleep(_POLL)


_WHOSE = {
    "estimator": "the estimator",
    "max_rate": "max_rate of backpressure",
    "start": "the rate to begin with",
}


def heeded(source: str, status: Status, since: float, over: bool) -> str | None:
    """Whether a source heeds the limits that were set at `since`, as `LimitsSet.ending`; None: it
    does not show yet.

    Args:
        source: `*` for all.
        over: whether it is not waited for any longer.
    """
    limits = [each for each in status.limits if source in (EVERY, each.source)]
    begun = min((_begun(each, status, since) for each in limits), default=0)
    if begun:
        if limits and all(each.taken for each in limits):
            return "heeded"
        if begun >= ENOUGH_BATCHES or over:
            return "not heeded" if any(each.taken is False for each in limits) else "not known"
    return "not known" if over else None


def _begun(limit: Limit, status: Status, since: float) -> int:
    """Batches with records that were begun after a moment of the driver's clock, of the query that
    reads a source."""
    intervals = {query.name: query.interval_ms or 0 for query in status.queries}
    mine = [each for each in status.batches if each.query == limit.query and each.records]
    interval = intervals.get(limit.query or "", 0) / 1000
    return sum(_collected_from(each, interval) >= since for each in mine)


def _collected_from(batch: Batch, interval: float) -> float:
    """When the first records of a batch were taken, at the earliest."""
    if batch.batch_id is not None and batch.batch_id > _TIMES:
        return batch.batch_id / 1000 - interval - _SOON
    return batch.completed_at - batch.processing_ms / 1000


def _conclude(story: LimitsSet, ending: str, tell: Callable[[str], None]) -> None:
    story.ending = ending
    for limit in story.after:
        if story.source in (EVERY, limit.source):
            tell(f"after: {in_words(limit)}")
            if limit.by not in ("set", "nobody"):
                whose = _WHOSE.get(limit.by, "backpressure")
                story.notes.append(
                    f"{limit.source}: what was set is not in force yet: {whose} allows less, "
                    f"{number(limit.rate or 0.0)} records/s. It holds once that allows more"
                )
    if ending == "not heeded":
        story.notes.append(
            f"{story.source}: its batches since have had more than the limit allows; is it a "
            "source that takes live limits?"
        )
    elif ending == "not known":
        story.notes.append(
            f"{story.source}: it has not shown whether it heeds the limit: no batch with records "
            "has begun since, or it does not tell"
        )


def set_for(limit: LimitInForce) -> str:
    """A limit that is not as declared, and who set it."""
    number = f" to {limit.number}" if limit.number else ""
    return f"{limit.name} set{number} {limit.in_words}"


def limits_in_words(limits: Mapping[str, float] | None) -> str:
    """What is set for a source."""
    return ", ".join(f"{name} {value:g}" for name, value in (limits or {}).items()) or "not set"


def in_words(limit: Limit) -> str:
    """A limit as a person is told of it."""
    rate = "no limit" if limit.rate is None else f"{number(limit.rate)} records/s ({limit.by})"
    said = [f"{limit.source}: {rate}"]
    if limit.estimate is not None and limit.by != "estimator":
        said.append(f"the estimator says {number(limit.estimate)}")
    if limit.taken is not None:
        said.append("heeded" if limit.taken else "not heeded")
    if limit.query is None:
        said.append("no source has told of itself by this name yet")
    return ", ".join(said)
