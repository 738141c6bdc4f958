"""A Kubernetes cluster for tests: one in each process that needs it (tests/conftest.py)."""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dev.kubernetes.api import Api
from dev.kubernetes.running import Reached, delete_namespace, make_namespace
from tests.waiting import wait_for

Object = dict[str, Any]

PASSED_ON = ("JDK_JAVA_OPTIONS", "PYTHONPATH")
"""With `dev.runs.MARK`, what containers get of the tests' environment."""


@contextmanager
def namespace(cluster: Reached, what: str) -> Iterator[str]:
    """A namespace of its own, deleted in the end with all that is in it."""
    name = f"{re.sub('[^a-z0-9]+', '-', what.lower()).strip('-')[:40]}-{secrets.token_hex(3)}"
    make_namespace(cluster.api, name)
    try:
        yield name
    finally:
        delete_namespace(cluster.api, name)


def pod(name: str, *command: str, **spec: Any) -> Object:
    """A pod with one container `main`; what is not of a pod's specification is the container's."""
    of_pod = {
        key: spec.pop(key)
        for key in ("restartPolicy", "nodeSelector", "volumes", "serviceAccountName", "tolerations")
        if key in spec
    }
    labels = spec.pop("labels", {})
    container = {"name": "main", "image": "spark", "command": list(command), **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [container], **of_pod},
    }


def create(api: Api, namespace: str, kind: str, body: Object) -> Object:
    return api.create(f"/api/v1/namespaces/{namespace}/{kind}", body)


def see(api: Api, namespace: str, name: str, what: str, look: Any) -> Object:
    """The pod once `look` is true of it."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"

    def found() -> Object | None:
        pod = api.get(path)
        return pod if pod is not None and look(pod) else None

    seen = wait_for(f"{name}: {what}", found, about=lambda: str(api.get(path)))
    assert seen is not None
    return seen


def phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase"))


def state(pod: Object) -> Object:
    """Of its container: waiting, running or terminated."""
    found = pod.get("status", {}).get("containerStatuses") or [{"state": {}}]
    told: Object = found[0]["state"]
    return told


def is_ready(pod: Object) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return any(each["ready"] for each in statuses)


def ended(pod: Object) -> Object | None:
    return state(pod).get("terminated")


def events(api: Api, namespace: str, name: str) -> list[tuple[str, str]]:
    """Reason and message of what was told of a pod."""
    found = api.items(f"/api/v1/namespaces/{namespace}/events")
    return [(e["reason"], e["message"]) for e in found if e["involvedObject"]["name"] == name]


def logs(api: Api, namespace: str, name: str, **query: Any) -> str:
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/log"
    return api.ask("GET", path, params=query).text


def on_linux_as_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0 and os.path.isdir("/proc/self/ns")
