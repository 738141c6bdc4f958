"""A snapshot of all streams of a namespace: one list a kind, whatever their number.

Of each object only that is kept which tells of a driver: with thousands of streams, what else is in
it would be hundreds of MB.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.kubernetes import names, notes, pod_fate
from dagster_sparkscale.clusters.kubernetes.api import Api, Object
from dagster_sparkscale.clusters.kubernetes.manifests import CERTIFICATE, TOKEN
from dagster_sparkscale.clusters.kubernetes.store import records_of

DRIVERS = f"{names.STREAM},spark-role=driver"
SHARED = 5.0
"""Seconds for which a snapshot is had again by whoever asks for one: who looks at the streams of a
cluster in parts at the same time, or twice within a tick, lists them once."""
ONE_BY_ONE = 20
"""Objects that a snapshot lacks and that are asked for one by one, before all are listed again."""


@dataclass
class Snapshot:
    """Records, drivers' pods and Secrets by name, as they were a moment ago."""

    api: Api
    records: dict[str, Object] = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    secrets: dict[str, Object] = field(default_factory=dict, repr=False)
    applications: dict[str, Object] = field(default_factory=dict)
    """SparkApplications, where an operator makes the pods."""
    _later: dict[str, dict[str, Any] | ClusterError] = field(default_factory=dict, repr=False)
    """What was read after all that, or why it could not be."""
    _one_by_one: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def events(self, pod: str) -> list[Object]:
        """The events of a pod that tell what keeps it, or where it went. The first call reads those
        of all pods.

        Raises:
            ClusterError: they can't be read.
        """

        def read() -> dict[str, list[Object]]:
            found: dict[str, list[Object]] = {}
            of_pods = {"fieldSelector": "involvedObject.kind=Pod"}
            for name, each in self.api.listed(self.api.path("events"), _part_of_event, **of_pods):
                found.setdefault(name, []).append(each)
            return found

        events: list[Object] = self._read("events", read).get(pod, [])
        return events

    def newer(self, kind: str, name: str) -> Object | None:
        """An object that may have been made since its kind was listed.

        Args:
            kind: `pods`, or that of the applications that make them.

        Raises:
            ClusterError: it can't be told whether there is one.
        """
        with self._lock:
            self._one_by_one += 1
            few = self._one_by_one <= ONE_BY_ONE
        if few:
            return self.api.get(kind, name)
        found: Object | None = self._read(kind, lambda: _drivers(self.api, kind)).get(name)
        return found

    def _read(self, what: str, read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What `read` brings, or its error: a thousand streams would each wait for that."""
        with self._lock:
            if what not in self._later:
                try:
                    self._later[what] = read()
                except ClusterError as error:
                    self._later[what] = error
            found = self._later[what]
        if isinstance(found, ClusterError):
            raise found
        return found


def take_snapshot(api: Api, applications: str | None = None) -> Snapshot:
    """Read the objects of all streams, or take what was read of them less than `SHARED` seconds
    ago, if nothing was changed from here since.

    Args:
        applications: the kind of the applications that make the pods; None: no operator does.

    Raises:
        ClusterError: the API server does not answer, or refuses.
    """
    kept = api.kept
    with kept.taking:
        at, taken = kept.taken.get(applications, (-math.inf, None))
        if time.monotonic() - at > SHARED or at < api.changed_at:
            kept.taken.pop(applications, None)
            taken = None  # before the next one is made: it may be large
            at, taken = time.monotonic(), _take(api, applications)
            kept.taken[applications] = at, taken
        assert isinstance(taken, Snapshot)
        return taken


def _take(api: Api, applications: str | None) -> Snapshot:
    # Before the pods: one that has a pod by now is not missed.
    made_by = _drivers(api, applications) if applications else {}
    # The records last: of a start in between nothing is found yet, and its lease tells that.
    pods = _drivers(api, "pods")
    secrets = _by_name(api, "secrets", _part_of_secret, names.STREAM)
    return Snapshot(api, records_of(api), pods, secrets, made_by)


def _drivers(api: Api, kind: str) -> dict[str, Object]:
    """All drivers' pods, or applications, by name."""
    if kind == "pods":
        return _by_name(api, kind, _part_of_pod, DRIVERS)
    return _by_name(api, kind, _part_of_application, names.STREAM)


def _by_name(
    api: Api, kind: str, part: Callable[[Object], Object], selector: str
) -> dict[str, Object]:
    found = api.listed(api.path(kind), part, labelSelector=selector)
    return {each["metadata"]["name"]: each for each in found}


_OF_METADATA = ("name", "namespace", "uid", "labels", "creationTimestamp", "deletionTimestamp")


def _metadata(found: Object) -> Object:
    metadata = found["metadata"]
    return {key: metadata[key] for key in _OF_METADATA if key in metadata}


def _part_of_pod(pod: Object) -> Object:
    """What `pod_fate` needs of a pod."""
    spec = pod.get("spec") or {}
    containers = [
        {key: each[key] for key in ("name", "resources") if key in each}
        for each in spec.get("containers") or ()
    ]
    return {
        "metadata": _metadata(pod),
        "spec": {"nodeName": spec.get("nodeName"), "containers": containers},
        "status": pod.get("status"),
    }


def _part_of_secret(secret: Object) -> Object:
    """What is needed to talk to an agent, and the note how its driver has ended; never its key."""
    held = secret.get("data") or {}
    data = {key: held[key] for key in (TOKEN, CERTIFICATE) if key in held}
    return {"metadata": _metadata(secret), "data": {**data, **notes.shortened(held)}}


def _part_of_application(application: Object) -> Object:
    return {"metadata": _metadata(application), "status": application.get("status")}


def _part_of_event(event: Object) -> tuple[str, Object] | None:
    if not pod_fate.tells(event):
        return None
    metadata = event.get("metadata") or {}
    kept = {key: event.get(key) for key in pod_fate.OF_EVENT}
    kept["metadata"] = {"creationTimestamp": metadata.get("creationTimestamp")}
    return event["involvedObject"].get("name", ""), kept
