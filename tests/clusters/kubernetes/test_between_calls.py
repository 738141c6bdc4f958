"""What happens between two calls to a real API server, and what its answers leave open."""

from dataclasses import replace

import pytest

from dagster_sparkscale import KubernetesCluster
from dagster_sparkscale.clusters import spark_cluster
from dagster_sparkscale.clusters.errors import AlreadyRunning, ClusterError
from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.clusters.kubernetes.drivers import PodDriver
from dev.kubernetes.running import Cluster
from tests.clusters.running import newest, stream, submit
from tests.kubernetes import create, phase, pod, see

pytestmark = pytest.mark.kubernetes

HEEDLESS = "import signal, time\nsignal.signal(15, lambda *_: None)\nwhile True: time.sleep(1)"
"""A program that SIGTERM does not end."""


def test_a_pod_that_is_made_between_two_looks_is_not_passed_over(
    kubernetes: Cluster, cluster: KubernetesCluster, space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who was held up wakes up when the next start has just found no pod of his."""
    name = "between"
    with cluster.lease(name, "held up") as lease:
        lease.write(replace(lease.record, epoch=1, desired="running"))
    look = PodDriver.refuse_if_alive

    def look_before_he_wakes_up(driver: PodDriver) -> None:
        look(driver)
        late = pod(names.of_epoch(name, 1), "sleep", "600")
        create(kubernetes.api, space, "pods", late)

    monkeypatch.setattr(spark_cluster, "ANNOUNCE_SECONDS", 1.0)
    monkeypatch.setattr(PodDriver, "refuse_if_alive", look_before_he_wakes_up)
    with pytest.raises(AlreadyRunning, match="was made just now"):
        submit(cluster, stream(name))
    assert newest(cluster, name).epoch == 1


def test_pods_deleted_together_get_the_time_that_is_said(
    kubernetes: Cluster, cluster: KubernetesCluster, space: str
) -> None:
    made = pod("heedless", "python3", "-c", HEEDLESS, labels={"of": "one"})
    create(kubernetes.api, space, "pods", made)
    see(kubernetes.api, space, "heedless", "runs", lambda found: phase(found) == "Running")
    cluster._api().delete_all("pods", grace=3, labelSelector="of=one")
    found = kubernetes.pod(space, "heedless")
    assert found["metadata"]["deletionGracePeriodSeconds"] == 3


def test_what_a_template_has_that_pods_have_not_is_told(cluster: KubernetesCluster) -> None:
    mistaken = cluster.model_copy(update={"driver_template": {"spec": {"nodeSelektor": {}}}})
    with pytest.raises(ClusterError, match=r"unknown field .spec\.nodeSelektor"):
        mistaken.check(stream("typo"))
    with pytest.raises(ClusterError, match=r"unknown field .spec\.nodeSelektor"):
        submit(mistaken, stream("typo"))
