"""The operation `retune_backpressure`: by hand from the launchpad, or by its schedules."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import dagster as dg
from pydantic import Field

from dagster_sparkscale.backpressure.advice import shown
from dagster_sparkscale.backpressure.apply import Applied
from dagster_sparkscale.backpressure.plan import How, present
from dagster_sparkscale.backpressure.preflight import Preflight, look, rules
from dagster_sparkscale.backpressure.retune import Verified, put_back, retune, verify
from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.observe.history import history
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.operations import (
    DecidedConfig,
    Operation,
    Report,
    Run,
    asset_key,
    joined,
)

NAME = "retune_backpressure"
VERIFY = "verify_retune"

_ENDINGS: dict[How, str] = {
    "live": "set while it runs",
    "start": "in force from the next start on",
    "restart": "restarted",
}
_PLANNED: dict[How, str] = {
    "live": "while it runs",
    "start": "from the next start on",
    "restart": "by a restart",
}


@dataclass(frozen=True, slots=True)
class RetuneDecision:
    """Have other limits, or see whether those that were changed last did any good."""

    operation: ClassVar[str | None] = NAME

    reason: str
    verify: bool = False
    dry_run: bool = False

    def __str__(self) -> str:
        return "verify retuning" if self.verify else "retune backpressure"


class RetuneConfig(DecidedConfig):
    """The config of a retune_backpressure run."""

    dry_run: bool = Field(
        default=False, description="Only say what would be changed, why, and what it would do."
    )
    verify: bool = Field(
        default=False,
        description="See whether the last change did any good, and put back what was before if "
        "it did harm. Changes nothing else.",
    )
    put_back: bool = Field(
        default=False, description="Have what was in force before the last change."
    )
    values: dict[str, Any] = Field(
        default_factory=dict,
        description='Limits to set, by name, such as {"clicks.maxOffsetsPerTrigger": 20000} or '
        '{"backpressure.max_rate": 5000}. Left out: what the history recommends.',
    )


def minutes_of(instance: dg.DagsterInstance, stream: Stream, now: float) -> list[Minute]:
    """The minutes as far back as its retuning looks; none where no minute is stored."""
    try:
        return history(instance, asset_key(stream), now - rules(stream).history, now)
    except LookupError:
        return []


def _carry_out(run: Run[RetuneConfig]) -> Report:
    config, stream, requester = run.config, run.stream, run.requester
    _one_of(config)
    cluster, now = run.cluster, time.time()
    if config.put_back:
        before = _in_force(cluster, stream)
        back = put_back(cluster, stream, requester, now=now)
        return _was_put_back(back, before, _in_force(cluster, stream))
    minutes = minutes_of(run.context.instance, stream, now)
    if config.verify:
        # It is no change: it overtakes nothing that a person asked for.
        looking = replace(requester, change=VERIFY)
        return _verified(verify(cluster, stream, minutes, looking, now=now))
    looked = look(cluster, stream, requester, minutes, config.values or None, now=now)
    change = looked.change
    for note in looked.notes:
        requester.tell(note)
    # What a schedule finds is its advice.
    reading = config.dry_run and not requester.decided
    if change is None:
        found = {**_found(looked, config.dry_run), "ending": "nothing to do"}
        return Report(f"nothing to do: {looked.why_not}", found, reading=reading)
    for each in change.recommended:
        requester.tell(str(each))
    if config.dry_run:
        return Report(
            f"would change {change.in_short}, {_PLANNED[change.how]}; nothing was changed",
            {**_found(looked, True), "ending": "dry run", "how": change.how},
            reading=reading,
        )
    story = retune(cluster, stream, looked, requester, now=now)
    ending = _ENDINGS[story.how]
    came = {"ending": ending, "verify_at": story.verify_at, **_of_story(story)}
    return Report(f"changed {change.in_short}: {ending}", {**_found(looked, False), **came})


def _one_of(config: RetuneConfig) -> None:
    """Refuse two fields that exclude each other."""
    given = [name for name in ("verify", "put_back", "values") if getattr(config, name)]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)}: give one of them")
    if config.dry_run and (config.verify or config.put_back):
        raise ValueError(f"dry_run and {given[0]}: give one of them")


def _verified(came: Verified) -> Report:
    ending, verdict, why = "nothing to do", None, came.said
    if came.verdict is not None:
        ending = "looked at again" if came.verify_at is not None else "kept"
        verdict, why = came.verdict.outcome, "; ".join(came.verdict.reasons)
    story = {}
    if came.put_back is not None:
        story = _of_story(came.put_back)
        ending = "put back" if came.verify_at is None else ending
    values = {"ending": ending, "verdict": verdict, "why": why, "verify_at": came.verify_at}
    return Report(came.said, {**values, **story})


def _in_force(cluster: ClusterManager, stream: Stream) -> Mapping[str, float | None]:
    record = cluster.store().read(stream.name)
    return present(stream, record).values if record is not None else {}


def _was_put_back(
    story: Applied, before: Mapping[str, float | None], after: Mapping[str, float | None]
) -> Report:
    changed = [
        (limit, before.get(limit), value)
        for limit, value in after.items()
        if before.get(limit) != value
    ]
    said = ", ".join(f"{name} from {shown(was)} to {shown(now)}" for name, was, now in changed)
    changes = [{"limit": name, "before": was, "after": now} for name, was, now in changed]
    return Report(
        f"put back {said or 'what was in force before'}: {_ENDINGS[story.how]}",
        {"ending": "put back", "changes": changes, **_of_story(story)},
    )


def _found(looked: Preflight, dry_run: bool) -> dict[str, Any]:
    """What a look at the history has found."""
    changes = looked.change.recommended if looked.change is not None else ()
    return {
        "dry_run": dry_run,
        "notes": joined(looked.notes),
        "epoch": looked.driver.epoch,
        **({"changes": list(map(asdict, changes))} if changes else {}),
    }


def _of_story(story: Applied) -> dict[str, Any]:
    return {
        "how": story.how,
        "seconds": round(story.seconds, 3),
        "epoch": story.driver.epoch if story.driver is not None else None,
    }


def _config_for(decision: RetuneDecision, stream: Stream, epoch: int | None) -> RetuneConfig:
    return RetuneConfig(
        reason=decision.reason, verify=decision.verify, dry_run=decision.dry_run, epoch=epoch
    )


RETUNE = Operation(
    NAME,
    "Give a stream the limits that its history recommends, or those that are said here: while it "
    "runs where that can be, else by a graceful restart. What does harm is put back later.",
    RetuneConfig,
    _carry_out,
    config_for=_config_for,
)
