"""The life of a stream whose driver is a SparkApplication, against the stand-in of the operators
that submits with Spark's own spark-submit (dev/kubernetes/operators)."""

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.kubernetes import drivers, names
from dagster_sparkscale.clusters.kubernetes.manifests import Objects
from dagster_sparkscale.clusters.records.store import Record
from dev.kubernetes.granted import USER, granted
from dev.kubernetes.running import Cluster
from tests.clusters.kubernetes.operated import applications, operated, path_of
from tests.clusters.kubernetes.test_scenario import what, where
from tests.clusters.running import SECRET, newest, scale, stop, stream, submit, wait_running
from tests.waiting import wait_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark]


def test_a_driver_at_a_node_that_does_not_answer_is_not_forgotten_by_apaches(
    kubernetes: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "KILL_SECONDS", 5.0)
    with operated(kubernetes, "silent", "apache") as (cluster, space, _):
        record = Record("ab" * 8, 1, "running", 0.0, "", ())
        objects = cluster._objects("clicks", record)
        app = objects.driver("", ["python3", "in_pod.py"], [], {})
        pod = Objects(
            *(getattr(objects, each) for each in ("stream", "epoch", "record", "placing"))
        )
        made = pod.driver("", ["python3"], [], {})
        for each in (app, made):
            del each["metadata"]["ownerReferences"]
        made["spec"]["nodeName"] = "silent"  # whose kubelet is not there
        pods, path = f"/api/v1/namespaces/{space}/pods", path_of(space, "apache", "clicks", 1)
        kubernetes.api.create(path.rpartition("/")[0], app)
        kubernetes.api.create(pods, made)
        told = {"currentStateSummary": "RunningHealthy", "message": ""}
        told["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        status = {"currentState": told, "stateTransitionHistory": {"0": told}}
        kubernetes.api.patch(f"{path}/status", {"status": status})
        wait_for(
            "it to be looked after", lambda: "finalizers" in kubernetes.api.get(path)["metadata"]
        )
        try:
            with pytest.raises(ClusterError, match="its node does not answer"):
                cluster.driver_of("clicks", record).kill()
            assert kubernetes.api.get(f"{pods}/{objects.name}") is not None
        finally:
            kubernetes.api.delete(f"{pods}/{objects.name}", {"gracePeriodSeconds": 0})


def lives(kubernetes: Cluster, operator: str) -> None:
    with operated(kubernetes, "life", operator) as (cluster, space, stand_in):
        declared = stream("clicks", "rate.py")
        cluster.check(declared)
        submit(cluster, declared)
        wait_running(cluster, "clicks")
        scale(cluster, "clicks", 2)
        wait_running(cluster, "clicks", executors=2)

        path = path_of(space, operator, "clicks", 1)
        made = kubernetes.api.get(path)
        assert made is not None
        pod = kubernetes.pod(space, names.of_epoch("clicks", 1))
        # Made by Spark, of what stands in the application; which tells no secret.
        assert pod["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        assert SECRET not in str(made) + str(pod)
        glanced = cluster.snapshot().find("clicks")
        assert glanced is not None and glanced.state is DriverState.RUNNING

        stopped = stop(cluster, "clicks")
        assert stopped.state is DriverState.STOPPED
        pods = kubernetes.api.items(f"/api/v1/namespaces/{space}/pods")
        left = [each["metadata"]["name"] for each in pods if each["status"]["phase"] == "Running"]
        assert left == [] and stand_in.submissions == 1
        assert newest(cluster, "clicks").exit_reason == "stop requested"
        assert len(applications(kubernetes, space, operator)) == 1  # for its log

        for user in (USER, f"system:serviceaccount:{space}:sparkscale-driver"):
            asked = [each for each in kubernetes.asked(user) if where(each) == space]
            assert [each for each in asked if each["responseStatus"]["code"] == 403] == []
        used = {what(each) for each in kubernetes.asked(USER) if where(each) == space}
        # To end one by force needs more (soak_operated.py); one is asked for while it has no pod.
        unused = {("sparkapplications", "delete"), ("sparkapplications", "get")}
        assert granted("applications.yaml") - used <= unused


def test_a_stream_is_started_rescaled_and_stopped_by_kubeflows(kubernetes: Cluster) -> None:
    lives(kubernetes, "kubeflow")
