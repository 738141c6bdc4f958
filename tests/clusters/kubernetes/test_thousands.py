"""How often the API server is asked: by a tick of a thousand streams, by who waits for one.

Counted in the API server's own audit log.
"""

import base64
import json
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import Any

import psutil
import pytest

from dagster_sparkscale import KubernetesCluster
from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.errors import ClusterError, OperationInProgress
from dagster_sparkscale.clusters.kubernetes import listing, names
from dagster_sparkscale.clusters.kubernetes.drivers import PodDriver
from dagster_sparkscale.clusters.records.store import Record, Submission
from dagster_sparkscale.clusters.requests import newest_now
from dagster_sparkscale.watch.collect import Collector
from dev.kubernetes.granted import USER, kubeconfig
from dev.kubernetes.running import Cluster
from dev.kubernetes.telling import patch_status
from tests.clusters.conftest import PACES
from tests.clusters.running import newest, stream
from tests.kubernetes import Object, create, pod

pytestmark = pytest.mark.kubernetes

STREAMS = 510
"""More than a page of each kind."""
NAMES = [f"s{number}" for number in range(STREAMS)]
WAITS = 24.0
"""Seconds that are waited for something that does not come."""
_PAGE = {"v": "meta.k8s.io/v1", "rv": 1, "start": "sparkscale-s1-1\u0000"}
OLD = base64.urlsafe_b64encode(json.dumps(_PAGE).encode()).decode().rstrip("=")
"""What asks for a page of a list of the first thing that etcd has ever had."""
BEGINS = 8.0
"""Seconds in which who waits looks often: much takes only a moment."""


def asked(kubernetes: Cluster, space: str) -> list[tuple[str, str, str]]:
    """The verb, kind and name of each request that Dagster has made in a namespace."""
    return [call for _, call in timed(kubernetes, space)]


def timed(kubernetes: Cluster, space: str) -> list[tuple[float, tuple[str, str, str]]]:
    """The same with when each came, seconds since the epoch."""
    found = {}  # what takes long is logged when it begins, and when it ends
    for each in kubernetes.asked(USER):
        about: Object = each.get("objectRef", {})
        if about.get("namespace") == space:
            at = datetime.fromisoformat(each["requestReceivedTimestamp"]).timestamp()
            call = each["verb"], about["resource"], about.get("name", "")
            found[each["auditID"]] = at, call
    return list(found.values())


def pretend(kubernetes: Cluster, cluster: KubernetesCluster, space: str, name: str) -> None:
    """What there is of a stream whose driver has been submitted and waits for a node."""
    now = time.time()
    history = (Submission(1, now - 600.0, "manual"),)
    record = replace(
        Record.new(f"{name:0>16}"), revision=1, epoch=1, desired="running", history=history
    )
    cluster.store().swap(name, record)
    labels = names.labels(name, 1, record.id)
    metadata = {"name": names.of_epoch(name, 1), "labels": labels}
    data = {"token": "dG9rZW4=", "spark.properties": "eHh4" * 500, "tls.key": "eA=="}
    create(kubernetes.api, space, "secrets", {"metadata": metadata, "data": data})
    made = pod(metadata["name"], "sleep", "600", labels={**labels, "spark-role": "driver"})
    made["spec"]["schedulerName"] = "nobody"
    made["spec"]["containers"][0]["name"] = "driver"
    create(kubernetes.api, space, "pods", made)


@pytest.fixture(scope="class")
def thousand(kubernetes: Cluster, cluster: KubernetesCluster, space: str) -> KubernetesCluster:
    def make(name: str) -> None:
        pretend(kubernetes, cluster, space, name)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, NAMES))
    return KubernetesCluster(image="spark", kubeconfig=str(kubeconfig(kubernetes, space)))


def compact(kubernetes: Cluster) -> None:
    """Have etcd forget all that is not so any more, as it does every few minutes."""
    words = [
        word
        for each in psutil.Process(kubernetes.process).children(recursive=True)
        for word in each.cmdline()
    ]
    (etcd,) = {word.partition("=")[2] for word in words if word.startswith("--etcd-servers=")}

    def ask(what: str, body: Object) -> Any:
        data = json.dumps(body).encode()
        with urllib.request.urlopen(f"{etcd}/v3/kv/{what}", data, timeout=30) as answer:
            return json.load(answer)

    at = ask("put", {"key": "YQ==", "value": "YQ=="})["header"]["revision"]
    ask("compaction", {"revision": at, "physical": True})


