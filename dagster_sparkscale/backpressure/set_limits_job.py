"""The operation `set_limits`, by hand from the launchpad or the command line."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from dagster_sparkscale.backpressure.set_limits import (
    NONE_TOLD,
    LimitsRequest,
    LimitsSet,
    in_words,
    limits_in_words,
    set_for,
    set_limits,
)
from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.declare.rates import ENABLED
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.driver.settings import BACKPRESSURE, SOURCE_OPTIONS
from dagster_sparkscale.in_force.limits import not_as_declared
from dagster_sparkscale.in_force.tuned import in_force
from dagster_sparkscale.observe.status import Limit
from dagster_sparkscale.operations import Operation, OperationConfig, Report, Run


class SetLimitsConfig(OperationConfig):
    """The config of a run. Give `rate`, `records` or `none`; without any, it only tells what there
    is."""

    source: str | None = Field(
        default=None,
        description="The source, by name; *: each without limits of its own. Left out: the only "
        "one there is; with none, all.",
    )
    rate: float | None = Field(default=None, description="Records per second, at most.")
    records: int | None = Field(
        default=None, description="Records of a batch, at most; not for receivers."
    )
    none: bool = Field(default=False, description="Take away what was set.")
    wait_seconds: float = Field(
        default=60.0, ge=0, description="How long to wait for the source to heed it."
    )


def _carry_out(run: Run[SetLimitsConfig]) -> Report:
    config = run.config
    request = LimitsRequest(
        config.source, config.rate, config.records, config.none, config.wait_seconds
    )
    story = set_limits(run.cluster, run.stream, request, run.requester.of(config.source))
    read_once = read_at_a_start(run.cluster, run.stream)
    return Report(
        _line(story, read_once, who_set(run.cluster, run.stream)),
        {
            "source": story.source,
            "ending": story.ending,
            "set_before": story.set_before,
            "set_after": story.set_after,
            "limits_before": _rows(story.before),
            "limits_after": _rows(story.after),
            "read_at_a_start": read_once,
            "epoch": story.driver.epoch,
        },
        reading=not request.changes,
        notes=story.notes,
    )


def read_at_a_start(cluster: ClusterManager, stream: Stream) -> dict[str, str]:
    """What a start of the stream has now of limits that no driver changes, as declared or tuned."""
    record = cluster.store().read(stream.name)
    settings = in_force(stream, record.tuning if record is not None else None)
    return {
        name.removeprefix(SOURCE_OPTIONS): value
        for name, value in settings.items()
        # With a policy that is off always: Spark's own estimator, and not backpressure.
        if name != BACKPRESSURE and not (name == ENABLED and stream.backpressure is not None)
    }


def who_set(cluster: ClusterManager, stream: Stream) -> list[str]:
    """Name who set each limit that is not as declared, since when and until when."""
    limits = not_as_declared(stream, cluster.store().read(stream.name))
    return [set_for(each) for each in limits]


def _line(story: LimitsSet, read_once: Mapping[str, str], set_by: Sequence[str]) -> str:
    if story.ending == "told":
        said = [in_words(limit) for limit in story.after] or [NONE_TOLD]
        said += set_by
        if read_once:
            each = ", ".join(f"{name} {value}" for name, value in read_once.items())
            said.append(f"read at a start: {each}")
        return "; ".join(said)
    if story.source is None:
        return "all limits that were set are taken away"
    both = story.set_before, story.set_after
    was, now = (limits_in_words(each.get(story.source)) for each in both)
    return f"{story.source}: {was} -> {now}: {story.ending}"


def _rows(limits: Sequence[Limit]) -> list[dict[str, Any]]:
    return [
        {
            "source": each.source,
            "records_per_second": each.rate,
            "by": each.by,
            "estimate": each.estimate,
            "heeded": each.taken,
        }
        for each in limits
    ]


SET_LIMITS: Operation[SetLimitsConfig, Any] = Operation(
    "set_limits",
    "Set what a source of a stream may take while it runs, or take that away.",
    SetLimitsConfig,
    _carry_out,
    lease_wait=30.0,
)
