"""What a kubelet tells of a pod: its status and its events, in the words of a real one."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from dev.kubernetes.api import Api, Object, Refused

STRATEGIC = "application/strategic-merge-patch+json"


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def path_of(pod: Object) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def condition(kind: str, holds: bool, reason: str = "", message: str = "") -> Object:
    made = {"type": kind, "status": str(holds), "lastTransitionTime": now()}
    return made | ({"reason": reason} if reason else {}) | ({"message": message} if message else {})


def patch_status(api: Api, pod: Object, status: Object) -> None:
    """Merge into a pod's status; nothing if the pod is gone.

    Raises:
        Refused: the API server would not.
    """
    body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
    answer = api.ask("PATCH", f"{path_of(pod)}/status", body, kind=STRATEGIC)
    if not answer.ok and answer.status_code not in (404, 409):
        raise Refused(f"status of {path_of(pod)}: {answer.text}", answer.status_code)


def emit(
    api: Api, pod: Object, reason: str, message: str, *, warning: bool = True, by: str = "kubelet"
) -> None:
    """Tell an event of a pod. The scheduler's have no first and last time, as they are of a newer
    kind."""
    metadata = pod["metadata"]
    time: dict[str, Any] = {"firstTimestamp": now(), "lastTimestamp": now(), "count": 1}
    if by != "kubelet":
        micro = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        time = {"eventTime": micro, "action": "Scheduling", "reportingInstance": by}
    about = {"kind": "Pod", "apiVersion": "v1"}
    about |= {key: metadata[key] for key in ("namespace", "name", "uid")}
    event = {
        "metadata": {"generateName": f"{metadata['name']}."},
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "type": "Warning" if warning else "Normal",
        "source": {"component": by} if by == "kubelet" else {},
        "reportingComponent": by,
        **time,
    }
    # A namespace that is going away takes no new ones.
    api.ask("POST", f"/api/v1/namespaces/{metadata['namespace']}/events", event)


def container_status(
    pod: Object,
    state: Object,
    *,
    ready: bool,
    started: bool,
    restarts: int,
    last: Object | None,
) -> Sequence[Object]:
    container = pod["spec"]["containers"][0]
    return [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": ready,
            "started": started,
            "restartCount": restarts,
            "state": state,
            "lastState": last or {},
        }
    ]
