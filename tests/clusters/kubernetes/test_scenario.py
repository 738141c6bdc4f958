"""The life of a stream on Kubernetes, by tracked runs of a real Dagster that may do what the
manifests in deploy/ grant; also on a cluster that is given (tests/given_kubernetes.py)."""

import os
import signal
from pathlib import Path

import dagster as dg
import pytest

from dagster_sparkscale import KubernetesCluster
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.kubernetes import names
from dev.dagster_ui import AT_ONCE
from dev.kubernetes.granted import USER, apply, granted, kubeconfig
from dev.kubernetes.running import Cluster, Reached
from dev.kubernetes.telling import path_of
from tests.clusters.running import newest, status, wait_running
from tests.e2e.test_restart import Dagster, processes
from tests.given_kubernetes import image_of, space_for
from tests.kubernetes import Object
from tests.waiting import wait_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark]
MANIFESTS = ("dagster.yaml", "outside.yaml", "driver.yaml")
LOCATION = "tests.clusters.kubernetes.location"


def test_started_scaled_killed_found_again_and_stopped_with_nothing_left(
    any_kubernetes: Reached, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubernetes = any_kubernetes
    ours = kubernetes if isinstance(kubernetes, Cluster) else None
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "dagster.yaml").write_text(AT_ONCE)
    with (
        space_for(kubernetes, "scenario") as space,
        processes(tmp_path) as children,
        dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance,
    ):
        apply(kubernetes, space, *MANIFESTS, *(("capacity.yaml",) if ours else ()))
        path = str(kubeconfig(kubernetes, space))
        monkeypatch.setenv("SPARKSCALE_TEST_FOLDER", str(tmp_path))
        monkeypatch.setenv("SPARKSCALE_SCENARIO_KUBECONFIG", path)
        monkeypatch.setenv("SPARKSCALE_SCENARIO_IMAGE", image_of(kubernetes))
        cluster = KubernetesCluster(image=image_of(kubernetes), kubeconfig=path)

        dagster = Dagster(children, tmp_path, instance, LOCATION)
        dagster.succeed(dagster.materialize())
        wait_for("a batch", lambda: (s := status(cluster, "survivor")) and s.batches)
        for target in (3, 1):
            dagster.succeed(dagster.launch("rescale", target=target, wait_seconds=120.0))
            wait_running(cluster, "survivor", executors=target)

        # Another Dagster, with nothing of the first one's but its storage, finds it.
        first = newest(cluster, "survivor")
        os.killpg(dagster.group, signal.SIGKILL)
        wait_for("the end of Dagster", lambda: children.ended() is not None)
        children.end("webserver")
        dagster = Dagster(children, tmp_path, instance, LOCATION)
        attach = dagster.materialize()
        dagster.succeed(attach)
        assert dagster.said(attach, "runs already")
        assert newest(cluster, "survivor").epoch == first.epoch

        pod = kubernetes.pod(space, names.of_epoch("survivor", first.epoch))
        if ours:
            ours.kill(pod)
        else:  # nobody kills a process of a pod from outside of it
            kubernetes.api.delete(path_of(pod), {"gracePeriodSeconds": 0})
        wait_for("it to have failed", lambda: not newest(cluster, "survivor").state.alive)
        how = "killed by signal 9" if ours else "its pod was deleted"
        assert how in str(newest(cluster, "survivor").exit_reason)
        dagster.succeed(dagster.materialize())
        again = newest(cluster, "survivor")
        assert again.epoch == first.epoch + 1
        wait_running(cluster, "survivor", executors=1)

        list(cluster.conditions([]))  # as `sparkscale doctor` does
        dagster.succeed(dagster.launch("stop"))
        assert newest(cluster, "survivor").state is DriverState.STOPPED
        of_streams = f"labelSelector={names.STREAM}"
        assert running(kubernetes, space) == []
        wait_for(
            "the first start's objects to be collected",
            lambda: (
                [
                    each["metadata"]["name"]
                    for kind in ("services", "secrets")
                    for each in kubernetes.api.items(
                        f"/api/v1/namespaces/{space}/{kind}?{of_streams}"
                    )
                    if each["metadata"]["labels"].get(names.EPOCH) == str(first.epoch)
                ]
                == []
            ),
        )
        if ours:  # others' audit logs are not read
            see_that_what_is_granted_is_what_is_needed(ours, space)


def see_that_what_is_granted_is_what_is_needed(kubernetes: Cluster, space: str) -> None:
    for user in (USER, f"system:serviceaccount:{space}:sparkscale-driver"):
        asked = [each for each in kubernetes.asked(user) if where(each) == space]
        assert [each for each in asked if each["responseStatus"]["code"] == 403] == []
    used = {what(each) for each in kubernetes.asked(USER) if where(each) == space}
    # To end one by force needs more (tests/clusters/kubernetes/test_contract.py); people read
    # logs; newer servers want `create` for a forwarded port.
    unused = {("pods", "delete"), ("pods", "deletecollection"), ("secrets", "patch")}
    unused |= {("pods/log", "get"), ("pods/portforward", "create")}
    assert granted("dagster.yaml", "outside.yaml") - used <= unused


def where(asked: Object) -> str | None:
    return asked.get("objectRef", {}).get("namespace")


def what(asked: Object) -> tuple[str, str]:
    about = asked["objectRef"]
    part = f"/{about['subresource']}" if "subresource" in about else ""
    return about["resource"] + part, asked["verb"]


def running(kubernetes: Reached, space: str) -> list[str]:
    """Pods of which something may run."""
    pods = kubernetes.api.items(f"/api/v1/namespaces/{space}/pods")
    over = ("Succeeded", "Failed")
    return [each["metadata"]["name"] for each in pods if each["status"]["phase"] not in over]
