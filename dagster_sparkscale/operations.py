"""What every tracked operation shares: its job, its tags, its lease holder, how its faults read.

Operations run in the process of their run: a run that changes a number should cost little more
than an empty one.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import dagster as dg
from pydantic import Field, create_model

from dagster_sparkscale.clusters.errors import ClusterError, Overtaken
from dagster_sparkscale.clusters.records.overtaking import START, Requester
from dagster_sparkscale.clusters.records.owners import refuse_anothers
from dagster_sparkscale.declare.decisions import Decision
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.in_force.steering import in_force, refuse_if_barred
from dagster_sparkscale.names import (
    EXPIRES_TAG,
    OPERATION_TAG,
    OUTCOME_TAG,
    READING_TAG,
    REMEDY,
    STORY,
    STREAM_TAG,
    scoped,
)
from dagster_sparkscale.operation import (
    STALE_AFTER,
    C,
    DecidedConfig,
    Operation,
    OperationConfig,
    Report,
    Run,
    Streams,
    asset_key,
    in_short,
    joined,
    owner_of,
    rounded,
)
from dagster_sparkscale.private_dagster import MAX_RETRIES_TAG, RETRY_NUMBER_TAG, code_location_of
from dagster_sparkscale.remedy import WithRemedy

__all__ = [
    "LEASE_WAIT",
    "STALE_AFTER",
    "DecidedConfig",
    "Operation",
    "OperationConfig",
    "Operations",
    "Report",
    "Run",
    "Streams",
    "as_operation",
    "asset_key",
    "failure",
    "graph_name",
    "job_of",
    "job_of_op",
    "joined",
    "note_outcome",
    "owner_of",
    "refuse_if_stale",
    "rounded",
    "run_key",
    "story_metadata",
]

LEASE_WAIT = 60.0
"""Seconds that an operation waits for another one to end."""


class Operations:
    """What can be done to `streams`: a job each, for people and for decisions."""

    def __init__(self, streams: Streams, table: Sequence[Operation[Any, Any]]) -> None:
        self._streams = streams
        self._by_name = {operation.name: operation for operation in table}
        self.jobs = {operation.name: _job(streams, operation) for operation in table}

    @property
    def decided(self) -> list[dg.JobDefinition]:
        """The jobs of those that a decision may ask for."""
        return [self.jobs[name] for name, each in self._by_name.items() if each.config_for]

    def requests(
        self, stream: Stream, decision: Decision, epoch: int | None, now: float
    ) -> list[dg.RunRequest]:
        """The run that carries out `decision`; none if there is nothing to do.

        Args:
            epoch: of the driver it was made about.
            now: when it was made, seconds since the epoch.
        """
        if decision.operation is None:
            return []
        operation = self._by_name[decision.operation]
        assert operation.config_for is not None
        config = operation.config_for(decision, stream, epoch)
        tags = self._streams.tags(stream.name, operation.name, epoch)
        if operation.expires:
            config = config.model_copy(update={"decided_at": now})
            tags[EXPIRES_TAG] = "true"
        values = config.model_dump(exclude_none=True)
        job = self.jobs[operation.name].name
        request = dg.RunRequest(
            # A run key never comes back: the decision is told apart by the second it was made in.
            run_key=run_key(stream.name, epoch, now),
            job_name=job,
            run_config={"ops": {job: {"config": {**values, "stream": stream.name}}}},
            tags=tags,
        )
        return [request]


def run_key(stream: str, epoch: int | None, decided_at: float) -> str:
    """The key of the run that carries out a decision."""
    return f"{stream}:{epoch}:{int(decided_at)}"


def _job(streams: Streams, operation: Operation[C, Any]) -> dg.JobDefinition:
    def act(run: Run[C]) -> Report:
        if not run.config.takes_anothers:
            record = run.cluster.store().read(run.name)
            refuse_anothers(record, run.stream, run.requester.owner)
            if run.requester.decided and not operation.recovers:
                refuse_if_barred(in_force(record, run.stream, time.time()))
        requester = replace(run.requester, of_one_driver=operation.of_one_driver)
        if operation.lease_wait is not None:
            requester = replace(requester, lease_wait=operation.lease_wait)
        run = replace(run, requester=requester)
        report = operation.carry_out(run)
        return report if run.requester.decided else _with_steering(run, report)

    of = (streams.Name, Field(description=f"The stream to {operation.name}."))
    return job_of(streams, operation.name, operation.description, operation.config_type, of, act)


def _with_steering(run: Run[Any], report: Report) -> Report:
    """The report of what a person has asked for, which no steering bars, with what stands."""
    record = run.cluster.store().read(run.name)
    lines = in_force(record, run.stream, time.time()).lines
    if not lines:
        return report
    return replace(report, story={**report.story, "steering": "; ".join(lines)})


def job_of(
    streams: Streams,
    name: str,
    description: str,
    config_type: type[C],
    of: tuple[Any, Any],
    act: Callable[[Run[C]], Report],
) -> dg.JobDefinition:
    """A job that changes one stream.

    Args:
        of: type and field of the config that names the stream.
    """
    job_name = scoped(name, streams.cluster_key)

    def run(context: dg.OpExecutionContext, config: Any) -> None:
        stream: str = config.stream if isinstance(config.stream, str) else config.stream.value
        context.log.info(f"{name} {stream}: {config.reason}")
        epoch = config.epoch if isinstance(config, DecidedConfig) else None
        reading = getattr(config, "dry_run", False)
        about = (context, streams, stream, name, config.decided_at, epoch, reading)
        with as_operation(*about) as requester:
            refuse_if_stale(config.decided_at, time.time())
            try:
                report = act(Run(context, streams, stream, config, requester))
            except Overtaken as why:
                # It was asked for something which is not so any more.
                over = {"ending": "overtaken", "notes": str(why), "epoch": epoch}
                report = Report(f"nothing to do: {why}", over)
        _publish(context, streams.asset_key(context, stream), name, config, report)

    run.__annotations__["config"] = create_model(
        config_type.__name__, __base__=config_type, stream=of
    )
    op = dg.op(
        name=job_name, required_resource_keys={streams.cluster_key}, description=description
    )(run)

    # Run again by itself, what was refused or has failed would be as if asked for anew.
    return job_of_op(op, description, {MAX_RETRIES_TAG: "0", **streams.run_tags})


def job_of_op(op: dg.OpDefinition, description: str, tags: Mapping[str, Any]) -> dg.JobDefinition:
    """The job of one op, with its name. It is carried out in the process of its run."""
    name = op.name

    # Dagster wants every op and graph of a code location to have a name of its own.
    @dg.graph(name=graph_name(name))
    def graph() -> None:
        op()

    # The config of the op and nothing else: the launchpad would begin with that of the cluster,
    # where another value means another cluster for this one run.
    mapped = {"ops": {name: {"config": op.config_schema.as_field()}}}
    return graph.to_job(
        name=name,
        executor_def=dg.in_process_executor,
        description=description,
        tags=tags,
        config=dg.ConfigMapping(lambda config: config, mapped),
    )


def _publish(
    context: dg.OpExecutionContext,
    asset: dg.AssetKey,
    operation: str,
    config: OperationConfig,
    report: Report,
) -> None:
    """Show what an operation came to on the page of its run, which fails where the operation has.

    Raises:
        Failure: the operation has failed.
    """
    for note in report.notes or ():
        context.log.warning(note)
    context.log.info(report.line)
    note_outcome(context, report.outcome or report.line, report.reading)
    context.log_event(
        dg.AssetObservation(
            asset_key=asset,
            description=report.line,
            metadata={**story_metadata(report.story_of(config)), OPERATION_TAG: operation},
        )
    )
    if report.failed:
        raise failure(report.line)


def refuse_if_stale(decided_at: float | None, now: float) -> None:
    """Refuse what was decided too long ago.

    Raises:
        ClusterError: the decision is older than `STALE_AFTER`.
    """
    if decided_at is not None and now - decided_at > STALE_AFTER:
        raise ClusterError(
            f"stale: this was decided {now - decided_at:.0f} s ago, and the stream may be in "
            "another state by now; nothing was done, the next evaluation decides anew. If this run "
            "has not waited for so long, this host's clock is ahead of the sensor's: set it right"
        )


def _asked_at(
    context: dg.OpExecutionContext | dg.AssetExecutionContext, decided_at: float | None
) -> float:
    """When the run was asked for, which may have waited in a queue since: seconds since the epoch.

    Dagster's retry of a run is of the time of that one: nobody has asked for it since. Somebody has
    asked for one that was run again by hand.
    """
    run: dg.DagsterRun | None = context.run
    record = None
    while run is not None:
        record = context.instance.get_run_record_by_id(run.run_id) or record
        of = run.parent_run_id if RETRY_NUMBER_TAG in run.tags else None
        run = context.instance.get_run_by_id(of) if of else None
    asked = record.create_timestamp.timestamp() if record is not None else time.time()
    return asked if decided_at is None else min(asked, decided_at)


def graph_name(job_name: str) -> str:
    """What the graph of that job is called."""
    return f"{job_name}_run"


@contextmanager
def as_operation(
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    streams: Streams,
    stream: str,
    name: str,
    decided_at: float | None = None,
    epoch: int | None = None,
    reading: bool = False,
) -> Iterator[Requester]:
    """Tag the run as `name` on `stream`, give who asks, and turn what the cluster refuses into a
    failure of the run that says so without a stack trace.

    Args:
        decided_at: when a policy decided it, seconds since the epoch; None: a person asks for it.
        epoch: of the driver that is meant; None: whichever is there.
        reading: whether it is to change nothing.
    """
    run = context.run
    # A run from the launchpad has no tags yet, or those of the run it was copied from. A run that
    # materializes several assets may start many streams, so its tags name none.
    several = name == START and len(run.asset_selection or ()) != 1
    if not several and run.tags.get(STREAM_TAG) != stream:
        context.instance.add_run_tags(run.run_id, streams.tags(stream, name))
    if OUTCOME_TAG in run.tags:  # of the run that it repeats
        anew = {OUTCOME_TAG: "in progress"}
        if READING_TAG in run.tags:
            anew[READING_TAG] = "false"
        context.instance.add_run_tags(run.run_id, anew)
    try:
        yield Requester(
            f"{name} run {run.run_id[:8]}",
            name,
            _asked_at(context, decided_at),
            epoch=epoch,
            decided=decided_at is not None,
            owner=streams.owner(code_location_of(run)),
            lease_wait=LEASE_WAIT,
            tell=context.log.info,
        )
    except (ClusterError, ValueError) as error:
        note_outcome(context, str(error), reading)
        raise failure(str(error)) from None
    except BaseException as why:
        if not isinstance(why, Exception):  # Dagster's own for Ctrl-C, SIGTERM, an end by hand
            line = "interrupted; what had been asked for by then stands"
            with suppress(Exception):  # what has ended it is raised all the same
                note_outcome(context, line, reading)
        raise


def note_outcome(
    context: dg.OpExecutionContext | dg.AssetExecutionContext, line: str, reading: bool = False
) -> None:
    """Tag the run with what it came to, in short: the list of runs shows tags, and no events.

    Args:
        reading: whether it was to change nothing.
    """
    tags = {OUTCOME_TAG: in_short(line)}
    if reading:
        tags[READING_TAG] = "true"
    context.instance.add_run_tags(context.run.run_id, tags)


def failure(text: str) -> dg.Failure:
    """The failure of a run that says why in `text`; what is to be done goes along as data."""
    advice = None
    if isinstance(text, WithRemedy) and text.advises:
        advice = {REMEDY: dg.MetadataValue.json(text.packed())}
    return dg.Failure(description=text, metadata=advice, allow_retries=False)


def story_metadata(story: Mapping[str, Any]) -> dict[str, Any]:
    """The story of an operation as metadata. One entry: a number with an entry of its own would be
    a plot of single points."""
    return {STORY: dg.MetadataValue.json(dict(story))}
