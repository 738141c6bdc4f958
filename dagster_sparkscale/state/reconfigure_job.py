"""The operation `reconfigure_state`: by hand from the launchpad, or in the stream's window."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field

from dagster_sparkscale.clusters.requests import Refused
from dagster_sparkscale.declare.key_groups import skew
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.observe.state import rows_of_partitions, stood_still
from dagster_sparkscale.observe.status import Reconfiguration
from dagster_sparkscale.operations import DecidedConfig, Operation, Report, Run, rounded
from dagster_sparkscale.state.follow import listed
from dagster_sparkscale.state.partition_change import OfQuery, PartitionChange
from dagster_sparkscale.state.plan import Asked, Barred, Settled
from dagster_sparkscale.state.reconfigure import Reconfigured, ReconfigureRequest, look, reconfigure
from dagster_sparkscale.state.way import NO_MORE

NAME = "reconfigure_state"
_MOST_LISTED = 1024
"""Numbers of a list that a run's page shows; there may be 32768 key groups."""


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Have the state partitions that are declared, or recommended."""

    operation: ClassVar[str | None] = NAME

    reason: str

    def __str__(self) -> str:
        return "reconfigure state"


class ReconfigureConfig(DecidedConfig):
    """The config of a reconfigure_state run."""

    partitions: int | None = Field(
        default=None,
        description="State partitions wanted. Left out: what is declared, or else recommended.",
    )
    query: str | None = Field(
        default=None,
        description="The query that is meant, by its name. Left out: each that keeps state.",
    )
    dry_run: bool = Field(
        default=False, description="Only say what would be done and what it may cost."
    )


def _carry_out(run: Run[ReconfigureConfig]) -> Report:
    config, stream = run.config, run.stream
    asked, id = Asked(config.partitions, config.query), run.context.run.run_id[:8]
    if config.dry_run:
        _, found = look(run.cluster, stream, asked, id=id)
        if isinstance(found, Barred):
            raise Refused(found.why)
        if isinstance(found, Settled):
            return _settled(config, found)
        return _planned(found)
    # Without a declaration it is refused before it is waited for.
    within = stream.state.within if stream.state is not None else 0.0
    request = ReconfigureRequest(asked, id, within)
    came = reconfigure(run.cluster, stream, request, run.requester.of(config.query))
    return _settled(config, came) if isinstance(came, Settled) else _done(came)


def _settled(config: ReconfigureConfig, found: Settled) -> Report:
    return Report(
        f"nothing to do: {found.why}",
        {"ending": "nothing to do", "dry_run": config.dry_run},
        reading=config.dry_run,
    )


def _planned(change: PartitionChange) -> Report:
    more = change.way.more if change.way.beside else NO_MORE
    return Report(
        f"would change {_in_short(change)}; nothing was changed; {'; '.join(change.lines)}",
        {
            "ending": "dry run",
            "dry_run": True,
            "estimated_seconds": rounded(change.seconds),
            "way": change.way.name,
            "why_a_restart": change.way.why,
            "why_not_beside": change.way.why_in_place,
            "executors_meanwhile": more.target,
            "why_no_more_executors": more.why_not,
            "queries": [_of_plan(each) for each in change.queries],
            "left_for_later": [_of_plan(each) for each in change.left],
            "left_as_they_are": list(change.barred),
        },
        reading=True,
    )


def _done(story: Reconfigured) -> Report:
    return Report(
        f"{listed(story.results)}{_standstill(story)}; the first batch was through after "
        f"{story.seconds:.1f} s",
        {
            "ending": "reconfigured",
            "dry_run": False,
            "epoch": story.driver.epoch,
            "seconds": round(story.seconds, 3),
            "estimated_seconds": rounded(story.change.seconds),
            "queries": [_of_result(each) for each in story.results],
            "left_for_later": [_of_plan(each) for each in story.change.left],
            "left_as_they_are": list(story.change.barred),
        },
        notes=story.notes,
        outcome=_done_in_short(story),
    )


def _done_in_short(story: Reconfigured) -> str:
    """The numbers, the way and the seconds, before what a list has no room for."""
    found = []
    for each in story.results:
        came, still = str(each.outcome), _stood_still(each)
        if each.outcome == "changed":
            way = "by a restart" if each.way == "restart" else each.way
            took = f"stood still {still:.1f} s" if still else f"in {story.seconds:.1f} s"
            came = f"{each.before} -> {each.after}, {way}, {took}"
        found.append(f"{came} ({each.query})")
    return "; ".join(found)


def _standstill(story: Reconfigured) -> str:
    """The seconds that queries stood still where the driver ran on, and the way of each."""
    ways = [
        f"; query {each.query!r} stood still for {seconds:.1f} s, {each.way}"
        for each in story.results
        if (seconds := _stood_still(each))
    ]
    by_a_restart = any(each.way == "restart" for each in story.results)
    return "".join([*ways, "; by a restart of the driver" if by_a_restart else ""])


def _stood_still(each: Reconfiguration) -> float | None:
    """Seconds; None: not told, as by a restart, in which the driver's own start counts as well."""
    return None if each.way == "restart" else stood_still(each)


def _in_short(change: PartitionChange) -> str:
    return ", ".join(
        f"query {each.query!r} from {each.before} to {each.after} partitions"
        for each in change.queries
    )


def _of_plan(each: OfQuery) -> dict[str, Any]:
    return {
        "query": each.query,
        "partitions_before": each.before,
        "partitions_after": each.after,
        "why": each.why,
        "moves": each.moves,
        "rows": each.rows,
        "bytes": each.bytes,
        "estimated_seconds": rounded(each.seconds),
    }


def _of_result(each: Reconfiguration) -> dict[str, Any]:
    """What came of a query; None is what was not measured."""
    after = rows_of_partitions(each)
    per_partition = None
    if each.key_groups is not None and each.after:
        per_partition = round(each.key_groups / each.after, 2)
    return {
        "query": each.query,
        "outcome": each.outcome,
        "why": each.reason,
        "way": each.way,
        "why_not_beside": each.beside,
        "why_no_more_executors": each.lacked,
        "stood_still_seconds": rounded(_stood_still(each)),
        "partitions_before": each.before,
        "partitions_after": each.after,
        "rows": each.rows,
        "key_groups": each.key_groups,
        "key_groups_per_partition": per_partition,
        "skew_before": rounded(skew(each.partition_rows)),
        "skew_after": rounded(skew(after)),
        "skew_of_key_groups": rounded(skew(each.group_rows)),
        "seconds": dict(each.seconds) if each.seconds is not None else None,
        "rows_per_partition_before": _listed(each.partition_rows),
        "rows_per_partition_after": _listed(after),
        "rows_per_key_group": _listed(each.group_rows),
    }


def _listed(values: tuple[int, ...] | None) -> list[int] | None:
    """The numbers, or None where they are too many for a run's page."""
    return list(values) if values is not None and len(values) <= _MOST_LISTED else None


def _config_for(decision: Reconfigure, stream: Stream, epoch: int | None) -> ReconfigureConfig:
    return ReconfigureConfig(epoch=epoch, reason=decision.reason)


RECONFIGURE = Operation(
    NAME,
    "Change the number of state partitions of a stream's queries: has the driver end a query, "
    "change and verify its state, and start it again, or restarts the driver for that; and sees "
    "the first batch through.",
    ReconfigureConfig,
    _carry_out,
    config_for=_config_for,
)
