"""What a real API server, its nodes and its operators do to a stream on Kubernetes.

A stream counts lines while the fault lasts and operations are asked for. What must hold: there are
never two pods of drivers that run; what fails says of what, in the words of Kubernetes; and
once the fault is over the stream runs, is rescaled and stops, and all lines were counted once.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_sparkscale import KubernetesCluster, RatioPolicy, StructuredStream
from dagster_sparkscale.clusters import spark_cluster
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.lifecycle import reconcile
from dev.kubernetes.granted import apply, kubeconfig
from dev.kubernetes.running import Cluster
from tests.clusters.kubernetes.test_mishaps import quota
from tests.driver.state.counted import PROGRAM, Counting
from tests.e2e.deployment import Deployment, deployed, failure, told
from tests.faults.real.watched import RESTARTED_AT_ONCE, Record, lasts, recovers
from tests.kubernetes import Object, namespace, phase
from tests.short_lives import EXECUTORS
from tests.waiting import wait_for

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_BINDINGS = ("sparkscale-dagster", "sparkscale-dagster-outside", "sparkscale-driver")
_GOES_ON = "the same driver went on"
LASTS = 30.0
"""Seconds for which a fault is looked at: longer than a lease."""


@dataclass
class Site:
    """A stream on Kubernetes, and what is done to it there."""

    kubernetes: Cluster
    space: str
    d: Deployment
    counting: Counting
    failures: list[str] = field(default_factory=list)
    """What runs have said that the sensor had asked for, and that failed."""

    @property
    def name(self) -> str:
        return self.d.stream.name

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.space}"

    @property
    def record(self) -> str:
        """The path of what is remembered of the stream."""
        return f"{self.path}/configmaps/{names.of_record(self.name)}"

    def remembered(self) -> dict[str, Any]:
        found = self.kubernetes.api.get(self.record)
        content: dict[str, Any] = json.loads(found["data"]["content"]) if found else {}
        return content

    def driver_pods(self) -> list[Object]:
        label = f"labelSelector={names.STREAM}={names.short_name(self.name)},spark-role=driver"
        return self.kubernetes.api.items(f"{self.path}/pods?{label}")

    def running(self) -> list[str]:
        """The pods of drivers that run."""
        return [p["metadata"]["name"] for p in self.driver_pods() if phase(p) == "Running"]

    def pod(self) -> Object:
        """Of the driver that runs."""
        [name] = self.running()
        return self.kubernetes.pod(self.space, name)

    def ticked(self) -> bool:
        """Evaluate the stream, and carry out what that asks for."""
        for request in self.d.tick().run_requests or []:
            result = self.d.requested(request)
            if not result.success:
                self.failures.append(failure(result))
        return True

    def is_left_alone(self) -> bool:
        """Evaluate the stream, and see that nothing is asked for."""
        return not self.d.tick().run_requests

    def counts(self) -> None:
        """New lines are counted."""
        self.counting.feed()
        wait_for("all lines to be counted", lambda: self.counting.right, 120)

    def fails(self, why: str, job: str, **config: Any) -> str:
        """Have an operation fail that says why."""
        text = failure(self.d.run(job, **config))
        assert why in text, text
        return text

    def begun(self, job: str, **config: Any) -> "Asked":
        return Asked(lambda: self.d.run(job, **config))

    @contextmanager
    def never_two(self) -> Iterator[None]:
        """See all the while that no two pods of drivers run."""
        over, found = threading.Event(), list[list[str]]()

        def look() -> None:
            while not over.wait(0.3):
                if len(running := self.running()) > 1:
                    found.append(running)

        looking = threading.Thread(target=look)
        looking.start()
        try:
            yield
        finally:
            over.set()
            looking.join()
        assert not found, found[0]

    @contextmanager
    def without(self, place: str, *gone: str) -> Iterator[None]:
        """Objects are deleted, and made again as they were."""
        objects = [self.kubernetes.api.get(f"{place}/{each}") for each in gone]
        for each in gone:
            self.kubernetes.api.delete(f"{place}/{each}")
        try:
            yield
        finally:
            for found in objects:
                assert found is not None
                kept = {
                    key: value
                    for key, value in found["metadata"].items()
                    if key in ("name", "labels", "annotations")
                }
                self.kubernetes.api.create(place, {**found, "metadata": kept})


class Asked:
    """An operation that is being carried out."""

    def __init__(self, carry_out: Callable[[], dg.ExecuteInProcessResult]) -> None:
        self._results: list[dg.ExecuteInProcessResult] = []
        self._thread = threading.Thread(target=lambda: self._results.append(carry_out()))
        self._thread.start()

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> dg.ExecuteInProcessResult:
        wait_for("an operation to end", lambda: self.over, 300)
        [result] = self._results
        return result


@contextmanager
def site(kubernetes: Cluster, name: str, folder: Path) -> Iterator[Site]:
    """A stream that runs, and has counted lines."""
    with namespace(kubernetes, name) as space:
        apply(kubernetes, space, "dagster.yaml", "outside.yaml", "driver.yaml")
        path = str(kubeconfig(kubernetes, space))
        cluster = KubernetesCluster(
            image="spark", kubeconfig=path, term_seconds=3, spark_conf=EXECUTORS
        )
        with deployed(cluster, _counting(name, folder), folder) as d:
            yield Site(kubernetes, space, d, _lines(folder))


def _lines(folder: Path) -> Counting:
    counting = Counting(folder)
    counting.checkpoint /= counting.place.name  # the query's name
    return counting


def _counting(name: str, folder: Path) -> StructuredStream:
    return StructuredStream(
        name=name.replace("-", "_"),
        program=str(PROGRAM),
        arguments=(str(folder),),
        batch_interval="1s",
        executor_memory="512m",
        driver_memory="512m",
        checkpoint_location=str(_lines(folder).checkpoint.parent),
        autoscale=RatioPolicy(interval=10, min_executors=1, max_executors=3),
        recovery=RESTARTED_AT_ONCE,
        spark_conf={"spark.sql.shuffle.partitions": "4"},
    )


def play(kubernetes: Cluster, name: str, folder: Path, record: Record) -> None:
    with pytest.MonkeyPatch.context() as patch, site(kubernetes, name, folder) as s:
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
            times = s.d.driver().epoch - 1
            record("seen", f"{seen}; {f'started again {times} times' if times else _GOES_ON}")


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
        print(story)
        s.counts()
        s.kubernetes.kill(s.pod())
        wait_for(
            "a start to be refused",
            lambda: s.ticked() and any("exceeded quota" in each for each in s.failures),
        )
        assert all("exceeded quota" in each for each in s.failures), s.failures
        assert s.running() == []
    return "a restart failed, and said: exceeded quota"


def _lease(s: Site) -> str:
    """Struck out of the record by hand, in the middle of a restart."""
    restart = s.begun("restart", reason="a fault is played")
    wait_for("the middle of it", lambda: s.remembered().get("desired") == "restarting", every=0.02)
    content = {**s.remembered(), "lease": None}
    s.kubernetes.api.patch(s.record, {"data": {"content": json.dumps(content)}})
    started = told(s.d.materialize())
    result = restart.result()
    assert not result.success, "it was struck out too late"
    assert "has lost its lease" in (text := failure(result)), text
    print(started)
    return "the restart failed, and said that it has lost its lease"


PLAYS: dict[str, Callable[[Site], str]] = {
    "kubernetes-rights": _rights,
    "kubernetes-quota": _quota,
    "kubernetes-lease-deleted": _lease,
}
"""Each has a fault happen, and be over, and returns what was seen."""
