"""A stream as an asset: materializing it reconciles it."""

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import dagster as dg
from pydantic import Field

from dagster_sparkscale.clusters.errors import Overtaken
from dagster_sparkscale.clusters.records.overtaking import RESTART, START
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.faults import shown
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.durations import in_units
from dagster_sparkscale.in_force.parts import as_metadata
from dagster_sparkscale.lifecycle.jobs import describe, described_in_short, story_of
from dagster_sparkscale.lifecycle.reconcile import Action, Start, reconcile
from dagster_sparkscale.names import MINUTES
from dagster_sparkscale.operations import (
    Streams,
    as_operation,
    asset_key,
    note_outcome,
    story_metadata,
)
from dagster_sparkscale.private_dagster import is_check_error

KINDS = ("spark", "streaming")


class StartConfig(dg.Config):
    """The config of a materialization."""

    restart: bool = Field(
        default=False, description="Stop the running driver gracefully and start a new one."
    )
    reason: str = Field(default="", description="Why; shown with the materialization.")
    whoever_declares_it: bool = Field(
        default=False,
        description="Take the stream over although another code location has started one of that "
        "name.",
    )


_DESCRIPTIONS = {
    "structured": "A Structured Streaming application. How it does: see `state`, below.",
    "dstream": "A DStreams application. How it does: see `state`, below.",
}
"""The description of a stream that has none of its own."""


PAGE_URL = "SPARKSCALE_PAGE_URL"
"""The variable with the address of the live page (`sparkscale serve`), as browsers reach it."""


def stream_asset(streams: Streams, stream: Stream) -> dg.AssetsDefinition:
    """The asset of `stream`.

    Raises:
        DeclarationError: Dagster refuses it. Its own message names no stream, and not always the
            field.
    """
    try:
        return _stream_asset(streams, stream)
    except Exception as error:
        raise DeclarationError(
            f"{type(stream).__name__} {stream.name!r}: {_refused(stream) or error}"
        ) from error


_NUMBERS = {"min_executors", "max_executors", "initial_executors", "ceiling"}
_SECONDS = {"interval", "max_lag", "hand_pin", "scale_down_window", "retry_after"}


def _autoscale(stream: Stream) -> dict[str, str]:
    """The thresholds of the policy, and its other numbers."""
    policy = stream.autoscale
    if policy is None:
        return {}
    said = [
        f"{name} {in_units(value) if name in _SECONDS else format(value, 'g')}"
        for name in type(policy).model_fields
        # Without a least gain nothing is ever taken back.
        if name not in _NUMBERS
        and (name != "retry_after" or policy.min_gain is not None)
        and isinstance(value := getattr(policy, name), int | float)
    ]
    return {"autoscale": f"{type(policy).__name__}: {', '.join(said)}"}


def _stream_asset(streams: Streams, stream: Stream) -> dg.AssetsDefinition:
    @dg.asset(
        key=asset_key(stream),
        deps=list(stream.deps),
        group_name=stream.group,
        owners=list(stream.owners),
        tags=dict(stream.tags),
        kinds={*KINDS, *stream.kinds},
        automation_condition=stream.automation_condition,
        description=stream.description or _DESCRIPTIONS[stream.kind],
        metadata={
            **_live_page(stream),
            "program": stream.program,
            "batch_interval_seconds": stream.batch_interval,
            "executor_cores": stream.executor_cores,
            "executor_memory": stream.executor_memory,
            "executors_declared": (
                f"{stream.bounds.minimum} to {stream.bounds.maximum or 'what the cluster has'}"
                + (f" ({stream.bounds.note})" if stream.bounds.note else "")
            ),
            **_autoscale(stream),
            **as_metadata(stream),
            **({"checkpoint": stream.checkpoint_location} if stream.checkpoint_location else {}),
            **stream.metadata,
        },
        required_resource_keys={streams.cluster_key},
        output_required=False,
    )
    def start(
        context: dg.AssetExecutionContext, config: StartConfig
    ) -> Iterator[dg.MaterializeResult]:  # type: ignore[type-arg]
        change = RESTART if config.restart else START
        wanted = Start(restart=config.restart, takes_over=config.whoever_declares_it)
        with as_operation(context, streams, stream.name, START) as requester:
            asking = replace(requester, change=change)
            try:
                outcome = reconcile(streams.cluster(context), stream, asking, wanted)
            except Overtaken as why:
                context.log.info(f"nothing to do: {why}")
                return  # nothing was materialized
        context.log.info(describe(outcome))
        note_outcome(context, described_in_short(outcome))
        yield dg.MaterializeResult(
            # Until the sensor tells of it again: what the Overview of the asset shows.
            metadata={"state": describe(outcome)}
            | (_overview(context, stream) if outcome.action is Action.ATTACHED else {})
            | story_metadata(story_of(stream, outcome, config.reason or None))
        )

    return start


def _live_page(stream: Stream) -> dict[str, Any]:
    """The link to the stream's live page, where it is known where that is.

    Raises:
        DeclarationError: the variable holds no address.
    """
    url = os.environ.get(PAGE_URL, "").rstrip("/")
    if not url:
        return {}
    if not url.startswith(("http://", "https://")):
        raise DeclarationError(f'{PAGE_URL} = {url!r}: must begin with "http://" or "https://"')
    link = f"{url}/stream?{urlencode({'stream': stream.name})}"
    return {"live page": dg.MetadataValue.url(link)}


def _overview(context: dg.AssetExecutionContext, stream: Stream) -> dict[str, dg.MetadataValue]:
    """What Overview shows of a stream that goes on as it was. Neither numbers, which would be
    points of a plot once more, nor the minutes, which history has."""
    latest = context.instance.get_latest_materialization_event(asset_key(stream))
    materialization = latest.asset_materialization if latest else None
    return {
        name: value
        for name, value in (materialization.metadata if materialization else {}).items()
        if isinstance(value, dg.MarkdownMetadataValue) and name != MINUTES
    }


_RIGHT = {
    "deps": "each must be the name, the key or the definition of an asset",
    "automation_condition": "must be a dagster.AutomationCondition, such as "
    "AutomationCondition.eager(), or None",
}


def _refused(stream: Stream) -> str | None:
    """The field that Dagster refuses, and why; None: none by itself."""

    def nothing() -> None: ...

    for field, given in (
        ("key_prefix" if stream.key_prefix else "name", {}),
        ("group", {"group_name": stream.group}),
        ("owners", {"owners": stream.owners}),
        ("tags", {"tags": stream.tags}),
        ("kinds", {"kinds": {*KINDS, *stream.kinds}}),
        ("deps", {"deps": stream.deps}),
        ("automation_condition", {"automation_condition": stream.automation_condition}),
        ("metadata", {"metadata": stream.metadata}),
    ):
        try:
            dg.asset(key=asset_key(stream), **given)(nothing)
        except Exception as error:
            # What Dagster says of a wrong type is about its own parameters.
            said = _RIGHT.get(field) if is_check_error(error) else None
            return f"{field} = {shown(getattr(stream, field))}: {said or error}"
    return None
