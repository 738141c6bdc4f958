"""A stream's life on YARN, driven by tracked runs, from its start until nothing of it is left."""

import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.records.store import Record, Submission
from dagster_sparkscale.clusters.yarn import applications
from dagster_sparkscale.clusters.yarn.application_fate import note
from dagster_sparkscale.clusters.yarn.cluster import YarnCluster
from dagster_sparkscale.clusters.yarn.resource_manager import Web
from dagster_sparkscale.clusters.yarn.snapshot import ONE_BY_ONE, TOGETHER
from dagster_sparkscale.watch.collect import Collector
from dev.yarn.rig import Address
from dev.yarn.settings import NODE_MEMORY_MB
from tests.clusters.running import SECRET, kill
from tests.clusters.running import stream as small
from tests.clusters.yarn.cluster_mode import cluster_on, containers, no_secret_beside_logs
from tests.e2e.deployment import Deployment, deployed, paced_stream, told
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.yarn]


def test_started_scaled_killed_brought_back_attached_to_and_stopped(
    yarn: Address, tmp_path: Path
) -> None:
    cluster = cluster_on(yarn, tmp_path / "state")
    env = {"CLICKS_PASSWORD": SECRET}
    stream = paced_stream("spine", tmp_path, driver_memory="512m", env=env)
    with deployed(cluster, stream, tmp_path) as d:
        assert told(d.materialize())["action"] == "started"
        wait_for("one executor", lambda: d.registered() == 1)
        # The JVM and Python.
        assert len([each for each in containers(d.driver().app_id) if holds_secret(each)]) >= 2
        assert no_secret_beside_logs(yarn)

        d.pace(3.2)
        wait_for("two batches that took 3.2 s", lambda: d.all_took(2, 3.2))
        story = told(d.requested(asked_for(d, "rescale")))
        assert (story["executors_before"], story["executors_after"]) == (1, 3), story

        d.pace(0.1)
        story = told(d.requested(asked_for(d, "rescale")))
        assert (story["ending"], story["executors_after"]) == ("reached", 2), story

        killed = d.driver()
        for process in containers(killed.app_id, driver=True):
            kill(process.pid)
        wait_for("it to have failed", lambda: d.driver().state is DriverState.FAILED)
        assert d.driver().exit_reason == "killed by signal 9"
        assert told(d.requested(asked_for(d, "restart")))["action"] == "started"
        assert d.driver().epoch == killed.epoch + 1
        wait_for("two executors", lambda: d.registered() == 2)

        (tmp_path / "second").mkdir()
        second = Deployment(cluster_on(yarn, tmp_path / "state"), stream, tmp_path / "second")
        assert told(second.materialize())["action"] == "attached"
        last = d.driver()
        assert told(second.run("stop", reason="enough"))["state"] == "stopped"
        assert d.driver().state is DriverState.STOPPED and not d.tick().run_requests
    for app in (killed.app_id, last.app_id):
        assert app is not None
        wait_for("its containers to end", lambda app=app: not containers(app))
        assert not [path for path in Path(yarn.folder, "staging").rglob(app)]


STREAMS, ENDED, OTHERS = 150, 30, 60


