"""Follows a Dagster instance: the autoscaler's ticks and the runs, as they are stored."""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from dagster_sparkscale.names import PREFIX, STREAM_TAG
from demo.report import Report, Run, Tick

ENDED = ("SUCCESS", "FAILURE", "CANCELED")
_AT_ONCE = 100


class Follower:
    """Reads what is new in `instance` about `streams` into a report."""

    def __init__(self, instance: dg.DagsterInstance, streams: Sequence[str]) -> None:
        self._instance = instance
        self._cursors: dict[str, str | None] = dict.fromkeys(streams)
        self._ended: set[str] = set()
        # By run: executors before and after, as the rescale run observed them itself.
        self._changes: dict[str, tuple[int | None, int | None]] = {}
        self.report = Report()

    def news(self) -> Iterator[Tick | Run]:
        """What was stored since the last call, ticks first."""
        for stream in self._cursors:
            yield from self._new_ticks(stream)
        yield from self._ended_runs()

    def _new_ticks(self, stream: str) -> Iterator[Tick]:
        stored = self._instance.fetch_observations(
            dg.AssetKey(stream), limit=_AT_ONCE, cursor=self._cursors[stream], ascending=True
        )
        self._cursors[stream] = stored.cursor or self._cursors[stream]
        for record in stored.records:
            observation = record.asset_observation
            if observation is None:
                continue
            values: dict[str, Any] = {
                key.removeprefix(PREFIX): value.value
                for key, value in observation.metadata.items()
                if key.startswith(PREFIX)
            }
            if "executors_before" in values:
                self._changes[record.run_id] = (
                    values["executors_before"],
                    values.get("executors_after"),
                )
            elif "ratio" in values:
                tick = Tick(
                    stream=stream,
                    time=round(record.timestamp, 3),
                    r=values["ratio"],
                    decision=values["decision"],
                    registered=values["executors_registered"],
                    requested=values["executors_requested"],
                    input_rate=values["input_rate"],
                    reason=values["reason"],
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
            before, after = self._changes.get(run.run_id, (None, None))
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
                before=before,
                after=after,
            )
            self.report.runs.append(ended)
            yield ended


def _streams_of(run: dg.DagsterRun) -> str:
    return ", ".join(sorted(key.to_user_string() for key in run.asset_selection or ()))
