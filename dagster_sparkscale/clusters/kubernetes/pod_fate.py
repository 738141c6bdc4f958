"""What has become of a driver's pod, as Kubernetes tells it, in words. Pure.

What must not change: only a pod whose container has ended, or of which the API server says that
there is none, counts as ended. A node that does not answer tells nothing: `unknown`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.fate import RETURNED, End, Fate, by_code
from dagster_sparkscale.clusters.kubernetes.manifests import CONTAINERS
from dagster_sparkscale.driver.begin.fence import FENCED
from dagster_sparkscale.driver.begin.once import ROLE
from dagster_sparkscale.markdown import cut
from dagster_sparkscale.observe.end_report import EndReport, read_end_report

Object = Mapping[str, Any]

OVERDUE = 60.0
"""Seconds after which a pod that should be gone is one whose node does not answer."""

_LONGEST = 300

# What Kubernetes calls who ends a pod that has done nothing wrong.
_DISRUPTIONS = {
    "PreemptionByScheduler": "preempted, for a pod of higher priority",
    "DeletionByTaintManager": "deleted, for its node was tainted",
    "EvictionByEvictionAPI": "evicted, as when its node is drained",
    "DeletionByPodGC": "deleted, for its node is gone",
    "TerminationByKubelet": "ended by its node",
}
_GONE = ("Preempted", "Evicted", "TaintManagerEviction", "NodeNotReady", "Killing")
"""Reasons of events that explain where a pod went, the most telling first."""


OF_EVENT = ("type", "reason", "message", "series", "lastTimestamp", "eventTime")
"""What is read of an event here, besides its metadata."""


def tells(event: Object) -> bool:
    """Whether an event can say what keeps a pod from running, or where it went. Most say that all
    goes well."""
    return event.get("type") == "Warning" or event.get("reason") in _GONE


def fate_of(pod: Object, now: float) -> Fate:
    """What has become of the driver.

    Args:
        now: seconds since the epoch.
    """
    status = pod.get("status") or {}
    driver = _driver(status)
    phase = status.get("phase")
    ended = (driver.get("state") or {}).get("terminated")
    if ended is not None:
        at = time_of(ended.get("finishedAt"))
        return _failed(at, _end_of(pod, ended))
    if phase in ("Succeeded", "Failed"):
        return _failed(_ended_at(status), _end_of(pod, {}))
    if why := silence_of(pod, now):
        return Fate(DriverState.UNKNOWN, reason=why)
    runs = "running" in (driver.get("state") or {})
    return Fate(DriverState.RUNNING if runs and driver.get("started") else DriverState.STARTING)


def silence_of(pod: Object, now: float) -> str:
    """Why it can't be told whether a pod's containers run: its node does not answer. Empty: it
    does, as far as is known.

    Args:
        now: seconds since the epoch.
    """
    status = pod.get("status") or {}
    due = time_of((pod.get("metadata") or {}).get("deletionTimestamp"))
    if due is not None and now - due > OVERDUE:
        return f"it was to be deleted, but {_silent(pod)}"
    return _silent(pod) if status.get("phase") == "Unknown" or _is_lost(status) else ""


def end_report(pod: Object) -> EndReport | None:
    """The end report in the driver's termination message; None: it left none."""
    state = _driver(pod.get("status") or {}).get("state") or {}
    return read_end_report(str((state.get("terminated") or {}).get("message") or ""))


def with_cure(raised: str) -> str:
    """The error that ended a driver, and the cure where one is known."""
    if "is forbidden: User " not in raised or ROLE in raised:
        return raised
    return f"{raised}; {ROLE}"


def took(pod: Object) -> bool:
    """Whether the driver may have left its mark in its checkpoint, and did not report that it lost
    it. A killed driver may have left no report; one that never began left no mark."""
    report = end_report(pod)
    if report is not None:
        return report.took and report.fenced is None
    status = pod.get("status") or {}
    state = _driver(status).get("state") or {}
    ended = state.get("terminated")
    if ended is None:  # an evicted one may have no state at all
        return "waiting" not in state and status.get("phase") != "Pending"
    began = ended.get("reason") not in ("StartError", "ContainerCannotRun")
    return began and ended.get("exitCode") != FENCED


def never_began(pod: Object) -> bool:
    """Whether the driver's container has certainly never started. A pod starts it only once, so a
    container that waits has never run."""
    status = pod.get("status") or {}
    state = _driver(status).get("state") or {}
    begun = "running" in state or "terminated" in state
    return status.get("phase") == "Pending" and not begun and not _is_lost(status)


def may_be_explained(pod: Object) -> bool:
    """Whether events can say what keeps a pod from running: it is for its node to start it."""
    return (pod.get("status") or {}).get("phase") == "Pending"


