"""Pods of a node that is lost, on a real API server: it keeps them, as nobody says they ended."""

import logging
import time

import pytest

from dagster_sparkscale import KubernetesCluster
from dagster_sparkscale.clusters import spark_cluster
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.kubernetes import names, pod_fate
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.records.owners import Anothers
from dagster_sparkscale.lifecycle.reconcile import Start, reconcile
from dev.kubernetes.running import Cluster
from tests.clusters.kubernetes.test_mishaps import other
from tests.clusters.running import newest, see_ended, stop, stream, submit, wait_running
from tests.kubernetes import create, pod
from tests.waiting import wait_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark]
NOWHERE = {"spec": {"nodeName": "lost"}}


@pytest.fixture(autouse=True)
def overdue_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_fate, "OVERDUE", 1.0)


def hangs(kubernetes: Cluster, space: str, cluster: KubernetesCluster, name: str) -> str:
    """An executor of the stream's newest driver, deleted, on a node that is lost. Its path."""
    record = cluster.store().read(name)
    assert record is not None
    labels = {**names.labels(name, record.epoch, record.id), "spark-role": "executor"}
    made = pod(f"hung-{name}", "sleep", "1")
    made["spec"]["nodeName"] = "lost"
    made["metadata"]["labels"] = labels
    create(kubernetes.api, space, "pods", made)
    return terminating(kubernetes, space, f"hung-{name}")


def terminating(kubernetes: Cluster, space: str, name: str) -> str:
    path = f"/api/v1/namespaces/{space}/pods/{name}"
    kubernetes.api.delete(path, {"gracePeriodSeconds": 1})
    wait_for(
        "it to be overdue", lambda: pod_fate.silence_of(kubernetes.pod(space, name), time.time())
    )
    return path


def test_a_driver_that_was_declared_gone_bars_neither_the_next_start_nor_the_one_after(
    kubernetes: Cluster, cluster: KubernetesCluster, space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as soon:
        soon.setattr(spark_cluster, "ANNOUNCE_SECONDS", 0.5)
        submit(other(cluster, driver_template=NOWHERE), stream("ghost"))
    executor = hangs(kubernetes, space, cluster, "ghost")
    driver = terminating(kubernetes, space, names.of_epoch("ghost", 1))
    gone = newest(cluster, "ghost")
    assert gone.state is DriverState.UNKNOWN
    with cluster.lease("ghost", "declare_gone") as lease:
        cluster.declare_gone(gone, lease, "test")
    assert submit(cluster, stream("ghost")).epoch == 2
    assert kubernetes.api.get(executor) is None and kubernetes.api.get(driver) is None
    wait_for("it to run", lambda: newest(cluster, "ghost").state is DriverState.RUNNING)
    kubernetes.kill(kubernetes.pod(space, names.of_epoch("ghost", 2)))
    wait_for("its end", lambda: newest(cluster, "ghost").state is DriverState.FAILED)
    assert submit(cluster, stream("ghost"), "recovery").epoch == 3
    see_ended(cluster, "ghost")


def test_a_restart_goes_through_beside_an_executor_that_hangs_and_another_location_is_refused(
    kubernetes: Cluster,
    cluster: KubernetesCluster,
    space: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    create(kubernetes.api, space, "serviceaccounts", {"metadata": {"name": "executors"}})
    secret = {"metadata": {"name": "ours"}, "stringData": {"DB_PASSWORD": "x"}}
    create(kubernetes.api, space, "secrets", secret)
    refers = {"name": "any", "envFrom": [{"secretRef": {"name": "ours"}}]}
    cluster = other(
        cluster,
        executor_service_account="executors",
        executor_template={"spec": {"containers": [refers]}},
    )
    web = Requester("test", owner="web/spark_cluster")
    reconcile(cluster, stream("hung"), web, Start(start_wait=0.0))
    wait_running(cluster, "hung")
    found = f"{names.STREAM}=hung,spark-role=executor"
    (executor,) = kubernetes.api.items(f"/api/v1/namespaces/{space}/pods?labelSelector={found}")
    assert executor["spec"]["serviceAccountName"] == "executors"
    assert executor["spec"]["containers"][0]["envFrom"] == refers["envFrom"]

    path = hangs(kubernetes, space, cluster, "hung")
    caplog.set_level(logging.WARNING)
    cluster.check(stream("hung"))
    assert "hung-hung. When you are certain that the nodes are dead, run kubectl" in caplog.text
    (told,) = [each for each in cluster.conditions([]) if each.subject == "executors"]
    assert told.text.endswith("hung-hung")

    theirs = stream("hung", "rate.py")
    for restart in (False, True):
        with pytest.raises(Anothers, match="is a stream of code location 'web'"):
            batch = Requester("test", owner="batch/spark_cluster")
            reconcile(cluster, theirs, batch, Start(restart=restart))

    assert stop(cluster, "hung", to_restart=True).state is DriverState.FAILED
    assert submit(cluster, stream("hung")).epoch == 2
    assert kubernetes.api.get(path) is not None
    see_ended(cluster, "hung")
    kubernetes.api.delete(path, {"gracePeriodSeconds": 0})
