"""Scheduler and kubelet of all nodes: binds pods, runs them, and tells each the others' names."""

import contextlib
import shutil
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path

from dev.kubernetes import telling
from dev.kubernetes.api import Object, Refused
from dev.kubernetes.names import hosts
from dev.kubernetes.placing import place
from dev.kubernetes.pods import Node, PodLife
from dev.kubernetes.prepare import rewrite
from dev.kubernetes.seen import Seen

NODES = ("node-1", "node-2")
_ROOM = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
_EVERY = 0.5
"""Seconds after which all is looked at anew, also when nothing has changed."""


class Kubelet:
    """All nodes of one cluster, until `close`."""

    def __init__(self, shared: Node, port: int) -> None:
        """
        Args:
            port: at which what the API server asks of nodes is answered (dev/kubernetes/asked.py).
        """
        self._shared, self._api, self._network = shared, shared.api, shared.network
        self._changed, self._ended = threading.Event(), threading.Event()
        self._lives: dict[str, PodLife] = {}
        self._bound: dict[str, str] = {}
        self._why_pending: dict[str, str] = {}
        for name in NODES:
            self._make_node(name, port)
        self._pods = Seen(self._api, "/api/v1/pods", self._changed.set)
        self._services = Seen(self._api, "/api/v1/services", self._changed.set)
        self._nodes = Seen(self._api, "/api/v1/nodes", self._changed.set)
        self._thread = threading.Thread(target=self._follow, name="kubelet", daemon=True)
        self._thread.start()

    def life(self, namespace: str, pod: str) -> PodLife | None:
        """The newest pod of that name that was started."""
        for life in reversed(list(self._lives.values())):
            metadata = life.pod["metadata"]
            if (metadata["namespace"], metadata["name"]) == (namespace, pod):
                return life
        return None

    def close(self) -> None:
        """End all pods, without a word to the API server."""
        self._ended.set()
        self._changed.set()
        self._thread.join()
        for seen in (self._pods, self._services, self._nodes):
            seen.close()
        lives = list(self._lives.values())
        for life in lives:
            life.vanish()
        for life in lives:
            life.join()

    def _make_node(self, name: str, port: int) -> None:
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
        made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        self._api.create("/api/v1/nodes", made)
        # A new node may not be used until somebody says that it is ready.
        self._api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": []}})
        address = self._network.api_server
        status = {
            "capacity": _ROOM,
            "allocatable": _ROOM,
            "conditions": [telling.condition("Ready", True, "KubeletReady")],
            "addresses": [{"type": "InternalIP", "address": address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        self._api.patch(f"/api/v1/nodes/{name}/status", {"status": status})

    def _follow(self) -> None:
        while not self._ended.is_set():
            self._changed.wait(_EVERY)
            self._changed.clear()
            try:
                self._look()
            except Refused as refused:
                print(f"kubelet: {refused}", file=sys.stderr, flush=True)
                self._ended.wait(_EVERY)
            except Exception:
                traceback.print_exc()
                self._ended.wait(_EVERY)

    def _look(self) -> None:
        pods = [self._with_node(pod) for pod in self._pods.all()]
        self._write_hosts(pods)
        for pod in pods:
            if self._ended.is_set():
                return
            name = pod["spec"].get("nodeName")
            if name in NODES:
                self._attend(pod, pods)
            elif not name and pod["spec"].get("schedulerName") == "default-scheduler":
                self._place(pod, pods)
        for uid, life in list(self._lives.items()):
            if self._pods.get(uid) is None:
                life.vanish()
                if not life.is_alive():
                    shutil.rmtree(life.folder, ignore_errors=True)
                    del self._lives[uid]

    def _with_node(self, pod: Object) -> Object:
        """The pod, with its node also before the news of that have come back."""
        node = self._bound.get(pod["metadata"]["uid"])
        if not node or pod["spec"].get("nodeName"):
            return pod
        return {**pod, "spec": {**pod["spec"], "nodeName": node}}

    def _place(self, pod: Object, pods: Sequence[Object]) -> None:
        uid = pod["metadata"]["uid"]
        nodes = [each for each in self._nodes.all() if each["metadata"]["name"] in NODES]
        others = [self._with_node(each) for each in pods]
        node, why = place(pod, nodes, others)
        if node is None:
            if self._why_pending.get(uid) != why:
                self._why_pending[uid] = why
                self._say_pending(pod, why)
            return
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "target": target}
        binding["metadata"] = {"name": pod["metadata"]["name"], "uid": uid}
        with contextlib.suppress(Refused):  # it is gone already
            self._api.create(f"{telling.path_of(pod)}/binding", binding)
            self._bound[uid] = node

    def _say_pending(self, pod: Object, why: str) -> None:
        told = telling.condition("PodScheduled", False, "Unschedulable", why)
        telling.patch_status(self._api, pod, {"conditions": [told]})
        telling.emit(self._api, pod, "FailedScheduling", why, by="default-scheduler")

    def _attend(self, pod: Object, pods: Sequence[Object]) -> None:
        uid = pod["metadata"]["uid"]
        life = self._lives.get(uid)
        over = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        leaving = "deletionTimestamp" in pod["metadata"]
        if life is None and not over and not leaving:
            self._start(pod, pods)
        elif leaving and life is not None and life.is_alive():
            life.end(pod["metadata"].get("deletionGracePeriodSeconds", 0))
        elif leaving:
            only = {"preconditions": {"uid": uid}, "gracePeriodSeconds": 0}
            with contextlib.suppress(Refused):
                self._api.delete(telling.path_of(pod), only)

    def _start(self, pod: Object, pods: Sequence[Object]) -> None:
        life = PodLife(pod, self._shared)
        life.folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        self._lives[life.uid] = life
        self._write(life, pods)
        life.start()

    def _write_hosts(self, pods: Sequence[Object]) -> None:
        for life in self._lives.values():
            if life.is_alive():
                self._write(life, pods)

    def _write(self, life: PodLife, pods: Sequence[Object]) -> None:
        server = self._network.api_server
        text = hosts(life.pod, life.address, server, self._services.all(), pods)
        file: Path = life.folder / "hosts"
        if not file.exists() or file.read_text() != text:
            rewrite(file, text)
