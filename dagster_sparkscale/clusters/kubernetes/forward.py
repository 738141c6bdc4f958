"""A connection into a pod through the API server, for a Dagster that runs outside the cluster."""

import socket
import threading
import time
from typing import Any

from dagster_sparkscale.clusters.kubernetes.access import Access
from dagster_sparkscale.deadlines import DaemonCall, NoAnswer

AT_ONCE = 32
"""Connections that are being made, those included that hang and that nobody waits for any more."""

_being_made = threading.BoundedSemaphore(AT_ONCE)


def forwarded(
    access: Access, namespace: str, pod: str, port: int, deadline: float
) -> socket.socket:
    """A connection to that port of the pod, made by `deadline` (`time.monotonic()`).

    Raises:
        OSError: no connection came about in time.
    """
    if not _being_made.acquire(timeout=max(0.0, deadline - time.monotonic())):
        raise TimeoutError

    def make() -> socket.socket:
        try:
            return _open(access, namespace, pod, port)
        finally:
            _being_made.release()

    # The client knows no time limit for this: one that gets no answer hangs.
    found = DaemonCall(make, "sparkscale-forward").within(deadline - time.monotonic())
    if isinstance(found, NoAnswer):
        raise TimeoutError from None
    if isinstance(found, Exception):
        raise ConnectionError(
            "no way through the API server, which refuses where the pod does not run, or where "
            f"deploy/kubernetes/outside.yaml is not applied: {_plain(found)}"
        ) from None
    return found


def _open(access: Access, namespace: str, pod: str, port: int) -> socket.socket:
    from kubernetes import client, config
    from kubernetes.stream import portforward

    configuration = access.configuration
    if configuration is None:
        configuration = client.Configuration()
        config.load_incluster_config(client_configuration=configuration)
    core = client.CoreV1Api(client.ApiClient(configuration))
    way: Any = portforward(
        core.connect_get_namespaced_pod_portforward, pod, namespace, ports=str(port)
    )
    made: socket.socket = way.socket(port)
    return made


def _plain(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
