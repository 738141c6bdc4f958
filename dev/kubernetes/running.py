"""Starts a cluster for a program that uses it, and has mishaps happen to its pods and nodes."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dev.daemons import Daemons, Keeper
from dev.kubernetes import telling
from dev.kubernetes.api import Api, Object, Refused
from dev.kubernetes.building import program
from dev.kubernetes.plane import AWAY, DidNotStart
from dev.kubernetes.pods import EVICT, OUT_OF_MEMORY


@dataclass(frozen=True)
class Reached:
    """A cluster that runs, wherever that is."""

    kubeconfig: Path
    api: Api
    """Its administrator's way in."""
    folder: Path
    """For files of whoever uses it."""

    def token(self, namespace: str, account: str, seconds: int = 7200) -> str:
        """A token of a service account, as somebody outside of pods would get one.

        Raises:
            Refused: there is no such account.
        """
        kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        made = self.api.create(path, {**kind, "spec": {"expirationSeconds": seconds}})
        return str(made["status"]["token"])

    def pod(self, namespace: str, name: str) -> Object:
        """
        Raises:
            LookupError: there is none.
        """
        if (found := self.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")) is None:
            raise LookupError(f"there is no pod {namespace}/{name}")
        return found


@dataclass(frozen=True)
class Cluster(Reached, Daemons):
    """One of ours."""

    _keeper: Keeper = field(repr=False)

    @property
    def process(self) -> int:
        """The pid of the process that all others descend from."""
        return self._keeper.pid

    def end(self) -> None:
        self._keeper.end()

    def asked(self, user: str) -> list[Object]:
        """Requests that a service account's user has made, oldest first, as the API server's audit
        log has them."""
        log = (self.folder / "audit.log").read_text().splitlines()
        return [each for line in log if (each := json.loads(line))["user"]["username"] == user]

    # Mishaps.

    def pid(self, pod: Object) -> int:
        """The first process of a pod that runs, as this machine numbers it."""
        return int((self._of(pod) / "pid").read_text())

    def kill(self, pod: Object, *, out_of_memory: bool = False) -> None:
        """Kill a pod's container, as the kernel does."""
        if out_of_memory:
            (self._of(pod) / OUT_OF_MEMORY).touch()
        os.kill(self.pid(pod), signal.SIGKILL)

    def evict(self, pod: Object, message: str = "The node was low on resource: memory.") -> None:
        """Have a pod's node end it, as when memory or disk run out: its object stays, failed."""
        being_written = self._of(pod) / "eviction"
        being_written.write_text(message)
        being_written.rename(self._of(pod) / EVICT)

    def preempt(self, pod: Object, by: str = "default/important") -> None:
        """Have the scheduler end a pod to make room for a more important one."""
        message = "default-scheduler: preempting to accommodate a higher priority pod"
        told = telling.condition("DisruptionTarget", True, "PreemptionByScheduler", message)
        telling.patch_status(self.api, pod, {"conditions": [told]})
        node = pod["spec"]["nodeName"]
        telling.emit(
            self.api, pod, "Preempted", f"Preempted by {by} on node {node}", by="default-scheduler"
        )
        self.api.delete(telling.path_of(pod))

    @contextmanager
    def silent_node(self, pod: Object) -> Iterator[None]:
        """Say of a pod's node what the node controller does when it has not heard of it for long.
        The pod's process goes on, as it may on a node that was cut off."""
        unknown = {"status": "Unknown", "reason": "NodeStatusUnknown", "type": "Ready"}
        unknown["message"] = "Kubelet stopped posting node status."
        node = f"/api/v1/nodes/{pod['spec']['nodeName']}/status"
        body = {"status": {"conditions": [unknown]}}
        self.api.ask("PATCH", node, body, kind=telling.STRATEGIC).raise_for_status()
        ready = {"type": "Ready", "status": "False"}
        telling.patch_status(self.api, pod, {"conditions": [ready]})
        try:
            yield
        finally:
            there = {"status": {"conditions": [telling.condition("Ready", True, "KubeletReady")]}}
            self.api.ask("PATCH", node, there, kind=telling.STRATEGIC).raise_for_status()
            telling.patch_status(self.api, pod, {"conditions": [telling.condition("Ready", True)]})

    @contextmanager
    def without_api_server(self, seconds: float = 60.0) -> Iterator[None]:
        """An outage of the API server, until it is there again.

        Raises:
            TimeoutError: it does not come back.
        """
        away = self.folder / AWAY
        away.touch()
        try:
            self._wait_for(lambda: bool(away.read_text()), seconds)
            yield
        finally:
            away.unlink()
            self._wait_for(self._answers, seconds)

    def _answers(self) -> bool:
        try:
            return self.api.ask("GET", "/readyz").ok
        except Refused:
            return False

    def _wait_for(self, what: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not what():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the API server does not change; see {self.folder}")
            time.sleep(0.1)

    def _of(self, pod: Object) -> Path:
        return self.folder / "pods" / str(pod["metadata"]["uid"])


def start(folder: Path, passed_on: Iterable[str] = ()) -> Cluster:
    """Start a cluster with its files in `folder`, built first where it is not built yet.

    Args:
        passed_on: names of variables of the environment that containers get from here.

    Raises:
        InstallFailed: it could not be built.
        DidNotStart: it did not come up.
    """
    program()  # in this process, whose output somebody may see
    passed = [word for name in passed_on for word in ("--pass", name)]
    folder = folder.resolve()
    log = folder / "cluster.log"
    keeper = Keeper(log, "dev.kubernetes", "--folder", str(folder), *passed)
    if (kubeconfig := keeper.told()) is None:
        keeper.end()
        raise DidNotStart(f"no Kubernetes cluster:\n{log.read_text()}")
    return Cluster(Path(kubeconfig), _admin(Path(kubeconfig)), folder, keeper)


def reached(kubeconfig: Path) -> Reached:
    """A cluster of ours that runs already, by the kubeconfig that it has printed."""
    return Reached(kubeconfig, _admin(kubeconfig), kubeconfig.parent)


def _admin(kubeconfig: Path) -> Api:
    told: dict[str, Any] = json.loads(kubeconfig.read_text())
    cluster = told["clusters"][0]["cluster"]
    token = told["users"][0]["user"]["token"]
    return Api(cluster["server"], Path(cluster["certificate-authority"]), token)


def make_namespace(api: Api, name: str, seconds: float = 60.0) -> None:
    """A namespace in which pods can be made, once its default service account is there.

    Raises:
        Refused: there is one of that name.
        TimeoutError: it was not ready in time.
    """
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    deadline = time.monotonic() + seconds
    wanted = ("serviceaccounts/default", "configmaps/kube-root-ca.crt")
    while not all(api.get(f"/api/v1/namespaces/{name}/{each}") for each in wanted):
        if time.monotonic() > deadline:
            raise TimeoutError(f"namespace {name} has no default service account yet")
        time.sleep(0.05)


def delete_namespace(api: Api, name: str, seconds: float = 120.0) -> None:
    """Delete a namespace and wait until nothing of it is left.

    Raises:
        Refused: the API server would not.
        TimeoutError: it was not gone in time.
    """
    path = f"/api/v1/namespaces/{name}"
    api.delete(f"{path}/pods", {"gracePeriodSeconds": 0})  # nobody waits for them to end kindly
    api.delete(path)
    deadline = time.monotonic() + seconds
    while (found := api.get(path)) is not None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"namespace {name} is still there: {found.get('status')}")
        time.sleep(0.1)