class TestThousand:
    def test_a_tick_lists_each_kind_once_and_asks_for_no_stream(
        self, kubernetes: Cluster, thousand: KubernetesCluster, space: str
    ) -> None:
        before = len(asked(kubernetes, space))
        streams = [stream(name) for name in NAMES]
        found = Collector().collect(thousand, streams, deadline=600.0)
        assert {each.driver and each.driver.state for each in found.values()} == {
            DriverState.STARTING
        }
        calls = Counter(asked(kubernetes, space)[before:])
        pages = -(-STREAMS // listing.PAGE)
        kinds = ("pods", "secrets", "configmaps")
        # That their pods wait for a scheduler has no event.
        assert {kind: calls.pop(("list", kind, "")) for kind in kinds} == dict.fromkeys(
            kinds, pages
        )
        assert set(calls) <= {("list", "events", "")} and calls.total() <= 1, calls
        # Whoever else looks in the same tick, as for orphans, lists nothing again.
        assert thousand.snapshot().store().streams() == sorted(NAMES)
        assert len(asked(kubernetes, space)) - before == 3 * pages + calls.total()

    def test_a_list_whose_moment_was_forgotten_is_begun_anew(
        self,
        kubernetes: Cluster,
        thousand: KubernetesCluster,
        space: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Its first page is taken for one of long ago, and the API server itself says that it does
        not remember that."""
        api, codes = thousand._api(), []
        ask = api._ask

        def late(method: str, path: str, query: Any, body: Any) -> tuple[int, bytes]:
            if "continue" in query and 410 not in codes:
                made = pod("late", "sleep", "600", labels={names.STREAM: "late"})
                made["spec"]["schedulerName"] = "nobody"
                create(kubernetes.api, space, "pods", made)
                compact(kubernetes)
                query = {**query, "continue": OLD}
            code, content = ask(method, path, query, body)
            codes.append(code)
            return code, content

        monkeypatch.setattr(api, "_ask", late)
        found = [each["metadata"]["name"] for each in api.find("pods")]
        assert codes == [200, 410, 200, 200]
        # Of one moment, and that of the second list.
        assert sorted(found) == sorted([*(names.of_epoch(name, 1) for name in NAMES), "late"])


@pytest.fixture
def at_its_own_pace(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(PodDriver, "EVERY", PACES[PodDriver])
    yield


def test_who_waits_asks_once_in_two_seconds_at_most(
    kubernetes: Cluster, cluster: KubernetesCluster, space: str, at_its_own_pace: None
) -> None:
    """For a pod that does not start, for a driver that does not end, for somebody else's lease."""
    for name in ("starts", "ends", "leased", "followed"):
        pretend(kubernetes, cluster, space, name)
    running = {"name": "driver", "state": {"running": {}}, "started": True, "ready": True}
    for name in ("ends", "followed"):
        there = kubernetes.pod(space, names.of_epoch(name, 1))
        told = {**running, "image": "spark", "imageID": "", "restartCount": 0}
        patch_status(kubernetes.api, there, {"phase": "Running", "containerStatuses": [told]})

    def starts() -> None:
        with cluster.lease("starts", "a start") as lease:
            cluster.driver_of("starts", lease.record).await_agent(WAITS)

    def ends() -> None:
        driver = newest(cluster, "ends")
        assert driver.state is DriverState.RUNNING
        with (
            cluster.lease("ends", "a stop") as lease,
            pytest.MonkeyPatch.context() as patch,
            pytest.raises(ClusterError, match="nothing is killed here"),
        ):
            patch.setattr(PodDriver, "kill", not_done)  # the last step
            cluster.stop(driver, lease, graceful=True, timeout=WAITS)

    def leased() -> None:
        waiting = cluster.lease("leased", "another", wait=WAITS)
        with pytest.raises(OperationInProgress), waiting:
            pytest.fail("held twice")

    def followed() -> None:
        driver: Driver | None = newest(cluster, "followed")
        for _ in range(int(WAITS / 0.5)):
            assert driver is not None
            driver = newest_now(cluster, driver)
            time.sleep(0.5)

    waiting: dict[str, Callable[[], None]]
    waiting = {"starts": starts, "ends": ends, "leased": leased, "followed": followed}
    with cluster.lease("leased", "somebody"):
        threads = [threading.Thread(target=wait) for wait in waiting.values()]
        began = time.time()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    window = began + BEGINS, began + WAITS - 1.0
    calls = [call for at, call in timed(kubernetes, space) if window[0] <= at < window[1]]
    most = (window[1] - window[0]) / 2 + 1
    for name in waiting:
        objects = names.of_record(name), names.of_epoch(name, 1)
        its = [each for each in calls if each[2] in objects]
        if name == "leased":  # whoever holds it renews it meanwhile
            its = [each for each in its if each[0] == "get"]
        assert 1 < len(its) <= most, (name, Counter(its))
    # Events of the one that waits for a node.
    assert len([each for each in calls if not each[2]]) <= 1, Counter(calls)


def not_done(driver: PodDriver) -> None:
    raise ClusterError("nothing is killed here")
