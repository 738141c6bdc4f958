"""What a rescale run costs above an empty one where drivers are pods, asked through the API server.

As `rescale_run`, on a Kubernetes cluster of this machine's own. Ours: seconds from the request of
the run until the driver has asked the API server for the pod of the first executor that is missing,
by the API server's own audit log. Peer: seconds from the request of an empty in-process run until
it has succeeded.
"""

import os
import tempfile
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg

from benchmarks.figures import Figure, paired_ratio
from benchmarks.one_stream import STREAM
from benchmarks.rescale_run import Launch, ended, has, requested_at, wait, webserver
from dagster_sparkscale import ClusterManager
from dagster_sparkscale.clusters.agents.change import SetExecutors
from dev.dagster_ui import AT_ONCE
from dev.kubernetes import granted
from dev.kubernetes.running import Cluster, make_namespace, start
from dev.runs import MARK

REPETITIONS = 7
SPACE = "streams"
_DRIVER = f"system:serviceaccount:{SPACE}:sparkscale-driver"


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as name:
        folder = Path(name)
        (folder / "home").mkdir()
        (folder / "home" / "dagster.yaml").write_text(AT_ONCE)
        with start(folder / "kubernetes", [MARK]) as kubernetes:
            make_namespace(kubernetes.api, SPACE)
            granted.apply(kubernetes, SPACE, "dagster.yaml", "outside.yaml", "driver.yaml")
            path = granted.kubeconfig(kubernetes, SPACE)
            os.environ["SPARKSCALE_BENCH_KUBECONFIG"] = str(path)
            with webserver(folder, "benchmarks.kubernetes_location") as launch:
                instance = dg.DagsterInstance.from_config(str(folder / "home"))
                return [_measure(kubernetes, launch, instance)]


def _measure(kubernetes: Cluster, launch: Launch, instance: dg.DagsterInstance) -> Figure:
    from benchmarks.kubernetes_location import defs

    cluster: Any = defs.resources["spark_cluster"]  # type: ignore[index]
    defs.resolve_implicit_global_asset_job_def().execute_in_process(instance=instance)
    ours, theirs, told = [], [], []
    # The first of each is a warm-up: imports are compiled, files come into the cache.
    for repetition in range(REPETITIONS + 1):
        _scale(cluster, 1)
        before = len(_pods_asked_for(kubernetes))
        empty = ended(instance, launch("empty", {}))
        config = {"stream": STREAM, "target": 2, "wait_seconds": 0.0}
        run = launch("rescale", {"ops": {"rescale": {"config": config}}})
        rescale = ended(instance, run)
        wait(lambda before=before: len(_pods_asked_for(kubernetes)) > before)  # type: ignore[misc]
        if repetition:
            began = rescale.create_timestamp.timestamp()
            theirs.append(empty.end_time - empty.create_timestamp.timestamp())
            ours.append(_pods_asked_for(kubernetes)[before] - began)
            told.append(round(requested_at(instance, run) - began, 3))
        wait(partial(has, cluster, 2))
    return paired_ratio(
        "k8s_rescale",
        ours,
        theirs,
        goal=1.4,
        detail={
            "ours": "run requested -> the missing executor's pod asked of the API server",
            "theirs": "empty in-process run requested -> succeeded",
            "run_requested_until_driver_told_seconds": told,
        },
    )


def _pods_asked_for(kubernetes: Cluster) -> list[float]:
    """When the driver has asked for executors' pods, seconds since the epoch."""
    return [
        datetime.fromisoformat(each["requestReceivedTimestamp"]).timestamp()
        for each in kubernetes.asked(_DRIVER)
        if each["verb"] == "create" and each["objectRef"]["resource"] == "pods"
    ]


def _scale(cluster: ClusterManager, executors: int) -> None:
    driver = cluster.find(STREAM)
    assert driver is not None
    wait(lambda: cluster.status(driver, window=0).phase == "running")
    cluster.change(driver, SetExecutors(executors))
    wait(partial(has, cluster, executors))