def waits_for(pod: Object, events: Sequence[Object]) -> str:
    """What keeps a pod from running, by the scheduler and its node; empty: nothing known.

    Args:
        events: the events of the pod.
    """
    status = pod.get("status") or {}
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return f"not scheduled: {_short(scheduled.get('message') or scheduled.get('reason'))}"
    waiting = (_driver(status).get("state") or {}).get("waiting") or {}
    reason, message = waiting.get("reason"), waiting.get("message")
    if message:
        return f"{reason}: {_short(message)}"
    warnings = [each for each in events if each.get("type") == "Warning"]
    if warnings and status.get("phase") == "Pending":
        newest = max(warnings, key=event_time)
        return f"{newest.get('reason')}: {_short(newest.get('message'))}"
    return ""


def end_without_pod(events: Sequence[Object]) -> str:
    """Why the pod is gone.

    Args:
        events: the events of the former pod.
    """
    for reason in _GONE:
        for event in sorted(events, key=event_time, reverse=True):
            if event.get("reason") == reason:
                return f"its pod was deleted ({reason}: {_short(event.get('message'))})"
    return "it has no pod: that was never made, or was deleted by somebody or with its node"


def place_of(pod: Object | None, namespace: str, name: str, waits_for: str = "") -> str:
    """The pod and its node, where a person would look."""
    node = ((pod or {}).get("spec") or {}).get("nodeName")
    text = f"pod {namespace}/{name}" + (f" on node {node}" if node else "")
    return f"{text}, {waits_for}" if waits_for else text


def event_time(event: Object) -> float:
    """When an event last happened, seconds since the epoch; 0 where it does not say."""
    observed = (event.get("series") or {}).get("lastObservedTime")
    return (
        time_of(observed or event.get("lastTimestamp") or event.get("eventTime"))
        or time_of((event.get("metadata") or {}).get("creationTimestamp"))
        or 0.0
    )


def _end_of(pod: Object, ended: Object) -> End:
    status = pod.get("status") or {}
    disrupted = _condition(status, "DisruptionTarget")
    reason = str(status.get("reason") or "")
    if disrupted.get("status") == "True" and reason != "Evicted":
        known = _DISRUPTIONS.get(str(disrupted.get("reason")), "ended by Kubernetes")
        message = _short(disrupted.get("message") or status.get("message") or reason)
        return End(f"{known}: {message}")
    if reason:
        words = "evicted" if reason == "Evicted" else f"ended by its node ({reason})"
        return End(f"{words}: {_short(status.get('message') or '')}".removesuffix(": "))
    code, why = ended.get("exitCode"), ended.get("reason")
    if why in ("StartError", "ContainerCannotRun"):
        return End(f"could not be started: {_short(ended.get('message'))}")
    if why in ("ContainerStatusUnknown", "Unknown"):
        return End("its node has lost it, and can't say how it ended")
    if not isinstance(code, int):
        return End("it has ended; Kubernetes does not say how")
    if why == "OOMKilled":
        limit = f"out of memory (OOMKilled), its limit is {_memory(pod)}"
        return End(f"{by_code(code).reason}: {limit}", by_code(code).how)
    return RETURNED if code == 0 else by_code(code)


def _failed(at: float | None, end: End) -> Fate:
    return Fate(DriverState.FAILED, ended_at=at, reason=end.reason, how=end.how)


def _driver(status: Object) -> Object:
    """The status of the driver's container, whatever else a template has put beside it."""
    every = status.get("containerStatuses") or ()
    return next((each for each in every if each["name"] in CONTAINERS), {})


def _condition(status: Object, kind: str) -> Object:
    found = (each for each in status.get("conditions") or () if each.get("type") == kind)
    return next(found, {})


def _is_lost(status: Object) -> bool:
    """Whether Kubernetes says that the pod is not ready though its containers were when its node
    last told of them: so it does to the pods of a node that does not answer."""
    ready, containers = _condition(status, "Ready"), _condition(status, "ContainersReady")
    lost = ready.get("status") == "False" and containers.get("status") == "True"
    return lost and ready.get("reason") != "ReadinessGatesNotReady"


def _silent(pod: Object) -> str:
    node = (pod.get("spec") or {}).get("nodeName")
    return f"its node {node or '(none)'} does not answer"


def _memory(pod: Object) -> str:
    containers = (pod.get("spec") or {}).get("containers") or ()
    for each in containers:
        if each.get("name") in CONTAINERS:
            return str(((each.get("resources") or {}).get("limits") or {}).get("memory"))
    return "unknown"


def _ended_at(status: Object) -> float | None:
    times = [time_of(each.get("lastTransitionTime")) for each in status.get("conditions") or ()]
    return max((each for each in times if each is not None), default=None)


def time_of(text: object) -> float | None:
    """A time as Kubernetes writes it, in seconds since the epoch; None: it is none."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _short(text: object) -> str:
    return cut(" ".join(str(text or "").split()), _LONGEST)
