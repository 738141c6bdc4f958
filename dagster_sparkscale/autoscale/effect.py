"""What a scale-up has brought, and that one which brought too little is undone. Pure.

    before   the work of a batch when the scale-up was decided: records and milliseconds
    after    the same, once the executors are there and one more window has passed
    gain     (speed-up - 1) / (executors after / executors before - 1): 1 is all that it should

How fast a batch is depends on its size, too: what a batch costs whatever it has counts more in a
small one. Records per second say too little of a speed-up where batches have become smaller, and
seconds per batch too much; where they have become larger it is the other way round. So the truth
lies between the two, and a scale-up is undone only where both are below the least gain.

It is measured where a policy declares `min_gain`, and of what the policy itself has decided.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Self

from dagster_sparkscale.capability import Running
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Decision, Hold, ScaleTo
from dagster_sparkscale.durations import in_units
from dagster_sparkscale.in_force.limits import bounds_in_force
from dagster_sparkscale.observe.status import Batch
from dagster_sparkscale.observe.tasks import cause_of
from dagster_sparkscale.quantities import number

LEAST_BATCHES = 3
"""Batches before and after by which a gain is measured."""
COMES_WITHIN = 300.0
"""Seconds that the executors of a scale-up have to come in; a decision is stale after 180."""
KNOWN_WITHIN = 30.0
"""Windows within which a gain has to be known: the load of long ago is no measure."""
SETTLED = 0.9
"""Windows that executors have to be there for: their first tasks load and compile code."""

_PREFIX = "effect_"


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a batch on average."""

    records: float
    ms: float

    @property
    def rate(self) -> float:
        """Records per second of processing."""
        return self.records * 1000 / self.ms


