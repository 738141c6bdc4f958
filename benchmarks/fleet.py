"""What a tick over many streams asks of Kubernetes' API server.

500 streams are pretended to run: their records, Secrets and pods are real objects in a real API
server, and their agents answer over HTTP. A tick is an evaluation of the autoscaler's sensor, which
looks at all of them. Its calls are counted by the API server itself, in its audit log, for the
service account that stands for Dagster.
"""

import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dagster as dg

from benchmarks.agents import TOKEN
from benchmarks.figures import Figure
from benchmarks.pretended import agents
from benchmarks.sensor_tick import stream_of
from dagster_sparkscale import KubernetesCluster, build_defs
from dagster_sparkscale.clusters.agents.agent import RemoteAgent
from dagster_sparkscale.clusters.kubernetes.drivers import PodDriver
from dagster_sparkscale.clusters.kubernetes.manifests import TOKEN as TOKEN_KEY
from dagster_sparkscale.clusters.records import leases, starts
from dagster_sparkscale.declare.drift import declared
from dev.kubernetes import granted, telling
from dev.kubernetes.running import Cluster, make_namespace, start

STREAMS = 500
TICKS = 5


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as name:
        folder = Path(name)
        (folder / "home").mkdir()
        with start(folder / "kubernetes") as kubernetes, agents(STREAMS) as (_, urls):
            make_namespace(kubernetes.api, "streams")
            granted.apply(kubernetes, "streams", "dagster.yaml", "driver.yaml")
            path = granted.kubeconfig(kubernetes, "streams")
            cluster = KubernetesCluster(image="spark", kubeconfig=str(path), agent_access="service")
            for stream in urls:
                _pretend(kubernetes, cluster, stream)
            return [_measure(kubernetes, cluster, urls, folder)]


def _pretend(kubernetes: Cluster, cluster: KubernetesCluster, name: str) -> None:
    """Leave what a submission leaves, with a pod that no node runs."""
    store = cluster.store()
    drivers = starts.Drivers(
        lambda _: None, lambda *_: False, lambda one: leases.hold(store, one, "benchmark", 0)
    )
    with leases.hold(store, name, "benchmark", 0.0) as lease:
        known = declared(stream_of("any"))
        begun = starts.begin(store, lease, drivers, cause="manual", checkpoint=None, declared=known)
    objects = cluster._objects(name, begun.record)
    secret = kubernetes.api.create(
        "/api/v1/namespaces/streams/secrets", objects.secret({TOKEN_KEY: TOKEN}, {})
    )
    pod = objects.driver(secret["metadata"]["uid"], ["true"], [], {})
    pod["spec"]["schedulerName"] = "nobody"
    made = kubernetes.api.create("/api/v1/namespaces/streams/pods", pod)
    status = {
        "phase": "Running",
        "conditions": [telling.condition("Ready", True)],
        "containerStatuses": telling.container_status(
            made,
            {"running": {"startedAt": telling.now()}},
            ready=True,
            started=True,
            restarts=0,
            last=None,
        ),
    }
    telling.patch_status(kubernetes.api, made, status)


def _measure(
    kubernetes: Cluster, cluster: KubernetesCluster, urls: dict[str, str], folder: Path
) -> Figure:
    defs = build_defs([stream_of(name) for name in urls], cluster)
    instance = dg.DagsterInstance.local_temp(str(folder / "home"))
    sensor = defs.resolve_sensor_def("autoscaler")
    cursor: list[str | None] = [None]

    def agent(driver: PodDriver) -> RemoteAgent:
        return RemoteAgent(driver.stream, driver.record.epoch, urls[driver.stream], TOKEN)

    def tick() -> float:
        begun = time.perf_counter()
        with dg.build_sensor_context(
            instance=instance,
            cursor=cursor[0],
            definitions=defs,
            resources=defs.resources,
        ) as context:
            result: Any = sensor.evaluate_tick(context)
        assert "R 0.50" in (result.skip_message or ""), result.skip_message
        cursor[0] = result.cursor
        return time.perf_counter() - begun

    with patch.object(PodDriver, "agent", agent):
        tick()  # warm-up: it tells of every stream
        asked, seconds = [len(kubernetes.asked(granted.USER))], []
        for _ in range(TICKS):
            seconds.append(round(tick(), 3))
            asked.append(len(kubernetes.asked(granted.USER)))
    last = kubernetes.asked(granted.USER)[asked[-2] :]
    calls = [after - before for before, after in pairwise(asked)]
    kinds = Counter(f"{each['verb']} {each['objectRef'].get('resource', '')}" for each in last)
    return Figure(
        name="fleet_api_calls",
        value=max(calls),
        unit="calls a tick",
        goal=10,
        better="lower",
        detail={
            "streams": len(urls),
            "calls": calls,
            "of_the_last": dict(kinds),
            "tick_seconds": seconds,
        },
    )
