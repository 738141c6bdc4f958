"""Jobs for what only a person can decide: a driver that is gone, a hold that stays, an orphan.

They take any stream that is remembered by its name, declared or not.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg
from pydantic import Field

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.records.leases import Lease
from dagster_sparkscale.clusters.records.overtaking import (
    DECLARE_GONE,
    LIFT_HOLD,
    STOP_ORPHAN,
)
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.lifecycle.jobs import StopConfig, stop_by_name
from dagster_sparkscale.operations import OperationConfig, Report, Run, Streams, job_of
from dagster_sparkscale.remedy import Remedy, WithRemedy

NAMES = (DECLARE_GONE, LIFT_HOLD, STOP_ORPHAN)


class GoneConfig(OperationConfig):
    """The config of a declare_gone run."""

    epoch: int = Field(
        description="The driver that is gone, as its observations and messages name it."
    )


class OrphanConfig(StopConfig):
    """The config of a stop_orphan run."""

    whoever_declares_it: bool = Field(
        default=False,
        description="Stop it although another code location, or one that is not known, has started "
        "it, and may declare it still.",
    )


def remedy_jobs(streams: Streams) -> list[dg.JobDefinition]:
    """The jobs for `streams` and for those remembered beside them."""
    of = (str, Field(description="The stream's name, declared or not."))
    return [
        job_of(streams, name, description, config, of, act)
        for name, description, config, act in _REMEDIES
    ]


def _declare_gone(run: Run[GoneConfig]) -> Report:
    cluster, stream, epoch = run.cluster, run.name, run.config.epoch
    with _lease(run) as lease:
        driver = cluster.find(stream)
        if driver is None or driver.epoch != epoch:
            newest = f"driver {driver.epoch}" if driver else "none"
            raise ClusterError(f"epoch = {epoch}: the newest driver of {stream!r} is {newest}")
        gone = cluster.declare_gone(driver, lease, run.requester.name)
    return Report(
        f"driver {gone.epoch} counts as ended from now on ({gone.where})",
        {"epoch": gone.epoch, "state": gone.state.value},
    )


def _lift_hold(run: Run[OperationConfig]) -> Report:
    with _lease(run) as lease:
        hold = lease.record.hold
        if hold is None:
            raise ClusterError(f"{run.name!r} is not held by anybody: there is nothing to lift")
        run.cluster.lift_hold(lease)
    return Report(
        f"lifted the hold of {hold.by}, which was in the middle of: {hold.step}",
        {"hold": hold.step, "undo": hold.undo},
    )


def _stop_orphan(run: Run[OrphanConfig]) -> Report:
    stream, config, requester = run.name, run.config, run.requester
    if stream in run.streams.by_name:
        declared = f"stream = {stream!r}: is declared, so it is no orphan: "
        raise ClusterError(WithRemedy(declared, Remedy.STOP))
    _refuse_if_unknown(run)
    record = run.cluster.store().read(stream)
    owner = record.owner if record else ""
    if not config.whoever_declares_it and (not owner or owner != requester.owner):
        raise ClusterError(WithRemedy(f"stream = {stream!r}: ", _may_be_anothers(record)))
    return stop_by_name(run.cluster, stream, config, requester)


_REMEDIES: tuple[tuple[Any, ...], ...] = (
    (
        DECLARE_GONE,
        "Take a driver of which nothing can be told for ended, so that the stream can be "
        "started again. Only when you are certain: two drivers on one checkpoint lose data.",
        GoneConfig,
        _declare_gone,
    ),
    (
        LIFT_HOLD,
        "Let a stream be started again that an unfinished operation holds. Only when what the "
        "hold says is finished or undone.",
        OperationConfig,
        _lift_hold,
    ),
    (
        STOP_ORPHAN,
        "Stop a stream that runs and is not declared any more.",
        OrphanConfig,
        _stop_orphan,
    ),
)


@contextmanager
def _lease(run: Run[Any]) -> Iterator[Lease]:
    """The lease of the stream, of which something must be remembered."""
    _refuse_if_unknown(run)
    with run.cluster.lease(run.name, run.requester, run.requester.lease_wait) as lease:
        yield lease


def _refuse_if_unknown(run: Run[Any]) -> None:
    known = run.cluster.store().streams()
    if run.name not in known:
        there = ", ".join(map(repr, known)) or "none"
        raise ClusterError(
            f"stream = {run.name!r}: nothing is remembered of it; remembered are: {there}"
        )


def _may_be_anothers(record: Record | None) -> str:
    if record is None or not record.whose:
        return WithRemedy(
            "who declares it is not known, as it was started by an older release, or without a "
            "code location: stop it where it is declared, or, when nobody declares it, ",
            Remedy.CONFIRM_WHOSEVER,
        )
    return WithRemedy(
        f"was started by {record.whose}, which may declare it still: stop it from there, or, when "
        "nobody declares it any more, ",
        Remedy.CONFIRM_WHOSEVER,
    )
