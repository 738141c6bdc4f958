"""The asset `fleet`: all streams of a cluster on one page, and what the sensor tells of it.

Told by observations, for nothing is materialized. Dagster shows Markdown of less than 1000
characters on the page itself, and longer one behind a click.
"""

import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import dagster as dg
from dagster import DagsterInstance
from pydantic import TypeAdapter

from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.in_flight import in_flight
from dagster_sparkscale.markdown import INLINE, carried, clock, fitted, hidden
from dagster_sparkscale.names import FLEET, MINUTES, scoped
from dagster_sparkscale.operations import Streams
from dagster_sparkscale.watch.fleet.memory import QUIET, FleetMemory, that_stand
from dagster_sparkscale.watch.fleet.news import News, Occurrence, what_is
from dagster_sparkscale.watch.fleet.problems import PROBLEMS as OF_STREAMS
from dagster_sparkscale.watch.fleet.problems import Problem, Problems, Standing
from dagster_sparkscale.watch.fleet.rows import Row, worst_first
from dagster_sparkscale.watch.fleet.text import (
    AND_MORE,
    NAME,
    asset_path,
    in_pieces,
    markdown,
    notes,
    sentence,
)

PIECES, PIECE = 3, 1000
"""Tables on the page itself, and characters that each stays below."""
ROWS, PROBLEMS = 200, 100
"""Rows of the whole table, and problems, that are stored at most; the rest is counted."""
OTHERS = 50
"""Observations among which the last of a code location is looked for."""

# Short, as Dagster's page makes a column of them that takes its width from the table.
AT_A_GLANCE = "at a glance"
WHAT_IS_UP = "what is up"
ALL_STREAMS = "whole table"
EXECUTOR_HOURS = "executor-hours today"
HOURLY = 3600.0
"""Seconds between two points of it."""
PROBLEMS_NOW = "problems"
FOR_ALERTS = "for alerts"

_NEWS = TypeAdapter(News)


def fleet_key(cluster_key: str) -> dg.AssetKey:
    return dg.AssetKey([scoped(FLEET, cluster_key)])


def fleet_asset(streams: Streams) -> dg.AssetSpec:
    """The asset of the fleet; in the streams' group, if they share one."""
    groups = {stream.group for stream in streams}
    return dg.AssetSpec(
        fleet_key(streams.cluster_key),
        group_name=groups.pop() if len(groups) == 1 else None,
        kinds={"spark", "streaming"},
        description="All streams of the cluster, the worst first. The sensor tells of them when "
        f"something changes, and every {QUIET / 60:.0f} minutes.",
    )


_NOBODY: Mapping[str, Occurrence] = {}


_NEVER: Mapping[str, float] = {}


def recall(
    memory: FleetMemory,
    instance: DagsterInstance,
    key: dg.AssetKey,
    owner: str,
    streams: Collection[str] | None = None,
    seen_at: Mapping[str, float] = _NEVER,
) -> None:
    """Remember what stood when the fleet was last told of: it is not over. What is remembered of it
    is known better, but for its beginning.

    Args:
        key: of the fleet's asset.
        owner: the code location and cluster it is told by.
        streams: those whose problems are recalled; None: all.
        seen_at: when the streams were last seen of which more is remembered than that.
    """
    if (last := latest(instance, key, owner)) is None:
        return
    for one in last.problems:
        if streams is not None and one.stream not in streams:
            continue
        if one.problem not in OF_STREAMS:
            continue  # a sensor's, which no stream has
        if seen_at.get(one.stream, 0.0) > last.at:
            continue  # what is remembered is newer
        before = memory.problems.get(one.stream, {})
        seen = Standing(one.since, last.at, one.text, health=one.health)
        standing = before.get(one.problem) or seen
        since = min(one.since, standing.since)
        memory.problems[one.stream] = {**before, one.problem: replace(standing, since=since)}


