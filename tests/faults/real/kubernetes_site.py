"""A stream on Kubernetes that counts lines, and what a fault does to it and its operations."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_sparkscale import KubernetesCluster, RatioPolicy, StructuredStream
from dagster_sparkscale.clusters.kubernetes import names
from dev.kubernetes.granted import apply, kubeconfig
from dev.kubernetes.operators.standin import Operator
from dev.kubernetes.running import Cluster
from tests.clusters.kubernetes.operated import operated
from tests.driver.state.counted import PROGRAM, Counting
from tests.e2e.deployment import Deployment, deployed, failure
from tests.faults.real.watched import RESTARTED_AT_ONCE, never_two
from tests.kubernetes import Object, namespace, phase
from tests.short_lives import EXECUTORS
from tests.waiting import wait_for


@dataclass
class Site:
    """A stream on Kubernetes, and what is done to it there."""

    kubernetes: Cluster
    space: str
    d: Deployment
    counting: Counting
    failures: list[str] = field(default_factory=list)
    """What runs have said that the sensor had asked for, and that failed."""
    after: ExitStack = field(default_factory=ExitStack)
    """What is put right again in the end."""
    operator: Operator | None = None
    """Who makes the pods of drivers, where it is not Dagster."""

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

    def pods(self) -> list[Object]:
        """All, executors included."""
        return self.kubernetes.api.items(f"{self.path}/pods")

    def deleted_by_force(self, pod: Object) -> None:
        """What whoever collects the pods of lost nodes does."""
        self.kubernetes.api.delete(
            f"{self.path}/pods/{pod['metadata']['name']}", {"gracePeriodSeconds": 0}
        )

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

    def never_two(self) -> AbstractContextManager[None]:
        """See all the while that no two pods of drivers run."""
        return never_two(lambda: len(self.running()))

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
    """A stream that is declared, and whose driver is a pod that Dagster makes."""
    with namespace(kubernetes, name) as space:
        apply(kubernetes, space, "dagster.yaml", "outside.yaml", "driver.yaml")
        path = str(kubeconfig(kubernetes, space))
        cluster = KubernetesCluster(
            image="spark", kubeconfig=path, term_seconds=3, spark_conf=EXECUTORS
        )
        with of(kubernetes, space, cluster, name, folder) as made:
            yield made


@contextmanager
def operated_site(kubernetes: Cluster, name: str, folder: Path) -> Iterator[Site]:
    """The same, with a driver that is made by an operator. That is down when the site is closed, or
    when `Site.operator` is."""
    with (
        operated(kubernetes, name, "kubeflow") as (cluster, space, operator),
        of(kubernetes, space, cluster, name, folder) as made,
    ):
        made.operator = operator
        yield made


@contextmanager
def of(
    kubernetes: Cluster, space: str, cluster: KubernetesCluster, name: str, folder: Path
) -> Iterator[Site]:
    stream = _stream(name, folder)
    with deployed(cluster, stream, folder) as d, ExitStack() as after:
        yield Site(kubernetes, space, d, _lines(folder), after=after)


def _lines(folder: Path) -> Counting:
    counting = Counting(folder)
    counting.checkpoint /= counting.place.name  # the query's name
    return counting


def _stream(name: str, folder: Path) -> StructuredStream:
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
