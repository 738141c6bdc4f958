"""Kubernetes as a cluster manager: drivers and executors as pods of one namespace.

Everything goes by Kubernetes' API: no Java is needed where Dagster runs, and no folder is shared.
"""

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator

from dagster_sparkscale.clusters.agents import credentials
from dagster_sparkscale.clusters.agents.agent import RemoteAgent
from dagster_sparkscale.clusters.base import Driver, is_text
from dagster_sparkscale.clusters.capacity import Capacity
from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host.conditions import programs
from dagster_sparkscale.clusters.kubernetes import checkpoints, names, room, spark
from dagster_sparkscale.clusters.kubernetes.api import Api, Refused, api
from dagster_sparkscale.clusters.kubernetes.conditions import conditions
from dagster_sparkscale.clusters.kubernetes.drivers import PodDriver
from dagster_sparkscale.clusters.kubernetes.launch import STRICT, Parts, launch
from dagster_sparkscale.clusters.kubernetes.manifests import (
    BEGIN,
    BEGUN,
    CERTIFICATE,
    CODE,
    KEY,
    LAST_WORDS,
    METRICS_TOKEN,
    PROPERTIES,
    SECRETS,
    TEMPLATE,
    TOKEN,
    Objects,
    asks_for_no_more,
    memory_mib,
)
from dagster_sparkscale.clusters.kubernetes.pod_fate import fate_of
from dagster_sparkscale.clusters.kubernetes.programs import Program, program_of
from dagster_sparkscale.clusters.kubernetes.schemas import fault_of_pod
from dagster_sparkscale.clusters.kubernetes.snapshot import Snapshot, take_snapshot
from dagster_sparkscale.clusters.kubernetes.store import MapStore
from dagster_sparkscale.clusters.kubernetes.templates import Placing
from dagster_sparkscale.clusters.launch.driver_options import Invocation, driver_options
from dagster_sparkscale.clusters.launch.driver_zip import parcel
from dagster_sparkscale.clusters.launch.spark_settings import properties
from dagster_sparkscale.clusters.records import leases
from dagster_sparkscale.clusters.records.leases import Lease
from dagster_sparkscale.clusters.records.overtaking import Holder
from dagster_sparkscale.clusters.records.starts import EpochStart
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.spark_cluster import SparkCluster
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.driver.metrics.token import read_token

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_AGENT_SECONDS = 60.0
"""Seconds for which the way to a driver's agent is kept, before Kubernetes is asked anew."""
_LEASE_EVERY = 2.0
"""Seconds between two looks at a lease that another holds."""
_KNOWN = {
    "agent_access": ("service", "port-forward"),
    "image_pull_policy": ("Always", "IfNotPresent", "Never"),
}


