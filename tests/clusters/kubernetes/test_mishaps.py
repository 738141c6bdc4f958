"""What is told when pods do not start, and what a driver outlives."""

import contextlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dagster_sparkscale import KubernetesCluster
from dagster_sparkscale.clusters import spark_cluster
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dev.kubernetes.granted import kubeconfig
from dev.kubernetes.running import Cluster
from tests.clusters.kubernetes.frozen import wakes_up_late
from tests.clusters.running import (
    newest,
    scale,
    see_ended,
    see_to,
    stop,
    stream,
    submit,
    wait_running,
)
from tests.kubernetes import create, namespace
from tests.waiting import HANGS, wait_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark]


def other(cluster: KubernetesCluster, **fields: Any) -> KubernetesCluster:
    """The same one with other fields."""
    kept = {name: getattr(cluster, name) for name in type(cluster).model_fields}
    return KubernetesCluster(**{**kept, **fields})


@contextmanager
def quota(kubernetes: Cluster, space: str, hard: dict[str, str]) -> Iterator[None]:
    create(
        kubernetes.api,
        space,
        "resourcequotas",
        {"metadata": {"name": "q"}, "spec": {"hard": hard}},
    )
    path = f"/api/v1/namespaces/{space}/resourcequotas/q"

    def holds() -> bool:
        found = kubernetes.api.get(path)
        return found is not None and bool(found.get("status", {}).get("hard"))

    wait_for("the quota to hold", holds)
    try:
        yield
    finally:
        kubernetes.api.delete(path)


RESTRICTED = {
    "spec": {
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 185,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "driver",
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    }
}
"""The template of docs/kubernetes.md, for drivers and for executors."""


@contextmanager
def restricted(kubernetes: Cluster, space: str) -> Iterator[None]:
    """The namespace admits nothing but restricted pods."""
    level = "pod-security.kubernetes.io/enforce"
    path = f"/api/v1/namespaces/{space}"
    kubernetes.api.patch(path, {"metadata": {"labels": {level: "restricted"}}})
    try:
        yield
    finally:
        kubernetes.api.patch(path, {"metadata": {"labels": {level: None}}})


class TestNotStarted:
    """Drivers that wait, or are refused: the fault is told, with what Kubernetes says of it."""

    REFUSED = re.escape("exceeded quota: q, requested: requests.cpu=1")

    @pytest.fixture(autouse=True)
    def soon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(spark_cluster, "ANNOUNCE_SECONDS", 0.5)

    @pytest.mark.parametrize(
        ("name", "fields", "told"),
        [
            (
                "nowhere",
                {"node_selector": {"disk": "gold"}},
                "not scheduled: 0/2 nodes are available: 2 node(s) didn't match Pod's node "
                "affinity/selector.",
            ),
            ("typo", {"image": "bad/typo:1"}, 'Back-off pulling image "bad/typo:1"'),
            (
                "unmounted",
                {
                    "driver_template": {
                        "spec": {
                            "containers": [
                                {
                                    "name": "driver",
                                    "volumeMounts": [{"name": "keys", "mountPath": "/keys"}],
                                }
                            ],
                            "volumes": [{"name": "keys", "secret": {"secretName": "keys"}}],
                        }
                    }
                },
                'FailedMount: MountVolume.SetUp failed for volume "keys" : secret "keys" not found',
            ),
        ],
    )
    def test_a_driver_that_waits_says_for_what(
        self, cluster: KubernetesCluster, name: str, fields: dict[str, Any], told: str
    ) -> None:
        mistaken = other(cluster, **fields)
        submit(mistaken, stream(name))
        wait_for("it to say so", lambda: told in newest(mistaken, name).where)
        assert newest(mistaken, name).state is DriverState.STARTING
        # Gracefully, and yet at once: there is nothing to finish.
        stopped = stop(mistaken, name, graceful=True, timeout=10 * HANGS)
        assert (stopped.state, stopped.ending) == (DriverState.STOPPED, None)

    def test_a_driver_that_may_not_look_after_pods_names_the_role(
        self, cluster: KubernetesCluster
    ) -> None:
        mistaken = other(cluster, service_account="default")
        with contextlib.suppress(ClusterError):  # if it has ended already
            submit(mistaken, stream("roleless"))
        wait_for("its end", lambda: newest(mistaken, "roleless").state is DriverState.FAILED)
        told = str(newest(mistaken, "roleless").exit_reason)
        assert re.match(r"exit code 1: it can't be .* 403: configmaps is forbidden: User ", told), (
            told
        )
        assert told.count("the role in deploy/kubernetes/driver.yaml has all that") == 1

    def test_a_driver_beyond_the_quota_is_refused_before_and_at_its_start(
        self, kubernetes: Cluster, cluster: KubernetesCluster, space: str
    ) -> None:
        with quota(kubernetes, space, {"requests.cpu": "500m"}):
            with pytest.raises(ClusterError, match=self.REFUSED):
                cluster.check(stream("greedy"))
            with pytest.raises(ClusterError, match=self.REFUSED):
                submit(cluster, stream("greedy"))
        assert "exceeded quota: q" in str(newest(cluster, "greedy").exit_reason)

    def test_templates_make_pods_that_a_restricted_namespace_admits(
        self, kubernetes: Cluster, cluster: KubernetesCluster, space: str
    ) -> None:
        with restricted(kubernetes, space):
            with pytest.raises(ClusterError, match='violates PodSecurity "restricted:latest"'):
                cluster.check(stream("safe"))
            other(cluster, driver_template=RESTRICTED).check(stream("safe"))

    def test_what_was_not_granted_is_told(self, kubernetes: Cluster) -> None:
        with namespace(kubernetes, "denied") as space:
            denied = KubernetesCluster(image="spark", kubeconfig=str(kubeconfig(kubernetes, space)))
            with pytest.raises(ClusterError, match=r"configmaps.*dagster\.yaml"):
                denied.find("any")


class TestOutlived:
    def test_neither_a_quota_nor_an_outage_of_the_api_server_ends_a_driver(
        self, kubernetes: Cluster, cluster: KubernetesCluster, space: str
    ) -> None:
        see_to(cluster, stream("tough"))
        driver = newest(cluster, "tough")
        with quota(kubernetes, space, {"pods": "2"}):
            assert scale(cluster, "tough", 2).requested == 2
            # What runs of it counts in the quota, and would make way.
            cluster.check(stream("tough"))
            with pytest.raises(ClusterError, match="exceeded quota"):
                cluster.check(stream("tough", driver_memory="1g"))
            # More than the four that end a driver by Spark's own limit.
            wait_for("refusals", lambda: cluster.logs(driver, 10_000).count("exceeded quota") > 9)
        wait_running(cluster, "tough", executors=2)

        scale(cluster, "tough", 3)
        with kubernetes.without_api_server(HANGS):
            assert newest_or_error(cluster, "tough") is DriverState.UNKNOWN
        wait_running(cluster, "tough", executors=3)
        assert newest(cluster, "tough").epoch == driver.epoch
        see_ended(cluster, "tough")


def newest_or_error(cluster: KubernetesCluster, name: str) -> DriverState | None:
    try:
        return newest(cluster, name).state
    except ClusterError:
        return DriverState.UNKNOWN


class TestFrozen:
    def test_a_submitter_that_wakes_up_late_starts_no_second_driver(
        self, kubernetes: Cluster, cluster: KubernetesCluster, space: str
    ) -> None:
        wakes_up_late(kubernetes, cluster, space, "pods")
