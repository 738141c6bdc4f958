"""All files of deploy/kubernetes as they are, applied to a real API server, and the life of their
sample by what they grant: what a platform engineer does by docs/deploying.md."""

import runpy
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from dagster_sparkscale import KubernetesCluster, StructuredStream
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.clusters.kubernetes.manifests import DRIVER, EXECUTOR
from dev.kubernetes.granted import DEPLOY, USER, apply, kubeconfig
from dev.kubernetes.kubelet import NODES
from dev.kubernetes.running import Cluster
from tests.clusters.kubernetes.test_mishaps import other, restricted
from tests.clusters.kubernetes.test_scenario import what, where
from tests.clusters.running import newest, scale, status, stop, submit, wait_running
from tests.kubernetes import Object, namespace
from tests.waiting import HANGS, wait_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark]

MANIFESTS = sorted({path.name for path in DEPLOY.glob("*.yaml")} - {"values.yaml"})
OF_ALL = (
    "/apis/scheduling.k8s.io/v1/priorityclasses/sparkscale-driver",
    "/apis/scheduling.k8s.io/v1/priorityclasses/sparkscale-executor",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/sparkscale-capacity",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/sparkscale-capacity",
)
"""What belongs to no namespace."""
TICKS = "ticks"
SAMPLE = runpy.run_path(str(DEPLOY / "app" / "definitions.py"))


@pytest.fixture(scope="module")
def space(kubernetes: Cluster) -> Iterator[str]:
    """A namespace to which all has been applied, which admits restricted pods only."""
    with namespace(kubernetes, "deployed") as made:
        apply(kubernetes, made, *MANIFESTS)
        with restricted(kubernetes, made):
            yield made
    for path in OF_ALL:
        kubernetes.api.delete(path)


@pytest.fixture(scope="module")
def volume(kubernetes: Cluster, space: str) -> Iterator[Path]:
    """The folder of a volume such as the claim in checkpoints.yaml asks for."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    name = f"shared-{space}"
    claim = {"namespace": space, "name": "sparkscale-checkpoints"}
    spec = {
        "capacity": {"storage": "100Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "efs",
        "claimRef": claim,
        "hostPath": {"path": str(folder)},
    }
    kubernetes.api.create("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})
    yield folder
    kubernetes.api.delete(f"/api/v1/persistentvolumes/{name}")
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def spot(kubernetes: Cluster) -> Iterator[str]:
    """The name of the node that is a spot node, with a taint; the other one is none."""
    label, value = SAMPLE["SPOT"], SAMPLE["IS_SPOT"]
    path, taint = f"/api/v1/nodes/{NODES[0]}", {"key": label, "value": value}
    has = {"metadata": {"labels": {label: value}}}
    kubernetes.api.patch(path, {**has, "spec": {"taints": [{**taint, "effect": "NoSchedule"}]}})
    yield NODES[0]
    kubernetes.api.patch(path, {"metadata": {"labels": {label: None}}, "spec": {"taints": []}})


@pytest.fixture(scope="module")
def cluster(kubernetes: Cluster, space: str, volume: Path, spot: str) -> KubernetesCluster:
    """The sample's, for a Dagster outside of the cluster, with images that are here."""
    path = str(kubeconfig(kubernetes, space))
    found: KubernetesCluster = SAMPLE["cluster"]
    return other(found, image="spark", namespace=space, kubeconfig=path, term_seconds=10)


@pytest.fixture(scope="module")
def ticks() -> StructuredStream:
    found: StructuredStream = SAMPLE["ticks"]
    return found


def pods(kubernetes: Cluster, space: str, labels: dict[str, str]) -> list[Object]:
    """Those that run."""
    query = names.selector({names.STREAM: TICKS, **labels})
    found = kubernetes.api.items(f"/api/v1/namespaces/{space}/pods?labelSelector={query}")
    over = ("Succeeded", "Failed")
    return [
        each
        for each in found
        if each["status"]["phase"] not in over and "deletionTimestamp" not in each["metadata"]
    ]


def evict(kubernetes: Cluster, pod: Object) -> requests.Response:
    """What `kubectl drain` asks for."""
    space, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": space},
    }
    return kubernetes.api.ask("POST", f"/api/v1/namespaces/{space}/pods/{name}/eviction", body)


def batch(volume: Path) -> int:
    """The newest batch that is written down in the checkpoint; -1: none."""
    found = (volume / TICKS).glob("**/commits/*")
    return max((int(path.name) for path in found if path.name.isdecimal()), default=-1)


def test_the_doctor_finds_nothing_wrong(cluster: KubernetesCluster, ticks: Any) -> None:
    told = list(cluster.conditions([ticks]))
    assert told and [each for each in told if each.wrong] == []
    cluster.check(ticks)
    room = cluster.capacity()
    assert room is not None and room.workers == len(NODES)


