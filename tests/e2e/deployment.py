"""A small deployment in one process: a stream on a real cluster, with a real Dagster instance."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.definitions.sensor_definition import SensorExecutionData

from dagster_sparkscale import ClusterManager, RatioPolicy, RecoveryPolicy, StructuredStream
from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.clusters.errors import AgentUnreachable
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.definitions import build_defs
from dagster_sparkscale.names import STORY
from dagster_sparkscale.observe.status import Status
from tests.waiting import patience, wait_for

PROGRAMS = Path(__file__).parent.parent / "programs"


def set_pace(folder: Path, seconds: float) -> None:
    """At once: a running program reads it at any time, and must not find an empty file."""
    (folder / "pace.new").write_text(str(seconds))
    (folder / "pace.new").replace(folder / "pace")


def paced_stream(name: str, folder: Path, **fields: Any) -> StructuredStream:
    """A stream whose batch of two seconds takes as long as `folder/pace` says."""
    set_pace(folder, 0.1)
    given: dict[str, Any] = {
        "program": str(PROGRAMS / "paced.py"),
        "arguments": (str(folder / "pace"),),
        "batch_interval": 2,
        "executor_memory": "512m",
        "checkpoint_location": str(folder / "checkpoint"),
        "autoscale": RatioPolicy(interval=10, max_executors=3),
        "recovery": RecoveryPolicy(first_delay=0.1, limit=2),
    }
    return StructuredStream(name=name, **{**given, **fields})


# Two runs at once in one process leave processes behind that follow the output of both.
_NO_COMPUTE_LOGS = {
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    }
}


class Deployment:
    def __init__(self, cluster: ClusterManager, stream: Stream, home: Path) -> None:
        self.cluster = cluster
        self.stream = stream
        self.folder = home
        self.defs = build_defs([stream], cluster)
        self.instance = dg.DagsterInstance.local_temp(str(home), overrides=_NO_COMPUTE_LOGS)
        self.cursor: str | None = None

    def pace(self, seconds: float) -> None:
        set_pace(self.folder, seconds)

    def materialize(self, **config: Any) -> dg.ExecuteInProcessResult:
        return self.defs.resolve_implicit_global_asset_job_def().execute_in_process(
            run_config={"ops": {self.stream.name: {"config": config}}},
            instance=self.instance,
            raise_on_error=False,
        )

    def run(self, job: str, **config: Any) -> dg.ExecuteInProcessResult:
        return self.defs.resolve_job_def(job).execute_in_process(
            run_config={"ops": {job: {"config": {"stream": self.stream.name, **config}}}},
            instance=self.instance,
            raise_on_error=False,
        )

    def requested(self, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
        """Carry out what a tick has asked for, with the time that a busy machine needs."""
        assert request.job_name is not None
        config = copy.deepcopy(dict(request.run_config))
        for op in config["ops"].values():
            if "wait_seconds" in op["config"]:
                op["config"]["wait_seconds"] = patience(op["config"]["wait_seconds"])
        return self.defs.resolve_job_def(request.job_name).execute_in_process(
            run_config=config,
            instance=self.instance,
            tags=request.tags,
            raise_on_error=False,
        )

    def tick(self) -> SensorExecutionData:
        """One evaluation, stored as the daemon stores it."""
        sensor = self.defs.resolve_sensor_def("autoscaler")
        with dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursor,
            definitions=self.defs,
            resources=self.defs.resources,
        ) as context:
            result = sensor.evaluate_tick(context)
        self.cursor = result.cursor
        for event in result.asset_events:
            self.instance.report_runless_asset_event(event)
        return result

    def driver(self) -> Driver:
        driver = self.cluster.find(self.stream.name)
        assert driver is not None
        return driver

    def status(self) -> Status | None:
        with suppress(AgentUnreachable):
            return self.cluster.status(self.driver())
        return None

    def registered(self) -> int | None:
        status = self.status()
        return status.registered if status else None

    def all_took(self, count: int, seconds: float) -> bool:
        """Whether the policy's window has so many batches, and each took at least that long."""
        assert self.stream.autoscale is not None
        with suppress(AgentUnreachable):
            status = self.cluster.status(self.driver(), window=self.stream.autoscale.interval)
            took = [batch.processing_ms / 1000 for batch in status.batches]
            return len(took) >= count and all(each >= seconds for each in took)
        return False

    def stop(self) -> None:
        driver = self.cluster.find(self.stream.name)
        if driver is not None:
            with self.cluster.lease(self.stream.name, "end of the test", wait=60) as lease:
                self.cluster.stop(driver, lease, graceful=False, timeout=20)


@contextmanager
def deployed(cluster: ClusterManager, stream: Stream, home: Path) -> Iterator[Deployment]:
    deployment = Deployment(cluster, stream, home)
    try:
        yield deployment
    except BaseException as error:
        driver = cluster.find(stream.name)
        if driver is not None:
            error.add_note(f"{driver}\n{cluster.logs(driver, 60)}")
        raise
    finally:
        deployment.stop()


def failure(result: dg.ExecuteInProcessResult) -> str:
    """What the run's page says of why the run failed."""
    assert not result.success
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data
            assert data.user_failure_data is not None, data.error
            return data.user_failure_data.description or ""
    raise AssertionError("the run failed without a failed step")


def told(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """What the operation has told the asset of itself."""
    assert result.success, [event.message for event in result.all_events if event.is_failure]
    for event in reversed(result.all_events):
        data = event.event_specific_data
        for name in ("asset_observation", "materialization"):
            if (found := getattr(data, name, None)) is not None:
                return dict(found.metadata[STORY].value)
    raise AssertionError("the run said nothing about the asset")


def wait_for_request(d: Deployment, job: str) -> SensorExecutionData:
    """Tick until a tick asks for `job`."""
    found: list[SensorExecutionData] = []

    def asked() -> bool:
        tick = d.tick()
        if any(request.job_name == job for request in tick.run_requests or []):
            found.append(tick)
        return bool(found)

    wait_for(f"a tick that requests {job}", asked, every=1)
    return found[0]