class KubernetesCluster(SparkCluster):
    """Runs the drivers of streams as pods. A third of the class declares its fields and says what
    is wrong with their values."""

    image: str = Field(description="Of drivers and executors: Spark's own, or one made of it.")
    namespace: str | None = Field(
        default=None,
        description="Of all pods, and of what is remembered. Default: that of Dagster's own pod, "
        "or of the kubeconfig's context.",
    )
    kubeconfig: str | None = Field(
        default=None,
        description="Path of a kubeconfig. Default: the service account of Dagster's own pod, or, "
        "outside of a cluster, $KUBECONFIG or ~/.kube/config.",
    )
    context: str | None = Field(default=None, description="Of the kubeconfig. Default: its own.")
    service_account: str = Field(
        default="sparkscale-driver",
        description="Of drivers, which ask for executors by it (deploy/kubernetes/driver.yaml).",
    )
    executor_service_account: str | None = Field(
        default=None,
        description="Of executors, by which they reach storage and sources in a cloud. Default: "
        "that of executor_template, or the namespace's own, named default.",
    )
    agent_access: str | None = Field(
        default=None,
        description="How agents are reached: service, the Service of each driver, or port-forward, "
        "through the API server. Default: service where Dagster runs in the cluster.",
    )
    agent_bind: str = Field(
        default="0.0.0.0",
        description='What a driver listens on in its pod; "::" in a cluster that has IPv6 alone.',
    )
    image_pull_policy: str | None = Field(
        default=None, description="Always, IfNotPresent or Never. Default: Kubernetes' own."
    )
    image_pull_secrets: list[str] = Field(
        default_factory=list, description="Names of Secrets that the image is pulled by."
    )
    node_selector: dict[str, str] = Field(
        default_factory=dict, description="Labels of the nodes for drivers and executors."
    )
    tolerations: list[dict[str, Any]] = Field(
        default_factory=list, description="Of drivers and executors, as a pod has them."
    )
    driver_template: dict[str, Any] = Field(
        default_factory=dict,
        description='What a driver\'s pod has besides, as a pod has it: {"spec": {...}}. The '
        "driver's container is named driver.",
    )
    executor_template: dict[str, Any] = Field(
        default_factory=dict, description="The same for executors: a pod template of Spark's."
    )
    term_seconds: int = Field(
        default=30,
        ge=1,
        le=3600,
        description="Seconds that a driver may take to end in good order when its pod is deleted, "
        "as when its node is drained.",
    )

    FOLLOW: ClassVar[float] = 6.0
    """Three calls each where a pod waits: no more than one in two seconds."""
    CAPACITY_MAY_BE_UNKNOWN: ClassVar[bool] = True  # capacity.yaml need not be applied

    _snapshot: Snapshot | None = PrivateAttr(default=None)
    _agents: dict[str, tuple[float, RemoteAgent]] = PrivateAttr(default_factory=dict)
    """The agent of each stream's newest driver, and when it was made."""

    @field_validator("image", mode="before")
    @classmethod
    def _image_has_a_name(cls, value: Any) -> Any:
        if is_text(value) and (not value or value != "".join(value.split())):
            raise ValueError('must be the name of an image, such as "apache/spark:4.3.0-python3"')
        return value

    @field_validator(
        *("service_account", "executor_service_account", "agent_bind"),
        *("kubeconfig", "context"),
        mode="before",
    )
    @classmethod
    def _says_something(cls, value: Any) -> Any:
        if is_text(value) and not value.strip():
            raise ValueError("must not be empty")
        return value

    @field_validator("namespace", mode="before")
    @classmethod
    def _namespace_is_one(cls, value: Any) -> Any:
        if is_text(value) and not _NAMESPACE.fullmatch(value):
            raise ValueError(
                "must be the name of a namespace: small letters, digits and hyphens, at most 63"
            )
        return value

    @field_validator("agent_access", "image_pull_policy", mode="before")
    @classmethod
    def _is_known(cls, value: Any, info: ValidationInfo) -> Any:
        known = _KNOWN[str(info.field_name)]
        if is_text(value) and value not in known:
            raise ValueError(f"must be {', '.join(known[:-1])} or {known[-1]}")
        return value

    @field_validator("driver_template", "executor_template", mode="before")
    @classmethod
    def _is_of_a_pod(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, Mapping) and (fault := fault_of_pod(value)):
            raise ValueError(f"{info.field_name}: {fault}")
        return value

    def store(self) -> MapStore:
        return MapStore(self._api(), self._snapshot.records if self._snapshot else None)

    def driver_of(self, stream: str, record: Record) -> PodDriver:
        return PodDriver(self._api(), stream, record, self._forwards(), self._snapshot)

    def program_of(self, stream: Stream) -> Program:
        memory_mib({**self.spark_conf, **stream.spark_conf})
        return program_of(stream)

    def launching(self, call: Invocation) -> Callable[[EpochStart], None]:
        kube, store = self._api(), self.store()
        begin = (Path(__file__).parent / BEGIN).read_bytes()

        def go(start: EpochStart) -> None:
            unseen = False
            if start.succeeds is not None and start.last is not None:
                name, record = start.last
                before = self.driver_of(name, replace(record, epoch=start.succeeds[1]))
                unseen = not before.end_was_noticed()
            parts = self._parts(call, start, begin, unseen)
            objects = self._objects(call.stream.name, start.record)
            launch(kube, store, objects, start.record, parts)

        return go

    def took(self, stream: str, epoch: int) -> bool:
        record = self.store().read(stream)
        # Of an older driver nothing is left, so it can't have been fenced off: it was followed.
        return record is None or record.epoch != epoch or self.driver_of(stream, record).took()

    def agent(self, driver: Driver) -> RemoteAgent:
        at, known = self._agents.get(driver.stream, (-math.inf, None))
        late = time.monotonic() - at > _AGENT_SECONDS
        if known is None or late or known.epoch != driver.epoch:
            known = self._known(driver).agent()
            self._agents[driver.stream] = time.monotonic(), known
        return known

    def lease(
        self, stream: str, holder: Holder, wait: float = 0.0
    ) -> AbstractContextManager[Lease]:
        return leases.hold(self.store(), stream, holder, wait, every=_LEASE_EVERY)

    def logs(self, driver: Driver, lines: int = 50) -> str:
        known = self._known(driver)
        if driver.state.alive:
            return known.log(lines)
        # Each tick shows the log of each stream that has failed, which does not change any more.
        kept, start = known.api.kept, f"{known.name} {driver.submitted_at}"
        if (log := kept.log(start, lines)) is None:
            log = known.log(lines)
            if log:
                kept.keep_log(start, lines, log)
        return log

    def capacity(self) -> Capacity | None:
        try:
            nodes = self._api().nodes(room.part_of_node)
            pods = self._api().pods_everywhere(room.part_of_pod)
            return room.capacity_of(nodes, pods, self.node_selector, self.tolerations)
        except ClusterError:
            return None

    def check(self, stream: Stream) -> None:
        call = Invocation(stream, self.program_of(stream))
        record = self.store().read(stream.name) or Record.new("0" * 16)
        if record.epoch:
            self.driver_of(stream.name, record).foresee_its_end()
        start = EpochStart(replace(Record.new(record.id), epoch=record.epoch + 1))
        parts = self._parts(call, start, b"")
        objects = self._objects(stream.name, start.record)
        driver = objects.driver("", parts.command, list(parts.variables), parts.settings)
        del driver["metadata"]["ownerReferences"]
        try:
            self._api().create(objects.kind, driver, dryRun="All", **STRICT)
        except Refused as refusal:
            # In the quota the old driver counts still, whose place this one will take.
            old = self._api().get("pods", names.of_epoch(stream.name, record.epoch))
            counts = old is not None and fate_of(old, time.time()).state.alive
            quota = objects.kind == "pods" and "exceeded quota" in str(refusal)
            if quota and counts and asks_for_no_more(driver, old or {}):
                return
            raise ClusterError(f"{stream.name}: a driver can't be launched: {refusal}") from None

    def conditions(self, streams: Sequence[Stream]) -> Iterator[Condition]:
        try:
            yield from self._of_the_namespace()
        except ClusterError as error:
            yield Condition("Kubernetes", "can't be asked", str(error))
        yield from programs(streams, program_of)
        yield from checkpoints.conditions(
            streams, self.driver_template, self.spark_conf, self.image
        )

    def _of_the_namespace(self) -> Iterable[Condition]:
        return conditions(self._api(), self._accounts(), self._forwards())

    def _accounts(self) -> list[str]:
        executors = self.executor_service_account
        return [self.service_account, *([executors] if executors else [])]

    def snapshot(self) -> Self:
        copy = self.model_copy()
        copy._snapshot = self._take_snapshot()
        return copy

    def _take_snapshot(self) -> Snapshot:
        return take_snapshot(self._api())

    def _api(self) -> Api:
        return api(self.kubeconfig, self.context, self.namespace)

    def _forwards(self) -> bool:
        if self.agent_access is None:
            return not self._api().access.inside
        return self.agent_access == "port-forward"

    def _known(self, driver: Driver) -> PodDriver:
        """A driver by its stream and epoch alone, which suffices to ask it."""
        return self.driver_of(driver.stream, replace(Record.new(""), epoch=driver.epoch))

    def _placing(self) -> Placing:
        return Placing(
            namespace=self._api().namespace,
            image=self.image,
            service_account=self.service_account,
            term_seconds=self.term_seconds,
            pull_policy=self.image_pull_policy,
            pull_secrets=self.image_pull_secrets,
            node_selector=self.node_selector,
            tolerations=self.tolerations,
            driver_template=self.driver_template,
            executor_template=self.executor_template,
            executor_account=self.executor_service_account,
            bind=self.agent_bind,
        )

    def _objects(self, stream: str, record: Record) -> Objects:
        return Objects(stream, record.epoch, record.id, self._placing())

    def _parts(
        self, call: Invocation, start: EpochStart, begin: bytes, unseen: bool = False
    ) -> Parts:
        stream, record, program = call.stream, start.record, call.program
        epoch, namespace = record.epoch, self._api().namespace
        template = f"{CODE}/{TEMPLATE}"
        made = spark.settings_in_a_pod(call, record, self._placing(), self.spark_conf, template)
        known = credentials.make(stream.name, epoch)
        python = made.get("spark.pyspark.driver.python") or made.get("spark.pyspark.python")
        command = [
            *(python or "python3", f"{CODE}/{BEGIN}"),
            *driver_options(stream, start, unseen),
            *("--token-file", f"{SECRETS}/{TOKEN}"),
            *("--certificate", f"{SECRETS}/{CERTIFICATE}", "--key", f"{SECRETS}/{KEY}"),
            *("--bind", self.agent_bind, "--port", str(spark.AGENT_PORT)),
            *("--advertise", spark.host(stream.name, epoch, namespace)),
            *("--begun", f"{CODE}/{BEGUN}"),
            *("--last-words", LAST_WORDS, "--term-seconds", str(self.term_seconds)),
            *(program.place, *call.arguments),
        ]
        return Parts(
            secrets={
                TOKEN: known.token,
                METRICS_TOKEN: read_token(known.token),
                CERTIFICATE: known.certificate,
                KEY: known.key,
                PROPERTIES: properties(made),
            },
            variables=stream.env,
            texts={BEGIN: begin, **({program.name: program.content} if program.name else {})},
            parcel=parcel(),
            command=command,
            settings=made,
        )