def test_a_tick_asks_for_hundreds_of_drivers_together(
    yarn: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a ResourceManager that has as many other applications of the same user."""
    cluster = cluster_on(yarn, tmp_path / "state", resource_managers=[yarn.url], user="many")
    names = [f"s{number}" for number in range(STREAMS)]
    asked: list[str] = []
    ask = Web.ask

    def counted(web: Web, method: str, url: str, query: Mapping[str, str], *rest: Any, **more: Any):
        if url.startswith(yarn.url):  # nodes are asked for containers and logs of what has ended
            asked.append(f"{method} {url} {query}")
        return ask(web, method, url, query, *rest, **more)

    with Waiting(yarn) as waiting:
        tags = [pretended(cluster, name) for name in names]
        waiting.submit([("MAPREDUCE", "other")] * OTHERS)  # the first of them take all nodes
        waiting.submit([("SPARK", tag) for tag in tags])
        waiting.kill(tags[:ENDED])
        monkeypatch.setattr(Web, "ask", counted)
        streams = [small(name) for name in names]
        found = Collector().collect(cluster, streams, deadline=600.0)
        states = Counter(each.driver and each.driver.state for each in found.values())
        assert states == {
            DriverState.STARTING: STREAMS - ENDED,
            DriverState.FAILED: ENDED,
        }, next(iter(found.values()))
        together = -(-ENDED // TOGETHER)
        assert len(asked) == 1 + ONE_BY_ONE + together, asked
        # That they have ended is noted: a tick asks once, from then on.
        asked.clear()
        again = Collector().collect(cluster, streams, deadline=600.0)
        assert Counter(each.driver and each.driver.state for each in again.values()) == states
        assert len(asked) == 1, asked


def pretended(cluster: YarnCluster, name: str) -> str:
    """Remember a driver as submitted; the tag of its application."""
    now = time.time()
    history = (Submission(1, now, "manual"),)
    record = replace(
        Record.new(f"{name:0>16}"), revision=1, epoch=1, desired="running", history=history
    )
    cluster.store().swap(name, record)
    files = cluster.store().folder(name).submission(1)
    files.create()
    note(files.application, {"where": "on YARN"})
    return applications.of_epoch(record.id, 1)


class Waiting:
    """Applications of the user `many`, each of which wants a whole node."""

    def __init__(self, yarn: Address) -> None:
        self._url = f"{yarn.url}/ws/v1/cluster/apps"
        self._ids: dict[str, list[str]] = {}

    def __enter__(self) -> "Waiting":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(list(self._ids))

    def submit(self, wanted: list[tuple[str, str]]) -> None:
        """Applications of these kinds, with these tags."""
        with ThreadPoolExecutor(8) as pool:
            for (_, tag), id in zip(wanted, pool.map(self._submit, wanted), strict=True):
                self._ids.setdefault(tag, []).append(id)

    def kill(self, tags: list[str]) -> None:
        """Have YARN end those with these tags, and wait until it has."""
        ids = [id for tag in tags for id in self._ids.pop(tag)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self._kill, ids))

        def ended() -> bool:
            query = {**AS, "states": "KILLED,FAILED,FINISHED", "user": "many"}
            found = requests.get(self._url, query, timeout=30).json()["apps"] or {"app": []}
            return {each["id"] for each in found["app"]} >= set(ids)

        wait_for("applications to be killed", ended)

    def _submit(self, wanted: tuple[str, str]) -> str:
        kind, tag = wanted
        made = requests.post(f"{self._url}/new-application", params=AS, timeout=30).json()
        body = {
            "application-id": made["application-id"],
            "application-name": tag,
            "application-type": kind,
            "application-tags": {"tag": [tag]},
            "am-container-spec": {"commands": {"command": "sleep 600"}},
            "resource": {"memory": NODE_MEMORY_MB, "vCores": 1},
        }
        requests.post(self._url, json=body, params=AS, timeout=30).raise_for_status()
        return str(made["application-id"])

    def _kill(self, id: str) -> None:
        url = f"{self._url}/{id}/state"
        requests.put(url, json={"state": "KILLED"}, params=AS, timeout=30).raise_for_status()


AS = {"user.name": "many"}


def holds_secret(process: psutil.Process) -> bool:
    try:
        return process.environ().get("CLICKS_PASSWORD") == SECRET
    except psutil.Error:
        return False


def asked_for(d: Deployment, job: str) -> Any:
    """What the sensor asks for, once it asks for that."""

    def asked() -> Any:
        requests = d.tick().run_requests or []
        return next((each for each in requests if each.job_name == job), None)

    return wait_for(f"a run of {job}", asked, every=1)