def fleet_event(
    streams: Streams,
    rows: Iterable[Row],
    problems: Mapping[str, Problems],
    memory: FleetMemory,
    instance: DagsterInstance,
    cluster: ClusterManager,
    owner: str,
    now: float,
    *,
    due: bool = False,
    unwatched: Mapping[str, Occurrence] = _NOBODY,
    ticked: Collection[str] = (),
) -> Iterator[dg.AssetObservation]:
    """What Dagster is told of the fleet: one observation, or none. `memory` keeps what it has been
    told before.

    Args:
        problems: of all streams, by their names.
        owner: the code location and cluster it is told by.
        now: seconds since the epoch.
        due: whether it is to be told of though nothing of it has changed.
        unwatched: sensors whose streams nobody evaluates, as problems, by name.
        ticked: sensors that have ticked in this process.
    """
    fleet = worst_first(rows)
    key = fleet_key(streams.cluster_key)
    last_at = memory.told_at
    if not memory.is_due(fleet, problems, now) and not due:
        return
    busy = in_flight(instance, streams.cluster_key, cluster, now)
    fleet = [
        replace(row, waits=f"{busy[row.stream]} is in progress")
        if row.waits is None and row.stream in busy
        else row
        for row in fleet
    ]
    standing = [asdict(each) for each in _as_before(unwatched, ticked, instance, key, owner, now)]
    standing += [_as_problem(*each) for each in that_stand(fleet, problems, now)]
    event = observation(key, fleet, standing, owner, now)
    if ALL_STREAMS in event.metadata and not memory.whole_is_due(now):
        elsewhere = {ALL_STREAMS: _elsewhere(memory.whole_at)}
        event = event.with_metadata({**event.metadata, **elsewhere})
    hours = [row.executor_hours for row in fleet if row.executor_hours is not None]
    # What grows all day needs no more points in a plot.
    if hours and now // HOURLY != last_at // HOURLY:
        event = event.with_metadata({**event.metadata, EXECUTOR_HOURS: round(sum(hours), 1)})
    yield event


def _as_before(
    unwatched: Mapping[str, Occurrence],
    ticked: Collection[str],
    instance: DagsterInstance,
    key: dg.AssetKey,
    owner: str,
    now: float,
) -> Iterator[Occurrence]:
    """Sensors that nobody evaluates. One that has not ticked in this process is counted by it from
    its own begin on: it has been so since it was first told of."""
    yield from (one for sensor, one in unwatched.items() if sensor in ticked)
    if not (silent := [one for sensor, one in unwatched.items() if sensor not in ticked]):
        return
    last = latest(instance, key, owner)
    # Of a fleet that nobody has told of for longer, they may have been back meanwhile.
    problems = last.problems if last and now - last.at < 2 * QUIET else ()
    known = {each.stream: each.since for each in problems if each.problem == "unwatched"}
    for one in silent:
        yield replace(one, since=min(one.since, known.get(one.stream, one.since)))


def _as_problem(row: Row, problem: Problem, standing: Standing) -> dict[str, Any]:
    """One problem as the alerts read it."""
    return {
        "stream": row.stream,
        "problem": problem,
        "since": standing.since,
        "text": standing.text,
        "page": asset_path(row),
        **({"health": standing.health} if standing.health else {}),
    }


def last_picture(instance: DagsterInstance, key: dg.AssetKey) -> dg.AssetObservation | None:
    """What was last told of the fleet; None: nothing."""
    for record in instance.fetch_observations(key, limit=1).records:
        return record.asset_observation
    return None


def told_again(event: dg.AssetObservation) -> dg.AssetObservation:
    """What was told of the fleet, to be told once more without the minutes that it carried. It says
    so: two sensors store their events at the same time, and what is older may come last."""
    kept = {name: value for name, value in event.metadata.items() if name != MINUTES}
    if (text := stored_problems(event)) is not None:
        news = {**json.loads(text), "again": True}
        kept[FOR_ALERTS] = _for_alerts(news)
        whole = kept.get(ALL_STREAMS)
        # Each sensor tells it again every few minutes, and it is long.
        if whole is not None and len(str(whole.value)) > PIECE:
            kept[ALL_STREAMS] = dg.MetadataValue.text(_elsewhere(news["at"]))
    return event.with_metadata(kept)


