"""The names that a pod knows others by, as a file of hosts: what a cluster's DNS would say.

No input and no output: data in, text out.
"""

from collections.abc import Iterator, Sequence

from dev.kubernetes.api import Object


def hosts(
    pod: Object, address: str, server: str, services: Sequence[Object], pods: Sequence[Object]
) -> str:
    """The file of hosts of a pod.

    Args:
        server: the API server's address.
        pods: all there are.
    """
    namespace, host = pod["metadata"]["namespace"], _host(pod)
    lines = ["127.0.0.1 localhost", f"{address} {host}"]
    names = " ".join(_names("kubernetes", "default", namespace))
    lines.append(f"{server} {names}")
    for service in services:
        metadata = service["metadata"]
        names = " ".join(_names(metadata["name"], metadata["namespace"], namespace))
        lines += [f"{each} {names}" for each in _addresses(service, pods)]
    return "\n".join(lines) + "\n"


def _host(pod: Object) -> str:
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])


def _names(service: str, namespace: str, asking: str) -> Iterator[str]:
    yield from (f"{service}.{namespace}.svc.cluster.local", f"{service}.{namespace}.svc")
    yield f"{service}.{namespace}"
    if namespace == asking:
        yield service


def _addresses(service: Object, pods: Sequence[Object]) -> Iterator[str]:
    """Of the pods that a Service stands for. That they have started is enough where it says so."""
    selector = service["spec"].get("selector")
    any_state = service["spec"].get("publishNotReadyAddresses", False)
    for pod in pods:
        metadata, status = pod["metadata"], pod.get("status", {})
        labels = metadata.get("labels") or {}
        if not selector or metadata["namespace"] != service["metadata"]["namespace"]:
            continue
        if not selector.items() <= labels.items() or not status.get("podIP"):
            continue
        ready = any(
            each["type"] == "Ready" and each["status"] == "True"
            for each in status.get("conditions") or []
        )
        over = status.get("phase") in ("Succeeded", "Failed")
        if not over and (any_state or (ready and "deletionTimestamp" not in metadata)):
            yield status["podIP"]
