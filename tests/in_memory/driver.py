"""What a cluster in memory keeps of the driver of one stream, and what its agent tells of that."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.observe.status import (
    Batch,
    Executor,
    Limit,
    Query,
    Receiver,
    Reconfiguration,
    Relaunch,
    Spark,
    Status,
    TaskTimes,
)
from dagster_sparkscale.state.change_state import ChangeState
from tests.fakes import QUERY, batch


@dataclass
class Kept:
    """What the cluster keeps of one stream."""

    driver: Driver
    registered: int = 0
    requested: int = 0
    removing: int = 0
    executor_cores: int = 1
    phase: str = "running"
    spark_age: float | None = 0.0
    executors: tuple[Executor, ...] = ()
    queries: tuple[Query, ...] = (Query(QUERY, active=True),)
    reconfigurations: tuple[Reconfiguration, ...] = ()
    in_place: Mapping[str, str | None] | None = None
    """Why the state of each query can't be changed in place; None: an older release."""
    beside: Mapping[str, str | None] | None = None
    """Why what each query has read can't be read again; None: an older release."""
    asked: ChangeState | None = None
    """The change of state that it has taken last."""
    refuses_plans: str | None = None
    """Why it takes no plan to be carried out in place; None: it takes them."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of this one start."""
    rates: Mapping[str, Any] = field(default_factory=dict)
    """Live limits that are set."""
    limits: tuple[Limit, ...] = ()
    batches: tuple[Batch, ...] | None = None
    """Those that are told; None: as `batch_seconds` says."""
    spark_version: str | None = "4.3.0"
    batch_seconds: float | None = None
    """How long the stream's batches take; None: none has completed."""
    ran: tuple[str, ...] = (QUERY,)
    """The queries that have completed one."""
    failed: bool = False
    """Whether it has failed."""
    records: int = 100
    blocked: str | None = None
    reachable: bool = True
    refuses: str | None = None
    """What is at the agent's address says this to everybody."""
    log: list[str] = field(default_factory=list)
    receivers: tuple[Receiver, ...] | None = ()
    relaunches: tuple[Relaunch, ...] = ()
    ages: Mapping[str, float | None] | None = None
    tasks: TaskTimes | None = None
    drained: bool | None = None
    """What it tells of its end, being asked to stop."""
    ends_after: float = 0.0
    """Seconds the batch in progress still takes; who waits for less kills the driver."""


def arrive(kept: Kept, away: float | None = 1.5, elsewhere: str | None = None) -> None:
    """Each receiver that is on its way runs where it was sent to; a `World.on_look`."""
    moving = [each for each in kept.receivers or () if each.moving_to is not None]
    for each in moving:
        there = replace(each, executor=elsewhere or each.moving_to, moving_to=None)
        kept.receivers = tuple(there if one == each else one for one in kept.receivers or ())
        kept.relaunches = tuple(
            replace(one, to_executor=there.executor, away_seconds=away)
            if one.stream_id == each.stream_id and one.to_executor is None
            else one
            for one in kept.relaunches
        )


def status_of(kept: Kept) -> Status:
    """What its agent tells, asked just now."""
    now = time.time()
    batches: tuple[Batch, ...] = ()
    if kept.batch_seconds is not None:
        batches = tuple(
            batch(
                kept.batch_seconds, now=now, records=kept.records, query=query, failed=kept.failed
            )
            for query in kept.ran
        )
    if kept.batches is not None:
        batches = kept.batches
    return Status(
        stream=kept.driver.stream,
        epoch=kept.driver.epoch,
        phase=kept.phase,
        now=now,
        started_at=kept.driver.submitted_at,
        app_id=kept.driver.app_id,
        ui_url=kept.driver.ui_url,
        spark=Spark(
            age=kept.spark_age,
            registered=kept.registered,
            requested=kept.requested,
            removing=kept.removing,
            blocked=kept.blocked,
            executors=kept.executors,
        ),
        queries=kept.queries,
        batches=batches,
        last_seq=len(batches),
        spark_version=kept.spark_version,
        reconfigurations=kept.reconfigurations,
        in_place=kept.in_place,
        beside=kept.beside,
        rates=kept.rates,
        limits=kept.limits,
        receivers=kept.receivers,
        relaunches=kept.relaunches,
        ages=kept.ages,
        tasks=kept.tasks,
    )
