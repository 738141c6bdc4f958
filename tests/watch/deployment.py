"""A code location with its sensor, on a cluster in memory, and what the tests ask it."""

import json
import time
from dataclasses import dataclass, field

import dagster as dg

from dagster_sparkscale.declare.budget import Budget
from dagster_sparkscale.definitions import build_defs
from dagster_sparkscale.markdown import carried
from dagster_sparkscale.names import MINUTES, PREFIX
from dagster_sparkscale.observe.minutes import restored
from dagster_sparkscale.watch.fleet.events import fleet_key, stored_problems
from dagster_sparkscale.watch.memory import Memory
from tests.fakes import scaled
from tests.in_memory.cluster import World

HOUR = 3600.0
FLEET_KEY = fleet_key("spark_cluster")


@dataclass
class Deployment:
    """A code location with its sensor, on a cluster in memory."""

    streams: list
    world: World = field(default_factory=World)
    instance: dg.DagsterInstance = field(default_factory=dg.DagsterInstance.ephemeral)
    cursor: str | None = None
    cluster_key: str = "spark_cluster"
    budget: Budget | None = None

    def __post_init__(self):
        self.defs = build_defs(
            self.streams,
            self.world.cluster,
            cluster_key=self.cluster_key,
            budget=self.budget,
        )
        ending = "" if self.cluster_key == "spark_cluster" else f"_{self.cluster_key}"
        self.sensor = self.defs.resolve_sensor_def(f"autoscaler{ending}")

    def tick(self, *, stored: bool = True):
        """One tick; its events are stored, as the daemon does, unless nothing reads them later."""
        with dg.build_sensor_context(
            instance=self.instance,
            definitions=self.defs,
            resources=self.defs.resources,
            cursor=self.cursor,
        ) as context:
            data = self.sensor.evaluate_tick(context)
        self.cursor = data.cursor
        for event in data.asset_events if stored else ():
            self.instance.report_runless_asset_event(event)
        return Tick(data)

    def passing(self, ticks: int, clock: list[float]) -> "list[Tick]":
        """Ticks a minute apart."""
        made = []
        for _ in range(ticks):
            made.append(self.tick())
            clock[0] += 60
        return made

    def run(self, request) -> dg.ExecuteInProcessResult:
        """Carry out a run that the sensor asked for."""
        job = self.defs.resolve_job_def(request.job_name)
        return job.execute_in_process(
            run_config=request.run_config, tags=request.tags, instance=self.instance
        )

    def by_hand(self, job: str, **config) -> dg.ExecuteInProcessResult:
        return self.defs.resolve_job_def(job).execute_in_process(
            run_config={"ops": {job: {"config": config}}},
            instance=self.instance,
            raise_on_error=False,
        )


@dataclass
class Tick:
    data: object

    @property
    def requests(self):
        return list(self.data.run_requests or [])

    def of(self, kind, stream: str | None = None) -> list:
        """What is told of a stream, or of all streams; not what is told of the fleet."""
        return [
            event
            for event in self.data.asset_events
            if isinstance(event, kind)
            and (event.asset_key.path[-1] == stream if stream else event.asset_key != FLEET_KEY)
        ]

    def told(self, stream: str = "clicks") -> list:
        """The events in which the stream was told of."""
        return self.of((dg.AssetMaterialization, dg.AssetObservation), stream)

    def minutes(self, stream: str = "clicks") -> list:
        """What is told of now, or will be with the next event."""
        found = Memory.load(self.data.cursor).of(stream).minutes
        for event in self.told(stream):
            found += restored(carried(event.metadata[MINUTES].value))
        return found

    def seen(self, stream: str = "clicks"):
        """What was seen of the stream in this tick."""
        return self.minutes(stream)[-1]

    def decided(self, stream: str = "clicks") -> str:
        """What was decided, and why."""
        minute = self.seen(stream)
        if minute.decision is not None:
            return f"{minute.decision}: {minute.reason}"
        if self.requests:
            (event,) = self.told(stream)
            return event.metadata["state"].value.replace("\\", "")
        (line,) = (
            line for line in self.data.skip_message.splitlines() if line.startswith(f"{stream}: ")
        )
        return line.removeprefix(f"{stream}: ")

    @property
    def fleet(self) -> dict | None:
        """What is told of the fleet, without the prefix; None where nothing is."""
        events = [event for event in self.data.asset_events if event.asset_key == FLEET_KEY]
        if not events:
            return None
        (event,) = events
        told = {key.removeprefix(PREFIX): value.value for key, value in event.metadata.items()}
        return told | {"for alerts": json.loads(stored_problems(event))}

    def checks(self, stream: str = "clicks") -> dict[str, bool]:
        return {e.check_name: e.passed for e in self.of(dg.AssetCheckEvaluation, stream)}


STREAM = scaled(max_executors=10)


def grown(kept):
    """A driver that has run for longer than its window, so that it is judged."""
    from dataclasses import replace

    kept.driver = replace(kept.driver, submitted_at=time.time() - HOUR)
    return kept


def overload(deployed: Deployment, stream=STREAM, **fields):
    return grown(deployed.world.run(stream, **{"executors": 2, "batch_seconds": 25} | fields))


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    assert not result.success
    (failure,) = (event for event in result.all_events if event.is_step_failure)
    return failure.event_specific_data.user_failure_data.description
