"""What a rescale run costs above an empty one.

Both are launched through a real webserver into a real code server, each run in a process of its
own, in turn. Ours: seconds from the request of the run until the cluster has been asked for the
executors. Peer: seconds from the request of an empty in-process run until it has succeeded.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg

from benchmarks.figures import Figure, paired_ratio
from benchmarks.one_stream import STREAM
from dagster_sparkscale import ClusterManager
from dagster_sparkscale.names import STORY
from dev.dagster_ui import AT_ONCE, DagsterUI
from dev.processes import Children, port_to_use

REPETITIONS = 7
_DEADLINE = 180.0

Launch = Callable[[str, dict[str, Any]], str]
"""Launches a run of a job with a run config; returns its id."""


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as name:
        folder = Path(name)
        (folder / "home").mkdir()
        (folder / "home" / "dagster.yaml").write_text(AT_ONCE)
        os.environ["SPARKSCALE_BENCH_FOLDER"] = str(folder / "spark")
        with webserver(folder, "benchmarks.rescale_location") as launch:
            return [_measure(launch, dg.DagsterInstance.from_config(str(folder / "home")))]


def _measure(launch: Launch, instance: dg.DagsterInstance) -> Figure:
    from benchmarks.rescale_location import defs

    cluster: Any = defs.resources["spark_cluster"]  # type: ignore[index]
    try:
        defs.resolve_implicit_global_asset_job_def().execute_in_process(instance=instance)
        ours, theirs, inside = [], [], []
        # The first of each is a warm-up: imports are compiled, files come into the cache.
        for repetition in range(REPETITIONS + 1):
            empty = ended(instance, launch("empty", {}))
            target = 1 + (repetition + 1) % 2
            config = {"stream": STREAM, "target": target, "wait_seconds": 0.0}
            run = launch("rescale", {"ops": {"rescale": {"config": config}}})
            rescale = ended(instance, run)
            if repetition:
                assert empty.end_time is not None
                theirs.append(empty.end_time - empty.create_timestamp.timestamp())
                ours.append(requested_at(instance, run) - rescale.create_timestamp.timestamp())
                inside.append(_metadata(instance, run, "requested_seconds"))
            wait(partial(has, cluster, target))
        return paired_ratio(
            "rescale_run",
            ours,
            theirs,
            goal=1.3,
            detail={
                "ours": "run requested -> executors requested",
                "theirs": "empty in-process run requested -> succeeded",
                "inside_operation_seconds": inside,
            },
        )
    finally:
        cluster.shutdown(force=True)


@contextmanager
def webserver(folder: Path, location: str) -> Iterator[Launch]:
    """A real webserver with a real code server of that location; its home is `folder/home`."""
    port = port_to_use(0)
    children = Children(folder / "processes.json", folder / "logs")
    command = [
        *(sys.executable, "-m", "dagster_webserver", "-h", "127.0.0.1", "-p", str(port)),
        *("-m", location),
    ]
    env = {**os.environ, "DAGSTER_HOME": str(folder / "home"), "NO_PROXY": "*"}
    try:
        children.start("webserver", command, env, Path.cwd())
        ui = DagsterUI(f"http://127.0.0.1:{port}")
        loaded = ui.wait_until_loaded(_DEADLINE, lambda: None)
        yield partial(ui.launch, loaded)
    finally:
        children.end("webserver")


def ended(instance: dg.DagsterInstance, run_id: str, seconds: float = _DEADLINE) -> Any:
    """The record of a run once that has succeeded, within so many seconds."""

    def record() -> Any:
        return instance.get_run_record_by_id(run_id)

    wait(lambda: record().dagster_run.is_finished, seconds)
    assert record().dagster_run.is_success, run_id
    return record()


def requested_at(instance: dg.DagsterInstance, run_id: str) -> float:
    """When the run's log says that the cluster has been asked."""
    for entry in instance.all_logs(run_id):
        if entry.user_message.startswith("requested "):
            return entry.timestamp
    raise AssertionError(f"run {run_id} never requested anything")


def _metadata(instance: dg.DagsterInstance, run_id: str, key: str) -> Any:
    for entry in instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_OBSERVATION):
        assert entry.asset_observation is not None
        story: Any = entry.asset_observation.metadata[STORY].value
        return story[key]
    return None


def has(cluster: ClusterManager, executors: int) -> bool:
    """Whether the stream has so many executors."""
    driver = cluster.find(STREAM)
    return driver is not None and cluster.status(driver, window=0).registered == executors


def wait(condition: Callable[[], bool], seconds: float = _DEADLINE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the benchmark waited too long")
        time.sleep(0.1)