def carrying_minutes(event: dg.AssetObservation, text: str) -> dg.AssetObservation:
    """The event with minutes of streams, for the sensor itself."""
    carries = dg.MetadataValue.md(hidden("minutes that no event of their stream has yet", text))
    return event.with_metadata({**event.metadata, MINUTES: carries})


def observation(
    key: dg.AssetKey,
    fleet: Sequence[Row],
    standing: Sequence[Mapping[str, Any]],
    owner: str,
    now: float,
) -> dg.AssetObservation:
    """What is told of a fleet, the worst first, and of its problems."""
    at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now))
    glance = f"{at}: {sentence(fleet, [_in_words(each) for each in standing])}"
    pieces = in_pieces(fleet, PIECE, PIECES)
    metadata: dict[str, Any] = {AT_A_GLANCE: dg.MetadataValue.md(fitted(glance, INLINE))}
    for number, piece in enumerate(pieces, 1):
        metadata[f"streams {number}"] = dg.MetadataValue.md(piece)
    if noted := notes(fleet, PIECE):
        metadata[WHAT_IS_UP] = dg.MetadataValue.md(noted)
    if sum(piece.count("\n") - 2 for piece in pieces) < len(fleet):
        left_out = f"\nand {len(fleet) - ROWS} more streams" if len(fleet) > ROWS else ""
        metadata[ALL_STREAMS] = dg.MetadataValue.md(markdown(fleet[:ROWS]) + left_out)
    news = {
        "of": owner,
        "at": round(now, 3),
        "problems": standing[:PROBLEMS],
        "left_out": max(0, len(standing) - PROBLEMS),
    }
    if standing:
        metadata[PROBLEMS_NOW] = dg.MetadataValue.md(_listed(standing, now))
    metadata[FOR_ALERTS] = _for_alerts(news)
    return dg.AssetObservation(asset_key=key, metadata=metadata)


def _for_alerts(news: Mapping[str, Any]) -> dg.MetadataValue[Any]:
    text = json.dumps(news, separators=(",", ":"), ensure_ascii=False)
    return dg.MetadataValue.md(hidden("see alerts", text))


def _elsewhere(at: float) -> str:
    return f"in the event of {clock(at)}"


def latest(instance: DagsterInstance, key: dg.AssetKey, owner: str) -> News | None:
    """What was told last of the fleet by `owner`; None if there is nothing that can be read."""
    told_again = list[News]()
    # Another code location may tell of a fleet of the same key, and other sensors tell it again.
    for limit in (1, OTHERS):
        for record in instance.fetch_observations(key, limit=limit).records:
            observation = record.asset_observation
            text = stored_problems(observation) if observation else None
            try:
                # Half a character, as a log may have it, could not be remembered.
                news = _NEWS.validate_json((text or "").encode(errors="replace"))
            except ValueError:  # pydantic's is one
                continue
            if news.of == owner and not news.again:
                return news
            if news.of == owner:
                told_again.append(news)
    return max(told_again, key=lambda news: news.at, default=None)


def stored_problems(observation: dg.AssetObservation) -> str | None:
    """The problems that alerts are made of, as JSON; None where there are none to be read."""
    stored = observation.metadata.get(FOR_ALERTS)
    return carried(stored.value) if stored is not None else None


def _in_words(problem: Mapping[str, Any]) -> str:
    return f"{problem['stream']} {what_is(problem['problem'], problem.get('health', ''))}"


def _listed(standing: Sequence[Mapping[str, Any]], now: float) -> str:
    """List as many problems as a page shows, and since when; each is explained above."""
    text = ""
    for listed, each in enumerate(standing):
        stream = fitted(each["stream"], NAME)
        what = what_is(each["problem"], each.get("health", ""))
        line = f"- {stream} {what}, since {clock(each['since'], now)} UTC\n"
        if len(text) + len(line) + AND_MORE >= PIECE:
            return f"{text}\nand {len(standing) - listed} more"
        text += line
    return text
