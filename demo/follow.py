"""Follows a Dagster instance: the autoscaler's ticks and the runs, as they are stored."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from dagster_sparkscale.names import STORY, STREAM_TAG
from dagster_sparkscale.observe.history import history
from demo.report import Report, Run, Tick

ENDED = ("SUCCESS", "FAILURE", "CANCELED")
_AT_ONCE = 100


class Follower:
    """Reads what is new in `instance` about `streams` into a report."""

    def __init__(self, instance: dg.DagsterInstance, streams: Sequence[str]) -> None:
        self._instance = instance
        self._since = dict.fromkeys(streams, 0.0)
        self._ended: set[str] = set()
        self.report = Report()

    def news(self) -> Iterator[Tick | Run]:
        """What was stored since the last call, ticks first."""
        for stream in self._since:
            yield from self._new_ticks(stream)
        yield from self._ended_runs()

    def _new_ticks(self, stream: str) -> Iterator[Tick]:
        try:
            minutes = history(self._instance, stream, self._since[stream])
        except LookupError:  # nothing has been told of it yet
            return
        for minute in minutes:
            self._since[stream] = minute.at + 1
            tick = Tick(
                stream=stream,
                time=minute.at,
                r=minute.ratio,
                decision=minute.decision or "hold",
                registered=minute.registered,
                requested=minute.requested,
                input_rate=minute.input_rate,
                reason=minute.reason or "",
            )
            self.report.ticks.append(tick)
            yield tick

    def _ended_runs(self) -> Iterator[Run]:
        statuses = [dg.DagsterRunStatus(status) for status in ENDED]
        records = self._instance.get_run_records(dg.RunsFilter(statuses=statuses), limit=_AT_ONCE)
        for record in reversed(records):
            run = record.dagster_run
            if run.run_id in self._ended:
                continue
            self._ended.add(run.run_id)
            story = self._story(run)
            seconds = (
                round(record.end_time - record.start_time, 3)
                if record.end_time is not None and record.start_time is not None
                else None
            )
            ended = Run(
                run_id=run.run_id,
                # The run of an asset has no job of its own, only a name that Dagster gives it.
                job="start" if run.asset_selection else run.job_name,
                stream=run.tags.get(STREAM_TAG, "") or _streams_of(run),
                status=run.status.value,
                time=round(record.create_timestamp.timestamp(), 3),
                seconds=seconds,
                before=story.get("executors_before"),
                after=story.get("executors_after"),
                change=_change(story),
            )
            self.report.runs.append(ended)
            yield ended

    def _story(self, run: dg.DagsterRun) -> Mapping[str, Any]:
        """What an operation has told of itself."""
        for entry in self._instance.all_logs(run.run_id, dg.DagsterEventType.ASSET_OBSERVATION):
            observation = entry.asset_observation
            if observation is not None and STORY in observation.metadata:
                told: Any = observation.metadata[STORY].value
                return dict(told)
        return {}


def _change(story: Mapping[str, Any]) -> str | None:
    """What was changed of a stream's state, or of the place of its receivers, in words."""
    if story.get("moves"):
        return f"receivers {story['spread_before']} -> {story['spread_after']}"
    changes = [
        f"{each['partitions_before']} -> {each['partitions_after']} partitions"
        for each in story.get("queries", ())
        if story["ending"] == "reconfigured"
    ]
    return ", ".join(changes) or None


def _streams_of(run: dg.DagsterRun) -> str:
    return ", ".join(sorted(key.to_user_string() for key in run.asset_selection or ()))
