"""The objects of one start of a stream, as Kubernetes is given them. Pure.

    Secret      token, certificate and key, Spark's settings, the stream's variables: the root
    ConfigMap   the driver's code, a program that was shipped, the executors' template
    Service     headless: by its name executors and Dagster reach the driver
    Pod         the driver
    ConfigMap   `...-begun`, made by the driver when it begins: only one can

The Secret is made first, and owns the others; the pod can't start without it. So whatever
deletes the Secret of a start ends that start for good: a pod made of it later does not run, and
Kubernetes' own garbage collector takes it (see `launch.py` for why that matters).
"""

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.clusters.kubernetes.spark import (
    AGENT_PORT,
    BLOCKS_PORT,
    DRIVER_PORT,
    UI_PORT,
)
from dagster_sparkscale.clusters.kubernetes.templates import Placing, merged
from dagster_sparkscale.clusters.launch.driver_zip import NAME

Manifest = dict[str, Any]

FOLDER = "/opt/sparkscale"
CODE, SECRETS, SCRATCH = f"{FOLDER}/code", f"{FOLDER}/secrets", f"{FOLDER}/scratch"
BEGIN, TEMPLATE = "in_pod.py", "executor-pod.json"
BEGUN = "begun.json"
TOKEN, PROPERTIES, CERTIFICATE, KEY = "token", "spark.properties", "tls.crt", "tls.key"
METRICS_TOKEN = "metrics-token"
"""Reads the agent's metrics and does nothing else; for Prometheus."""
LAST_WORDS = "/dev/termination-log"
CONTAINER = "driver"
CONTAINERS = (CONTAINER, "spark-kubernetes-driver")
"""What the driver's container is called; the last one where Spark makes its pod."""
DRIVER = {"spark-role": "driver"}
EXECUTOR = {"spark-role": "executor"}
LARGEST = 1_020_000
"""Bytes of what a ConfigMap holds, which Kubernetes bounds at 1 MiB."""

_VARIABLE = "env."
_UNITS = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024**2}
_SIZE = re.compile(r"([0-9]+)([kmgt])?b?", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?|\.[0-9]+")
_LEAST_OVERHEAD = 384
_STARTS_WITHIN = 3600
"""Seconds that the driver's agent may take to listen, before Kubernetes ends the driver."""


@dataclass(frozen=True)
class Objects:
    """Makes the objects of one start.

    Args:
        record: id of the stream's record.
    """

    stream: str
    epoch: int
    record: str
    placing: Placing

    @property
    def name(self) -> str:
        return names.of_epoch(self.stream, self.epoch)

    @property
    def labels(self) -> dict[str, str]:
        return names.labels(self.stream, self.epoch, self.record)

    def _metadata(self, owner: str | None, **labels: str) -> Manifest:
        metadata: Manifest = {
            "name": self.name,
            "namespace": self.placing.namespace,
            "labels": {**self.labels, **labels},
            "annotations": {names.NAME: self.stream},
        }
        if owner is not None:
            root = {"apiVersion": "v1", "kind": "Secret", "name": self.name, "uid": owner}
            metadata["ownerReferences"] = [root]
        return metadata

    def secret(self, content: Mapping[str, str], variables: Mapping[str, str]) -> Manifest:
        """The root, with what only the driver and Dagster may know."""
        data = {**content, **{f"{_VARIABLE}{key}": variables[key] for key in variables}}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": self._metadata(None),
            "data": {key: _base64(data[key].encode()) for key in data},
        }

    def config_map(self, owner: str, texts: Mapping[str, bytes], parcel: bytes) -> Manifest:
        """The code.

        Args:
            texts: by name, the files beside the parcel.
        """
        template, begun = executor_template(self.placing), self.begun(owner)
        files = {
            **texts,
            NAME: parcel,
            TEMPLATE: json.dumps(template).encode(),
            BEGUN: json.dumps(begun).encode(),
        }
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": self._metadata(owner),
            "binaryData": {name: _base64(files[name]) for name in files},
        }

    def begun(self, owner: str) -> Manifest:
        """What the driver makes when it begins, and who bars it from beginning: but for who that is
        (`driver/begin/once.py`)."""
        metadata = self._metadata(owner)
        metadata["name"] = f"{self.name}-begun"
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}

    def service(self, owner: str) -> Manifest:
        ports = {"driver": DRIVER_PORT, "blocks": BLOCKS_PORT, "agent": AGENT_PORT, "ui": UI_PORT}
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self._metadata(owner),
            "spec": {
                "clusterIP": "None",
                # Executors are there before the driver is ready.
                "publishNotReadyAddresses": True,
                "selector": {**self.labels, **DRIVER},
                "ports": [{"name": name, "port": ports[name]} for name in ports],
            },
        }

    @property
    def kind(self) -> str:
        """What is made for the driver, as `Api` has it."""
        return "pods"

    def driver(
        self,
        owner: str,
        command: Sequence[str],
        variables: Sequence[str],
        settings: Mapping[str, str],
    ) -> Manifest:
        """The driver.

        Args:
            command: what is run, by the image's entrypoint.
            variables: names of the stream's own, which the Secret has.
            settings: Spark's, for what the driver needs of cores and memory.
        """
        placing = self.placing
        container = {
            "name": CONTAINER,
            "image": placing.image,
            "args": as_args(command),
            "env": self._env(variables),
            "ports": [{"name": "agent", "containerPort": AGENT_PORT}],
            "resources": resources(settings),
            # Until then its agent is not known.
            "startupProbe": {
                "tcpSocket": {"port": AGENT_PORT},
                "periodSeconds": 1,
                "failureThreshold": _STARTS_WITHIN,
            },
            "terminationMessagePath": LAST_WORDS,
            "volumeMounts": [
                {"name": "sparkscale-code", "mountPath": CODE, "readOnly": True},
                {"name": "sparkscale-secrets", "mountPath": SECRETS, "readOnly": True},
                {"name": "sparkscale-scratch", "mountPath": SCRATCH},
            ],
            **_if_set(imagePullPolicy=placing.pull_policy),
        }
        spec = {
            "restartPolicy": "Never",
            "serviceAccountName": placing.service_account,
            "terminationGracePeriodSeconds": placing.term_seconds + 15,
            "containers": [container],
            "volumes": [
                {"name": "sparkscale-code", "configMap": {"name": self.name}},
                {"name": "sparkscale-secrets", "secret": {"secretName": self.name}},
                {"name": "sparkscale-scratch", "emptyDir": {}},
            ],
            **_tolerations(placing),
            **_if_set(
                imagePullSecrets=[{"name": name} for name in placing.pull_secrets],
                nodeSelector=dict(placing.node_selector),
            ),
        }
        metadata = self._metadata(owner, **DRIVER)
        ours = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        pod: Manifest = merged(placing.driver_template, ours)
        return pod

    def _env(self, variables: Sequence[str]) -> list[Manifest]:
        """The driver's environment: what it needs, and what of the stream's own the Secret has."""
        plain = {
            "PYTHONUNBUFFERED": "1",  # the log in the order in which things happened
            "PYSPARK_SUBMIT_ARGS": f"--properties-file {SECRETS}/{PROPERTIES} pyspark-shell",
            "SPARKSCALE_FOLDER": SCRATCH,
        }
        env: list[Manifest] = [{"name": key, "value": plain[key]} for key in plain]
        for key in variables:
            of = {"secretKeyRef": {"name": self.name, "key": f"{_VARIABLE}{key}"}}
            env.append({"name": key, "valueFrom": of})
        return env


