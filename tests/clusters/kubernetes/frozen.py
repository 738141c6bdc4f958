"""A submitter that freezes half-way, and wakes up when another has taken its place."""

import signal

from dagster_sparkscale import KubernetesCluster
from dagster_sparkscale.clusters.kubernetes import names
from dev.kubernetes.running import Cluster
from tests.clusters.running import (
    in_another_process,
    newest,
    see_ended,
    status,
    stream,
    submit,
)
from tests.kubernetes import events, phase
from tests.waiting import HANGS, wait_for


def wakes_up_late(kubernetes: Cluster, cluster: KubernetesCluster, space: str, kind: str) -> None:
    """Have it freeze just before it makes its object of that kind, and see that no second driver
    comes of it."""
    name = f"frozen_{kind}"
    declared = stream(name)
    code = (
        "import os, signal\n"
        "from dagster_sparkscale.clusters.kubernetes.api import Api\n"
        "from tests.clusters.running import stream, submit\n"
        "create = Api.create\n"
        "def freezing(self, kind, *rest, **more):\n"
        f"    if kind == {kind!r} and rest[0]['metadata']['name'].count('.') == 0:\n"
        "        print('about to', flush=True)\n"
        "        os.kill(os.getpid(), signal.SIGSTOP)\n"
        "    return create(self, kind, *rest, **more)\n"
        "Api.create = freezing\n"
        "try:\n"
        f"    submit(cluster, stream({name!r}))\n"
        "    print('submitted', flush=True)\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error, flush=True)\n"
    )
    submitter = in_another_process(cluster, code)
    assert submitter.stdout is not None
    assert submitter.stdout.readline() == "about to\n"
    assert newest(cluster, name).epoch == 1
    driver = submit(cluster, declared)  # when its lease has expired
    assert driver.epoch == 2
    submitter.send_signal(signal.SIGCONT)
    said = submitter.stdout.read()
    submitter.wait(HANGS)
    assert not said.startswith("submitted"), said
    stale = names.of_epoch(name, 1)
    pods = f"/api/v1/namespaces/{space}/pods"
    wait_for("its pod to be collected", lambda: kubernetes.api.get(f"{pods}/{stale}") is None)
    for epoch, ran in ((1, False), (2, True)):
        told = events(kubernetes.api, space, names.of_epoch(name, epoch))
        assert any(reason == "Started" for reason, _ in told) is ran, told
    wait_for("the second to answer", lambda: status(cluster, name))
    assert newest(cluster, name).epoch == 2
    label = f"labelSelector={names.STREAM}={names.short_name(name)},spark-role=driver"
    drivers = kubernetes.api.items(f"{pods}?{label}")
    assert [phase(each) for each in drivers] == ["Running"]
    see_ended(cluster, name)
