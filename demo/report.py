"""What happened in a demo: the report, and whether it was what should happen. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

NO_JOBS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Tick:
    """One evaluation of one stream by the autoscaler. None means not measured."""

    stream: str
    time: float
    """Seconds since the epoch."""
    r: float | None
    decision: str
    registered: int | None
    requested: int | None = None
    input_rate: float | None = None
    """Records per second."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One tracked run."""

    run_id: str
    job: str
    stream: str
    status: str
    time: float
    """When it was requested, seconds since the epoch."""
    seconds: float | None
    """From its start to its end; None if it did not get so far."""
    before: int | None = None
    """Executors, for a rescale."""
    after: int | None = None
    change: str | None = None
    """What another operation has changed, in words; None: nothing."""

    @property
    def scaled_up(self) -> bool:
        return self._rescaled and (self.after or 0) > (self.before or 0)

    @property
    def scaled_down(self) -> bool:
        return self._rescaled and (self.after or 0) < (self.before or 0)

    @property
    def _rescaled(self) -> bool:
        return (
            self.job == "rescale"
            and self.status == "SUCCESS"
            and self.before is not None
            and self.after is not None
        )


@dataclass
class Report:
    ticks: list[Tick] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    def settled(self, stream: str, executors: int | None = None) -> bool:
        """Whether the stream has warmed up, and rests on so many executors; None: on any number.
        The batches of a new driver and of new executors take long, which may have scaled it up
        before there was any load."""
        last = next((tick for tick in reversed(self.ticks) if tick.stream == stream), None)
        return (
            last is not None
            and last.decision == "hold"
            and last.r is not None
            and last.r < 0.9
            and last.registered is not None
            and last.registered == last.requested == (executors or last.registered)
        )

    def changed(self, stream: str, job: str, since: float) -> bool:
        """Whether a run of `job` that was requested after `since` has changed something."""
        return any(
            run.change is not None
            for run in self.runs
            if (run.stream, run.job, run.status) == (stream, job, "SUCCESS") and run.time >= since
        )

    def missing(
        self, streams: Sequence[str], since: float = 0.0, jobs: Mapping[str, str] = NO_JOBS
    ) -> list[str]:
        """What should have happened by tracked runs requested after `since` and has not, in words:
        each stream is scaled up, and after that down.

        Args:
            jobs: a job by which something else of the stream is changed, by stream.
        """
        lines = []
        for stream in streams:
            runs = [run for run in self.runs if run.stream == stream and run.time >= since]
            up = next((number for number, run in enumerate(runs) if run.scaled_up), None)
            if up is None:
                lines.append(f"{stream}: no scale-up by a run")
            if not any(run.scaled_down for run in runs[up or 0 :]):
                lines.append(f"{stream}: no scale-down by a run")
        lines += [
            f"{stream}: no run of {job} has changed anything"
            for stream, job in jobs.items()
            if not self.changed(stream, job, since)
        ]
        return lines

    def to_json(
        self, streams: Sequence[str], since: float = 0.0, jobs: Mapping[str, str] = NO_JOBS
    ) -> dict[str, Any]:
        return {
            "ticks": [asdict(tick) for tick in self.ticks],
            "runs": [asdict(run) for run in self.runs],
            "load_began": None if math.isinf(since) else round(since, 3),
            "missing": self.missing(streams, since, jobs),
        }


def tick_line(tick: Tick) -> str:
    """`clicks   R 0.47  1 executor (1 requested)   10.0/s in   hold: R 0.47 is between ...`"""
    r = "R    ?" if tick.r is None else f"R {tick.r:4.2f}"
    registered = "?" if tick.registered is None else str(tick.registered)
    requested = "?" if tick.requested is None else str(tick.requested)
    rate = "?" if tick.input_rate is None else f"{tick.input_rate:.1f}"
    return (
        f"{tick.stream:<9}{r}   executors {registered} of {requested} requested   "
        f"in {rate:>5}/s   {tick.decision}{': ' * bool(tick.reason)}{tick.reason}"
    )


def run_line(run: Run) -> str:
    """`clicks  rescale run 1a2b3c4d: 1 -> 3 executors, SUCCESS after 6.1 s`"""
    change = "" if run.change is None else f" {run.change},"
    if run.after is not None:
        change = f" {run.before} -> {run.after} executors,"
    seconds = "" if run.seconds is None else f" after {run.seconds:.1f} s"
    return f"{run.stream:<9}{run.job} run {run.run_id[:8]}:{change} {run.status}{seconds}"
