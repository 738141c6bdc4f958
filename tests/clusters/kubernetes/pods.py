"""Pods as the API server tells of them, in the parts that are looked at."""

from typing import Any

NOW = 1_800_000_000.0
"""Seconds since the epoch: 2027-01-15T08:00:00Z."""


def pod(phase: str = "Running", *, state: dict[str, Any] | None = None, **status: Any) -> Any:
    """A driver's pod on a node; `state` is that of its container."""
    told: dict[str, Any] = {"phase": phase, **status}
    if state is not None:
        started = told.pop("started", True)
        told["containerStatuses"] = [
            {"name": "sidecar", "state": {"running": {}}, "started": True},
            {"name": "driver", "state": state, "started": started},
        ]
    limits = {"limits": {"memory": "1433Mi"}}
    containers = [{"name": "sidecar"}, {"name": "driver", "resources": limits}]
    return {
        "metadata": {"name": "sparkscale-clicks-3"},
        "spec": {"nodeName": "node-1", "containers": containers},
        "status": told,
    }


def ended(code: int, reason: str = "Error", **more: Any) -> dict[str, Any]:
    """The state of a container that has ended."""
    terminated = {"exitCode": code, "reason": reason, "finishedAt": "2027-01-15T07:59:30Z", **more}
    return {"terminated": terminated}


def condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2027-01-15T07:59:40Z",
    }


def event(reason: str, message: str, at: str, kind: str = "Warning") -> dict[str, Any]:
    return {"reason": reason, "message": message, "lastTimestamp": at, "type": kind}
