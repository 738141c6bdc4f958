"""What every tracked operation shares: its job, its tags, its lease holder, how its faults read.

Operations run in the process of their run: a run that changes a number should cost little more
than an empty one.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

import dagster as dg
from dagster import DagsterInstance
from pydantic import Field, create_model

from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.declare.decisions import Decision
from dagster_sparkscale.declare.streams import Stream
from dagster_sparkscale.names import (
    CLUSTER_TAG,
    EPOCH_TAG,
    OPERATION_TAG,
    PREFIX,
    STREAM_TAG,
    scoped,
)

OPERATION_LIMIT = 900.0
"""Seconds after which a run no longer counts as in flight: one whose process died may stay
`STARTED` for ever, and must not keep its stream from being scaled."""


class Streams:
    """The streams of one cluster, by name, and how Dagster knows them."""

    def __init__(self, streams: Sequence[Stream], cluster_key: str) -> None:
        self.cluster_key = cluster_key
        self.by_name: Mapping[str, Stream] = {stream.name: stream for stream in streams}
        # Dagster knows config types by their names, all over the process: two clusters' jobs must
        # not share an enum of one name, or one would refuse its own streams.
        digest = zlib.crc32("\n".join([cluster_key, *self.by_name]).encode())
        self.Name = Enum(f"Stream_{digest:08x}", {name: name for name in self.by_name})  # type: ignore[misc]

    def __iter__(self) -> Iterator[Stream]:
        return iter(self.by_name.values())

    def cluster(self, context: Any) -> ClusterManager:
        """The cluster manager among the resources of a run, sensor or check."""
        cluster: ClusterManager = getattr(context.resources, self.cluster_key)
        return cluster

    def tags(self, stream: str, operation: str, epoch: int | None = None) -> dict[str, str]:
        """Tags of a run of `operation` on `stream`: what the UI filters by, and how the sensor
        sees that an operation is in flight."""
        tags = {STREAM_TAG: stream, CLUSTER_TAG: self.cluster_key, OPERATION_TAG: operation}
        if epoch is not None:
            tags[EPOCH_TAG] = str(epoch)
        return tags


class OperationConfig(dg.Config):
    """What every operation is told. The job adds the stream, with the names of the declared ones
    as its type: the launchpad offers them and refuses any other before a run starts."""

    reason: str = Field(default="by hand", description="Why; shown on the run's page.")


@dataclass(frozen=True)
class Report:
    """What an operation came to: a line, and metadata for the run's page and the asset."""

    line: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


C = TypeVar("C", bound=OperationConfig)
D = TypeVar("D", bound=Decision)


@dataclass(frozen=True)
class Operation(Generic[C, D]):
    """One kind of change to a stream, carried out by a tracked run."""

    name: str
    """What decisions, jobs and tags call it."""
    description: str
    config_type: type[C]
    carry_out: Callable[[dg.OpExecutionContext, ClusterManager, Stream, C, str], Report]
    """Gets the context, the cluster, the stream, the config and the name to hold the lease by."""
    config_for: Callable[[D, Stream, int | None], C] | None = None
    """What the run of a decision is told, which was made about the stream's driver of an epoch.
    None: nothing decides it, people do."""


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
        config = operation.config_for(decision, stream, epoch).model_dump(exclude_none=True)
        job = self.jobs[operation.name].name
        request = dg.RunRequest(
            # A run key never comes back: the decision is told apart by the second it was made in.
            run_key=f"{stream.name}:{epoch}:{int(now)}",
            job_name=job,
            run_config={"ops": {job: {"config": {**config, "stream": stream.name}}}},
            tags=self._streams.tags(stream.name, operation.name, epoch),
        )
        return [request]


def in_flight(instance: DagsterInstance, cluster_key: str, now: float) -> Mapping[str, str]:
    """By stream, the operation that a run is about to carry out or is carrying out."""
    records = instance.get_run_records(
        dg.RunsFilter(
            statuses=[
                dg.DagsterRunStatus.QUEUED,
                dg.DagsterRunStatus.NOT_STARTED,
                dg.DagsterRunStatus.STARTING,
                dg.DagsterRunStatus.STARTED,
                dg.DagsterRunStatus.CANCELING,
            ],
            tags={CLUSTER_TAG: cluster_key},
        )
    )
    return {
        record.dagster_run.tags[STREAM_TAG]: (
            f"{record.dagster_run.tags.get(OPERATION_TAG, 'operation')} run "
            f"{record.dagster_run.run_id[:8]}"
        )
        for record in records
        if STREAM_TAG in record.dagster_run.tags
        and now - record.create_timestamp.timestamp() < OPERATION_LIMIT
    }


def _job(streams: Streams, operation: Operation[C, Any]) -> dg.JobDefinition:
    job_name = scoped(operation.name, streams.cluster_key)

    def run(context: dg.OpExecutionContext, config: Any) -> None:
        stream = streams.by_name[config.stream.value]
        context.log.info(f"{operation.name} {stream.name}: {config.reason}")
        with as_operation(context, streams, stream, operation.name) as holder:
            report = operation.carry_out(context, streams.cluster(context), stream, config, holder)
        context.log.info(report.line)
        context.log_event(
            dg.AssetObservation(
                asset_key=asset_key(stream), description=report.line, metadata=report.metadata
            )
        )
        context.add_output_metadata(report.metadata)

    run.__annotations__["config"] = create_model(
        operation.config_type.__name__,
        __base__=operation.config_type,
        stream=(streams.Name, Field(description=f"The stream to {operation.name}.")),
    )
    op = dg.op(
        name=job_name,
        required_resource_keys={streams.cluster_key},
        description=operation.description,
    )(run)

    # Dagster wants every op and graph of a code location to have a name of its own.
    @dg.graph(name=graph_name(job_name))
    def graph() -> None:
        op()

    return graph.to_job(
        name=job_name, executor_def=dg.in_process_executor, description=operation.description
    )


def graph_name(job_name: str) -> str:
    """What the graph of that job is called."""
    return f"{job_name}_run"


def asset_key(stream: Stream) -> dg.AssetKey:
    return dg.AssetKey([*stream.key_prefix, stream.name])


@contextmanager
def as_operation(
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    streams: Streams,
    stream: Stream,
    name: str,
) -> Iterator[str]:
    """Tag the run as `name` on `stream`, give its lease holder's name, and turn what the cluster
    refuses into a failure of the run that says so without a stack trace."""
    run = context.run
    # A run from the launchpad has no tags yet, or those of the run it was copied from. The run of
    # an asset may start many streams, so its tags name none.
    if name != "start" and run.tags.get(STREAM_TAG) != stream.name:
        context.instance.add_run_tags(run.run_id, streams.tags(stream.name, name))
    try:
        yield f"{name} run {run.run_id[:8]}"
    except (ClusterError, ValueError) as error:
        raise dg.Failure(description=str(error), allow_retries=False) from None


def metadata(values: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata under the library's prefix, with a null where nothing was measured."""
    return {
        PREFIX + key: dg.MetadataValue.null() if value is None else value
        for key, value in values.items()
    }