@dataclass(frozen=True, slots=True)
class ScaleUp:
    """A scale-up of which it is not known yet what it brings."""

    executors: float
    """Executors before it."""
    records: float
    ms: float
    ratio: float
    """R before it."""
    at: float
    """When it was decided, seconds since the epoch."""
    epoch: float
    to: float = 0.0
    """Executors since it; 0: they are not there yet."""
    since: float = 0.0
    """When these were there first, seconds since the epoch."""

    @property
    def work(self) -> Work:
        """The work of a batch before it."""
        return Work(self.records, self.ms)

    @classmethod
    def of(cls, learned: Mapping[str, float]) -> Self | None:
        """The scale-up that the sensor remembers; None: there is none."""
        keys = [field.name for field in fields(cls)]
        known = {key: learned[_PREFIX + key] for key in keys if _PREFIX + key in learned}
        return cls(**known) if len(known) == len(keys) else None

    @property
    def remembered(self) -> dict[str, float]:
        """What the sensor remembers of it."""
        return {_PREFIX + key: float(value) for key, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Gain:
    """What a scale-up has brought, as a share of what it should; the truth lies between the two."""

    least: float
    most: float
    after: Work

    @property
    def text(self) -> str:
        """The share, for people."""
        least, most = f"{max(0.0, self.least):.0%}", f"{max(0.0, self.most):.0%}"
        return least if least == most else f"{least} to {most}"


def gain(before: Work, after: Work, executors: float, to: float, pinned: float = 0.0) -> Gain:
    """What `to` instead of `executors` have brought.

    Args:
        pinned: executors' worth of places for tasks that receivers take for good; less than
            `executors`.
    """
    expected = (to - pinned) / (executors - pinned) - 1
    shares = ((after.rate / before.rate - 1) / expected, (before.ms / after.ms - 1) / expected)
    return Gain(min(shares), max(shares), after)


def adjust(situation: Running, decision: Hold | ScaleTo) -> Hold | ScaleTo:
    """The policy's decision; or to undo the last scale-up, which has brought too little."""
    least, up = _least(situation), ScaleUp.of(situation.learned)
    if least is None or up is None or _is_down(situation, decision):
        return decision
    assert situation.stream.autoscale is not None
    found = _measured(situation, up)
    if found is None:
        return decision
    if isinstance(found, str):
        return _beside(decision, f"it is not known yet what more executors brought: {found}")
    if found.most < least:
        return _undone(situation, up, found) or decision
    if found.least < least:
        why = f"{_brought(situation, up, found)}: batches have another size, so it stays"
        return _beside(decision, why)
    return decision


def learn(situation: Running, decision: Decision) -> Mapping[str, float]:
    """The scale-up that is to be measured, as the sensor remembers it from now on."""
    least, up = _least(situation), ScaleUp.of(situation.learned)
    if least is None:
        return {}
    if up is not None and (up.epoch != situation.driver.epoch or _is_over(situation, up)):
        up = None
    staying, requested = situation.evaluation.staying, situation.evaluation.requested
    if isinstance(decision, ScaleTo) and requested is not None and decision.target > requested:
        if situation.steering.of("pin") is not None:
            return {}  # a person wants these, whatever they bring
        if up is None or requested <= up.executors:
            # Held since it was decided: what there was then is no measure any more.
            up = _begun(situation) or up
        return {} if up is None else up.remembered
    if up is None:
        return {}
    if staying is not None and staying > up.executors and _is_certain(situation):
        if up.to != staying:
            up = replace(up, to=float(staying), since=situation.now)
        elif isinstance(found := _measured(situation, up), Gain) and found.least >= least:
            return {}
    return up.remembered


def _least(situation: Running) -> float | None:
    policy = situation.stream.autoscale
    return policy.min_gain if policy is not None else None


def _is_down(situation: Running, decision: Hold | ScaleTo) -> bool:
    requested = situation.evaluation.requested
    return isinstance(decision, ScaleTo) and decision.target <= (requested or 0)


def _beside(decision: Hold | ScaleTo, why: str) -> Hold | ScaleTo:
    if isinstance(decision, ScaleTo):
        return decision
    return replace(decision, reason=f"{decision.reason}; {why}")


def _begun(situation: Running) -> ScaleUp | None:
    """A scale-up from what there is now; None: that is not certain, and what it brings will not be
    known."""
    seen = situation.evaluation
    if not _is_certain(situation) or not seen.staying or seen.ratio is None:
        return None
    work = _work(situation, seen.staying)
    if not isinstance(work, Work):
        return None
    return ScaleUp(
        *(float(seen.staying), work.records, work.ms, seen.ratio, situation.now),
        float(situation.driver.epoch),
    )


def _is_certain(situation: Running) -> bool:
    """Whether no executor comes or goes."""
    seen = situation.evaluation
    return seen.registered is not None and not seen.removing and seen.registered == seen.requested


def _is_over(situation: Running, up: ScaleUp) -> bool:
    """Whether there is nothing to measure any more: it never came, has been taken back, or is too
    long ago."""
    requested, age = situation.evaluation.requested, situation.now - up.at
    if requested is None:
        return False
    if requested <= up.executors:
        return bool(up.to) or not 0 <= age <= COMES_WITHIN
    return not 0 <= age <= KNOWN_WITHIN * situation.stream.window


def _measured(situation: Running, up: ScaleUp) -> Gain | str | None:
    """What a scale-up has brought; as text, why that is not known; None: it is under way."""
    seen = situation.evaluation
    if seen.requested is None or seen.requested <= up.executors:
        return None
    if not _is_certain(situation):
        return "executors come or go"
    if up.to != seen.staying or situation.now - up.since < SETTLED * situation.stream.window:
        return "they have to be there for a whole window"
    work = _work(situation, int(up.to))
    if isinstance(work, str):
        return work
    pinned = _bounds(situation).pinned
    if up.executors <= pinned:
        return "receivers had taken all places"
    return gain(up.work, work, up.executors, up.to, pinned)


def _bounds(situation: Running) -> Bounds:
    return bounds_in_force(situation.stream, situation.driver, situation.steering)


def _work(situation: Running, executors: int) -> Work | str:
    """The work of a batch of the window on so many executors; as text, why that is not known."""
    status, seen = situation.status, situation.evaluation
    active = {query.name for query in status.queries if query.active}
    if len(active) != 1:
        return f"{len(active)} queries are active, which share the executors"
    since = status.now - seen.window
    batches = [each for each in status.batches if each.completed_at > since and _works(each)]
    if any(each.executors is None for each in batches):
        return "the driver does not report on how many executors its batches ran"
    if any(each.executors != executors for each in batches):
        return "batches ran on another number of executors"
    if len(batches) < LEAST_BATCHES:
        return f"fewer than {LEAST_BATCHES} batches with records completed in {seen.window:g} s"
    records = sum(each.records or 0 for each in batches) / len(batches)
    return Work(records, sum(each.processing_ms for each in batches) / len(batches))


def _works(batch: Batch) -> bool:
    return not batch.failed and not batch.cold and bool(batch.records) and batch.processing_ms > 0


def _brought(situation: Running, up: ScaleUp, found: Gain) -> str:
    return (
        f"{up.to:.0f} executors brought {found.text} of what they should over {up.executors:.0f}: "
        f"{number(up.work.rate)} -> {number(found.after.rate)} records per second of processing, "
        f"R {up.ratio:.2f} -> {situation.evaluation.ratio or 0:.2f}"
    )


def _undone(situation: Running, up: ScaleUp, found: Gain) -> ScaleTo | None:
    """Go back to the executors of before; None: the bounds do not let it."""
    policy = situation.stream.autoscale
    assert policy is not None
    target = _bounds(situation).clamp(int(up.executors))
    if target >= up.to:
        return None
    cause = cause_of(situation.status, situation.stream.cores_per_task)
    why = cause.text if cause.kind is not None else f"the cause is not known: {cause.text}"
    return ScaleTo(
        target,
        f"{_brought(situation, up, found)}; {why}; no more than {target} for "
        f"{in_units(policy.retry_after)}",
        not_again_for=policy.retry_after,
    )
