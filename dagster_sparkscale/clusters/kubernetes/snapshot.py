"""All streams of a namespace at once: a few calls, whatever their number."""

import threading
from dataclasses import dataclass, field

from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.clusters.kubernetes.api import Api, Object
from dagster_sparkscale.clusters.kubernetes.store import records_of

DRIVERS = f"{names.STREAM},spark-role=driver"


@dataclass
class Glance:
    """Records, drivers' pods and Secrets, by name, as they were a moment ago."""

    api: Api
    records: dict[str, Object] = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    secrets: dict[str, Object] = field(default_factory=dict, repr=False)
    applications: dict[str, Object] = field(default_factory=dict)
    """SparkApplications, where those make the pods."""
    _events: dict[str, list[Object]] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def events(self, pod: str) -> list[Object]:
        """Those of a pod. Asked for once for all pods, and only if somebody wants to know."""
        with self._lock:
            if self._events is None:
                found: dict[str, list[Object]] = {}
                for each in self.api.find("events", fieldSelector="involvedObject.kind=Pod"):
                    found.setdefault(each["involvedObject"].get("name", ""), []).append(each)
                self._events = found
        return self._events.get(pod, [])


def glance(api: Api, applications: str | None = None) -> Glance:
    """What there is now.

    Args:
        applications: the kind of those that make the pods; None: no such.

    Raises:
        ClusterError: it can't be told.
    """
    # Before the pods: one that has a pod by now is not missed.
    made_by = _by_name(api.find(applications, labelSelector=names.STREAM)) if applications else {}
    # The records last: of a start in between nothing is found yet, and its lease tells that.
    pods = _by_name(api.find("pods", labelSelector=DRIVERS))
    secrets = _by_name(api.find("secrets", labelSelector=names.STREAM))
    records = records_of(api)
    return Glance(api, records, pods, secrets, made_by)


def _by_name(found: list[Object]) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in found}