def as_args(words: Sequence[str]) -> list[str]:
    """Words for a kubelet, which puts variables in the place of $(NAME), and one $ in that of
    two."""
    return [word.replace("$", "$$") for word in words]


def executor_template(placing: Placing) -> Manifest:
    """The pod template of executors: the user's, with what Spark has no setting for."""
    ours = {"apiVersion": "v1", "kind": "Pod", "spec": _tolerations(placing)}
    template: Manifest = merged(placing.executor_template, ours)
    return template


def _tolerations(placing: Placing) -> Manifest:
    return _if_set(tolerations=[dict(each) for each in placing.tolerations])


def _if_set(**fields: Any) -> Manifest:
    return {name: value for name, value in fields.items() if value}


def resources(settings: Mapping[str, str]) -> Manifest:
    """What the driver's container asks for, by the settings that Spark itself would go by."""
    cores = settings.get("spark.kubernetes.driver.request.cores")
    request = cores or settings.get("spark.driver.cores", "1")
    memory = f"{memory_mib(settings)}Mi"
    limits = {"memory": memory}
    if limit := settings.get("spark.kubernetes.driver.limit.cores"):
        limits["cpu"] = limit
    return {"requests": {"cpu": request, "memory": memory}, "limits": limits}


def asks_for_no_more(pod: Manifest, old: Manifest) -> bool:
    """Whether all that a driver's pod asks for is what the one before it has."""
    now, before = (
        {
            container["name"]: container.get("resources") or {}
            for container in each["spec"]["containers"]
        }
        for each in (pod, old)
    )
    return all(
        (now[name].get(kind) or {}).items() <= (before.get(name, {}).get(kind) or {}).items()
        for name in now
        for kind in ("requests", "limits")
    )


def memory_mib(settings: Mapping[str, str]) -> int:
    """MiB of the driver: its JVM's heap, and beside it what Spark calls overhead, in which the
    Python program lives (`spark.driver.memoryOverhead`, or 40 % of the heap, at least 384).

    Raises:
        ClusterError: a setting says no size; names it.
    """
    heap = heap_mib(settings)
    if overhead := settings.get("spark.driver.memoryOverhead"):
        return heap + _mib("spark.driver.memoryOverhead", overhead)
    factor = settings.get("spark.driver.memoryOverheadFactor", "0.4")
    if not _NUMBER.fullmatch(factor.strip()):
        raise ClusterError(f"spark.driver.memoryOverheadFactor = {factor!r}: must be such as 0.4")
    return heap + max(_LEAST_OVERHEAD, math.ceil(heap * float(factor)))


def heap_mib(settings: Mapping[str, str]) -> int:
    """MiB of the driver's JVM.

    Raises:
        ClusterError: the setting says no size.
    """
    return _mib("spark.driver.memory", settings.get("spark.driver.memory", "1g"))


def _mib(key: str, text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None:  # Spark would refuse it, too
        raise ClusterError(f"{key} = {text!r}: must be a size such as 512m or 2g")
    return math.ceil(int(found[1]) * _UNITS[(found[2] or "m").lower()])


def text_of(secret: Manifest, key: str) -> str | None:
    """One value of a Secret; None if it has none of that name."""
    held = (secret.get("data") or {}).get(key)
    return None if held is None else base64.b64decode(held).decode("utf-8", "replace")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
