"""One start of a stream whose pod an operator makes, of a SparkApplication."""

import logging
import time
from typing import ClassVar

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AlreadyRunning
from dagster_sparkscale.clusters.fate import Fate
from dagster_sparkscale.clusters.kubernetes import applications, names, notes, pod_fate
from dagster_sparkscale.clusters.kubernetes.api import Api, Object, Refused, Unreachable
from dagster_sparkscale.clusters.kubernetes.drivers import KILL_SECONDS, PodDriver
from dagster_sparkscale.clusters.kubernetes.manifests import CONTAINERS, Objects
from dagster_sparkscale.clusters.kubernetes.snapshot import Snapshot
from dagster_sparkscale.clusters.kubernetes.templates import Placing
from dagster_sparkscale.clusters.pauses import wait_until
from dagster_sparkscale.clusters.records.store import Record

LET_GO_SECONDS = 15.0
"""Seconds in which a running operator releases a deleted application."""
_log = logging.getLogger(__name__)


class ApplicationDriver(PodDriver):
    """The newest start of a stream, whose pod an operator makes.

    Args:
        operator: the operator that owns the application.
    """

    CONTAINER: ClassVar[str] = CONTAINERS[-1]

    def __init__(
        self,
        api: Api,
        stream: str,
        record: Record,
        forward: bool,
        snapshot: Snapshot | None,
        operator: str,
    ) -> None:
        super().__init__(api, stream, record, forward, snapshot)
        self._operator = operator
        self._kind = applications.KINDS[operator]

    def has_begun(self) -> bool:
        try:
            pod = self.api.get("pods", self.name)
            application = self.api.get(self._kind, self.name) if pod is None else None
        except (Unreachable, Refused):
            return True  # it can't be told
        if application is not None:
            return not applications.may_start(application)
        return pod is None or not pod_fate.never_began(pod)

    def make_way(self) -> None:
        """See to it that no pod of the stream is left, and no application that the record does not
        name.

        Raises:
            AlreadyRunning: a driver is alive, or may be, or an operator may yet make its pod.
        """
        label = f"{names.STREAM}={names.short_name(self.stream)}"
        for found in self.api.find(self._kind, labelSelector=label):
            name = found["metadata"]["name"]
            if name != self.name and applications.may_start(found):
                raise AlreadyRunning(
                    f"the SparkApplication {self.api.namespace}/{name} is of a driver of "
                    f"{self.stream!r} that is not the one remembered (epoch {self.record.epoch}), "
                    "and its operator may make that driver yet: delete it first"
                )
        super().make_way()

    def kill(self) -> None:
        if self._bar() and self.api.get("pods", self.name) is None:
            note = notes.Note(time.time(), "ended before it had begun", took=False)
            notes.leave(self.api, self.name, note)
        super().kill()

    def clear(self) -> None:
        if not self.record.epoch:
            return
        self._bar()
        if self._is_declared_gone or self.api.get("pods", self.name) is None:
            self._delete_application()
        super().clear()

    def _delete_and_wait(self) -> Object | None:
        # Its operator must not take the end of the pod for a reason to make another.
        self._bar()
        self.api.delete(self._kind, self.name)
        last = super()._delete_and_wait()
        self._delete_application()
        return last

    def _bar(self) -> bool:
        """See to it that no process begins as this driver any more, whatever its operator does, and
        whether it is known that none has."""
        secret = self.api.get("secrets", self.name)
        if secret is None:
            return False  # none can
        of = Objects(
            self.stream, self.record.epoch, self.record.id, Placing(self.api.namespace, "", "", 0)
        )
        now = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        begun = {**of.begun(secret["metadata"]["uid"]), "data": {"by": "nobody", "at": now}}
        try:
            self.api.create("configmaps", begun)
        except Refused as refusal:
            if refusal.reason != "AlreadyExists":
                raise
            return False
        return True

    def _delete_application(self) -> None:
        """Delete it and wait until its operator has let go of it; if that is not there to do so,
        nothing is made of it any more all the same."""
        self.api.delete(self._kind, self.name)
        seconds = min(LET_GO_SECONDS, KILL_SECONDS)
        if not wait_until(lambda: self.api.get(self._kind, self.name) is None, seconds, self.EVERY):
            _log.warning(
                "the SparkApplication %s/%s of %r was deleted and is there still: its operator "
                "(%s) does not let go of it; does that run?",
                *(self.api.namespace, self.name, self.stream, self._operator),
            )

    def _fate_without_pod(self) -> tuple[Fate, str]:
        application = self._application()
        if application is None:
            return super()._fate_without_pod()
        if applications.may_start(application):
            waits = applications.waits_for(application, self._operator, time.time())
            return Fate(DriverState.STARTING), waits
        # Made since it was looked for. One of long ago would be in the snapshot, whose applications
        # were listed before its pods.
        looks_again = self._snapshot is None or self._is_new()
        if looks_again and (pod := self.api.get("pods", self.name)) is not None:
            return self._fate(pod)
        if why := applications.failure(application):
            return Fate(DriverState.FAILED, reason=why), ""
        return super()._fate_without_pod()

    def _waits_for(self, pod: Object) -> str:
        waits = super()._waits_for(pod)
        application = None if waits else self._application()
        return applications.failure(application) if application else waits

    def _application(self) -> Object | None:
        if self._snapshot is None:
            return self.api.get(self._kind, self.name)
        listed = self._snapshot.applications.get(self.name)
        if listed is None and self._is_new():
            return self._snapshot.newer(self._kind, self.name)
        return listed
