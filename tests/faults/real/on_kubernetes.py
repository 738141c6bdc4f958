"""What a real API server, its nodes and its operators do to a stream on Kubernetes.

A stream counts lines while the fault lasts and operations are asked for. What must hold: there are
never two pods of drivers that run; what fails says of what, in the words of Kubernetes; and
once the fault is over the stream runs, is rescaled and stops, and all lines were counted once.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from dagster_sparkscale import KubernetesCluster
from dagster_sparkscale.clusters import spark_cluster
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.lifecycle import reconcile
from dev.kubernetes.operators.standin import Operator
from dev.kubernetes.running import Cluster
from tests.clusters.kubernetes.test_mishaps import quota
from tests.e2e.deployment import failure, told
from tests.faults.real.kubernetes_site import Site, operated_site, site
from tests.faults.real.processes import standing_still
from tests.faults.real.watched import Record, lasts, recovers
from tests.faults.real.webhook import Webhook
from tests.kubernetes import Object
from tests.waiting import wait_for

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_BINDINGS = ("sparkscale-dagster", "sparkscale-dagster-outside", "sparkscale-driver")
_FORGOTTEN = "nothing is remembered of it any more, though its driver 1 was seen before"
_UNHEEDED = "no operator has taken its SparkApplication up"
LASTS = 30.0
"""Seconds for which a fault is looked at: longer than a lease."""


def play(kubernetes: Cluster, name: str, folder: Path, record: Record) -> None:
    with (
        pytest.MonkeyPatch.context() as patch,
        _SITES.get(name, site)(kubernetes, name, folder) as s,
    ):
        # A start that nothing is heard of is not waited for as on a busy machine.
        patch.setattr(reconcile, "START_WAIT", 30.0)
        patch.setattr(spark_cluster, "ANNOUNCE_SECONDS", 30.0)
        told(s.d.materialize())
        with s.never_two():
            s.counts()
            seen = PLAYS[name](s)
            s.counting.feed()
            recovers(record, "all lines to be counted", lambda: s.ticked() and s.counting.right)
            wait_for("its agent to answer", lambda: s.ticked() and s.d.status() is not None)
            assert len(s.running()) == 1
            story = told(s.d.run("rescale", target=2))
            assert story["ending"] == "reached", story
            s.counts()
            assert told(s.d.run("stop", reason="a fault is played"))["state"] == "stopped"
            assert s.d.driver().state is DriverState.STOPPED and s.running() == []
            assert s.counting.right
            newest = s.d.driver().epoch
            in_the_end = "the same driver went on" if newest == 1 else f"driver {newest} then ran"
            record("seen", f"{seen}; {in_the_end}")


def _rights(s: Site) -> str:
    """Taken from Dagster and from the driver: while it runs, and in the middle of a restart."""
    bindings = f"{_RBAC}/namespaces/{s.space}/rolebindings"
    assert isinstance(s.d.cluster, KubernetesCluster)
    api = s.d.cluster._api()
    with s.without(bindings, *_BINDINGS):
        wait_for("the rights to be gone", lambda: not api.may("get", "configmaps"))
        for job, config in (("rescale", {"target": 2}), ("restart", {}), ("stop", {})):
            s.fails("is forbidden: User", job, reason="a fault is played", **config)
        lasts(LASTS, s.is_left_alone)
        s.counts()
    wait_for("the rights to be back", lambda: api.may("get", "configmaps"))
    restart = s.begun("restart", reason="a fault is played")
    wait_for("the driver to have ended", lambda: not s.running(), every=0.05)
    with s.without(bindings, *_BINDINGS):
        result = restart.result()
        assert not result.success, "the rights were taken too late"
        assert "is forbidden: User" in (text := failure(result)), text
        lasts(LASTS, s.is_left_alone)
    return "operations failed, and said what is forbidden to whom"


def _quota(s: Site) -> str:
    """No room for another pod: a rescale, and the restart of a driver that dies."""
    with quota(s.kubernetes, s.space, {"pods": "0"}):
        story = told(s.d.run("rescale", target=2, wait_seconds=LASTS))
        assert story["ending"] == "short", story
        s.counts()
        assert "exceeded quota" in s.d.cluster.logs(s.d.driver(), 10_000)
        s.kubernetes.kill(s.pod())
        wait_for(
            "a start to be refused",
            lambda: s.ticked() and any("exceeded quota" in each for each in s.failures),
        )
        assert all("exceeded quota" in each for each in s.failures), s.failures
        assert s.running() == []
    return (
        "the rescale ended as short, and the log of the driver said why; starts failed, and said: "
        "exceeded quota"
    )


def _lease(s: Site) -> str:
    """Struck out of the record by hand, in the middle of a restart."""
    restart = s.begun("restart", reason="a fault is played")
    wait_for("the middle of it", lambda: s.remembered().get("desired") == "restarting", every=0.02)
    content = {**s.remembered(), "lease": None}
    s.kubernetes.api.patch(s.record, {"data": {"content": json.dumps(content)}})
    told(s.d.materialize())
    result = restart.result()
    assert not result.success, "it was struck out too late"
    assert "has lost its lease" in (text := failure(result)), text
    return "the restart failed, and said that it has lost its lease"


def _record(s: Site) -> str:
    """Deleted by hand: while the stream runs, and put back; and in the middle of a restart."""
    assert s.is_left_alone()  # and has been seen to run
    kept = s.kubernetes.api.get(s.record)
    assert kept is not None
    s.kubernetes.api.delete(s.record)
    text = failure(s.d.materialize())
    assert "was its ConfigMap" in text and "Delete that pod first" in text, text
    lasts(LASTS, lambda: s.is_left_alone() and _FORGOTTEN in str(s.d.tick()))
    s.counts()
    _put(s, kept)
    story = told(s.d.run("rescale", target=2))
    assert story["ending"] == "reached", story
    restart = s.begun("restart", reason="a fault is played")
    wait_for("the middle of it", lambda: s.remembered().get("desired") == "restarting", every=0.02)
    s.kubernetes.api.delete(s.record)
    result = restart.result()
    assert not result.success, "it was deleted too late"
    assert "has lost its lease" in (text := failure(result)), text
    wait_for("a start, as the refusals say", lambda: _started_as_told(s), 300, every=1)
    return "ticks and operations said what is missing, refusals what to delete"


def _put(s: Site, kept: Object) -> None:
    """What a person does who has a copy."""
    metadata = {key: kept["metadata"][key] for key in ("name", "labels", "annotations")}
    s.kubernetes.api.delete(s.record)
    s.kubernetes.api.create(f"{s.path}/configmaps", {**kept, "metadata": metadata})


def _started_as_told(s: Site) -> bool:
    """Start the stream, and do what the text says where that is refused."""
    result = s.d.materialize()
    if result.success:
        return True
    text = failure(result)
    if "Delete that pod first" in text:
        for name in s.running():
            s.kubernetes.api.delete(f"{s.path}/pods/{name}")
    else:
        assert "kubectl delete secret" in text, text
        [secret] = re.findall(r"kubectl delete secret -n \S+ ([\w-]+)", text)
        s.kubernetes.api.delete(f"{s.path}/secrets/{secret}")
    return False


def _node(s: Site) -> str:
    """The node of the driver dies, is told to be silent, and is deleted with its pods."""
    pod = s.pod()
    node = pod["spec"]["nodeName"]
    path = f"/api/v1/nodes/{node}"
    known = s.kubernetes.api.get(path)
    assert known is not None
    s.after.enter_context(s.kubernetes.silent_node(pod))
    with standing_still([psutil.Process(s.kubernetes.process)]):  # nobody tells of its pods
        on_it = [each for each in s.pods() if each["spec"].get("nodeName") == node]
        for each in on_it:
            s.kubernetes.kill(each)
        wait_for("it to be unknown", lambda: s.d.driver().state is DriverState.UNKNOWN)
        lasts(LASTS, s.is_left_alone)
        s.fails("does not answer", "restart", reason="a fault is played")
        assert [each.epoch for each in s.d.cluster.history(s.name)] == [1]
        s.kubernetes.api.delete(path)
        s.after.callback(_make_node, s, known)
        for each in on_it:
            s.deleted_by_force(each)
    return f"a restart was refused, as {node} did not answer"


def _make_node(s: Site, known: Object) -> None:
    """Have a node again that was deleted, as its kubelet makes it."""
    name = known["metadata"]["name"]
    metadata = {"name": name, "labels": known["metadata"]["labels"]}
    s.kubernetes.api.create("/api/v1/nodes", {"metadata": metadata})
    s.kubernetes.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": []}})
    s.kubernetes.api.patch(f"/api/v1/nodes/{name}/status", {"status": known["status"]})


def _webhook(s: Site) -> str:
    """One that admits pods takes 8 s; then longer than Dagster waits, and than the API server."""
    with Webhook(s.kubernetes, s.space) as webhook:
        webhook.takes(8, limit=30)
        told(s.d.run("restart", reason="a fault is played"))
        s.counts()
        webhook.takes(20, limit=30)
        s.fails("gave no answer", "restart", reason="a fault is played")  # it is tried before
        s.counts()
        s.kubernetes.kill(s.pod())
        wait_for("a start that fails", lambda: s.ticked() and s.failures, every=1)
        assert "gave no answer" in s.failures[-1], s.failures
        # Made when that had given up, which the webhook has heard of: it does not run.
        lasts(LASTS, lambda: s.ticked() and not s.running())
        webhook.takes(20, limit=3)
        wait_for("the cause", lambda: s.ticked() and "webhook" in s.failures[-1], every=1)
        assert not s.running()
    return "one of 8 s: a restart was done; of 20 s: the start failed, and said so"


def _operator(s: Site) -> str:
    """Is down while the stream is restarted, and comes back."""
    assert s.operator is not None
    s.operator.close()
    told(s.d.run("rescale", target=2))
    s.counts()
    told(s.d.run("restart", reason="a fault is played"))
    assert s.running() == [] and s.d.driver().state is DriverState.STARTING
    wait_for("the cause", lambda: s.is_left_alone() and _UNHEEDED in str(s.d.driver().where))
    lasts(LASTS, s.is_left_alone)
    s.operator = Operator(s.kubernetes, s.space)
    s.operator.start()
    s.after.callback(s.operator.close)
    return f"a rescale was done; of a restart was said: {_UNHEEDED}"


PLAYS: dict[str, Callable[[Site], str]] = {
    "kubernetes-rights": _rights,
    "kubernetes-quota": _quota,
    "kubernetes-lease-deleted": _lease,
    "kubernetes-record-deleted": _record,
    "kubernetes-node-gone": _node,
    "kubernetes-slow-webhook": _webhook,
    "kubernetes-operator-silent": _operator,
}
"""Each has a fault happen, and be over, and returns what was seen."""
_SITES = {"kubernetes-operator-silent": operated_site}