class TestLife:
    """In this order."""

    def test_it_starts_where_and_as_whom_it_should(
        self, kubernetes: Cluster, cluster: KubernetesCluster, space: str, ticks: Any, spot: str
    ) -> None:
        submit(cluster, ticks)
        wait_running(cluster, TICKS, executors=1)
        wait_for("a batch", lambda: (seen := status(cluster, TICKS)) and seen.batches)
        scale(cluster, TICKS, 2)
        wait_running(cluster, TICKS, executors=2)
        [driver] = pods(kubernetes, space, DRIVER)
        executors = pods(kubernetes, space, EXECUTOR)
        assert len(executors) == 2
        assert driver["spec"]["nodeName"] != spot
        assert {each["spec"]["nodeName"] for each in executors} == {spot}
        for each, account, priority in (
            (driver, "sparkscale-driver", 100_000),
            *((each, "sparkscale-executor", 10_000) for each in executors),
        ):
            assert each["spec"]["serviceAccountName"] == account
            # As the API server has it from the class.
            assert each["spec"]["priority"] == priority
            assert psutil.Process(kubernetes.pid(each)).uids().effective == 185
        assert {each["spec"]["terminationGracePeriodSeconds"] for each in executors} == {120}
        tokens = [
            source
            for each in executors
            for held in each["spec"]["volumes"]
            for source in (held.get("projected") or {}).get("sources") or []
            if "serviceAccountToken" in source
        ]
        assert tokens == []

    def test_the_network_policies_are_for_these_pods(self, kubernetes: Cluster, space: str) -> None:
        drivers, executors = (pods(kubernetes, space, each) for each in (DRIVER, EXECUTOR))
        expected = {
            "sparkscale-drivers": drivers,
            "sparkscale-executors": executors,
            "sparkscale-egress": [*drivers, *executors],
        }
        path = f"/apis/networking.k8s.io/v1/namespaces/{space}/networkpolicies"
        for policy in kubernetes.api.items(path):
            labels = policy["spec"]["podSelector"]["matchLabels"]
            chosen = pods(kubernetes, space, labels)
            meant = expected.pop(policy["metadata"]["name"])
            assert names_of(chosen) == names_of(meant)
        assert expected == {}

    def test_an_executor_may_be_evicted_and_is_replaced_and_a_driver_may_not(
        self, kubernetes: Cluster, cluster: KubernetesCluster, space: str
    ) -> None:
        path = f"/apis/policy/v1/namespaces/{space}/poddisruptionbudgets/sparkscale-drivers"
        wait_for("the budget to hold", lambda: (kubernetes.api.get(path) or {}).get("status"))
        [driver] = pods(kubernetes, space, DRIVER)
        refused = evict(kubernetes, driver)
        assert refused.status_code == 429
        assert "would violate the pod's disruption budget" in refused.json()["message"]

        before = names_of(pods(kubernetes, space, EXECUTOR))
        evicted = pods(kubernetes, space, EXECUTOR)[0]
        assert evict(kubernetes, evicted).ok

        def replaced() -> bool:
            now = names_of(pods(kubernetes, space, EXECUTOR))
            return len(now) == 2 and now != before

        wait_for("another executor", replaced)
        wait_running(cluster, TICKS, executors=2)
        assert names_of(pods(kubernetes, space, DRIVER)) == names_of([driver])

    def test_without_the_budget_an_evicted_driver_ends_in_order_and_the_next_goes_on(
        self,
        kubernetes: Cluster,
        cluster: KubernetesCluster,
        space: str,
        volume: Path,
        ticks: Any,
    ) -> None:
        path = f"/apis/policy/v1/namespaces/{space}/poddisruptionbudgets/sparkscale-drivers"
        kubernetes.api.delete(path)
        first = newest(cluster, TICKS)
        [driver] = pods(kubernetes, space, DRIVER)
        assert evict(kubernetes, driver).ok
        wait_for("its end", lambda: not newest(cluster, TICKS).state.alive)
        ended = newest(cluster, TICKS)
        # Whether its pod was still there when it was looked at, or not any more.
        told = ("evicted, as when its node is drained", "its pod was deleted")
        assert str(ended.exit_reason).startswith(told), ended
        before = batch(volume)
        assert before >= 0
        submit(cluster, ticks, "recovery")
        wait_running(cluster, TICKS)
        assert newest(cluster, TICKS).epoch == first.epoch + 1
        wait_for("the next batch", lambda: batch(volume) > before)

    def test_it_stops_and_nothing_was_refused(
        self, kubernetes: Cluster, cluster: KubernetesCluster, space: str
    ) -> None:
        ended = stop(cluster, TICKS, graceful=True, timeout=HANGS)
        assert ended.state is DriverState.STOPPED
        wait_for("the executors to go", lambda: not pods(kubernetes, space, EXECUTOR))
        users = [f"system:serviceaccount:{space}:sparkscale-{of}" for of in ("driver", "executor")]
        for user in (USER, *users):
            asked = [each for each in kubernetes.asked(user) if where(each) == space]
            denied = [what(each) for each in asked if each["responseStatus"]["code"] == 403]
            assert denied == []
            # Executors talk to no API server at all.
            assert bool(asked) == (user != users[1])


def names_of(found: list[Object]) -> set[str]:
    return {each["metadata"]["name"] for each in found}
