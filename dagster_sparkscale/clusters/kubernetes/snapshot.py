"""A snapshot of all streams of a namespace: a few requests, whatever their number."""

import threading
from dataclasses import dataclass, field

from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.clusters.kubernetes.api import Api, Object
from dagster_sparkscale.clusters.kubernetes.store import records_of

DRIVERS = f"{names.STREAM},spark-role=driver"


@dataclass
class Snapshot:
    """Records, drivers' pods and Secrets by name, as they were a moment ago."""

    api: Api
    records: dict[str, Object] = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    secrets: dict[str, Object] = field(default_factory=dict, repr=False)
    applications: dict[str, Object] = field(default_factory=dict)
    """SparkApplications, where an operator makes the pods."""
    _events: dict[str, list[Object]] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def events(self, pod: str) -> list[Object]:
        """The events of a pod. The first call reads those of all pods."""
        with self._lock:
            if self._events is None:
                found: dict[str, list[Object]] = {}
                for each in self.api.find("events", fieldSelector="involvedObject.kind=Pod"):
                    found.setdefault(each["involvedObject"].get("name", ""), []).append(each)
                self._events = found
        return self._events.get(pod, [])


def take_snapshot(api: Api, applications: str | None = None) -> Snapshot:
    """Read the objects of all streams.

    Args:
        applications: the kind of the applications that make the pods; None: no operator does.

    Raises:
        ClusterError: the API server does not answer, or refuses.
    """
    # Before the pods: one that has a pod by now is not missed.
    made_by = _by_name(api.find(applications, labelSelector=names.STREAM)) if applications else {}
    # The records last: of a start in between nothing is found yet, and its lease tells that.
    pods = _by_name(api.find("pods", labelSelector=DRIVERS))
    secrets = _by_name(api.find("secrets", labelSelector=names.STREAM))
    records = records_of(api)
    return Snapshot(api, records, pods, secrets, made_by)


def _by_name(found: list[Object]) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in found}
