"""A driver in a pod: its fate, its agent, its end."""

import time
from dataclasses import replace
from typing import ClassVar

from dagster_sparkscale.clusters.agents.agent import RemoteAgent
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AgentUnreachable, AlreadyRunning, ClusterError
from dagster_sparkscale.clusters.fate import Fate, Observed, declared_gone
from dagster_sparkscale.clusters.kubernetes import executors, names, notes, pod_fate, spark
from dagster_sparkscale.clusters.kubernetes.api import Api, Object, Refused, Unreachable
from dagster_sparkscale.clusters.kubernetes.forward import forwarded
from dagster_sparkscale.clusters.kubernetes.manifests import CERTIFICATE, CONTAINER, TOKEN, text_of
from dagster_sparkscale.clusters.kubernetes.snapshot import DRIVERS, Snapshot
from dagster_sparkscale.clusters.pauses import pauses
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.submitted import SubmittedDriver

LAUNCHING = 15.0
"""Seconds in which a start that has its epoch makes its pod."""
NEW = 120.0
"""Seconds for which a start may be missing in a snapshot that was taken around it."""
JUST = 0.5
"""Seconds for which a pod that was looked at is as it was found."""
EXPLAINED = 20.0
"""Seconds for which the events of a pod that is awaited are not read again: they only explain."""
KILL_SECONDS = 60.0
"""Seconds in which a deleted pod is gone, if its node answers."""
KEPT_LINES = 200
"""Lines of a driver's log that are kept when its pod is deleted."""


class PodDriver(SubmittedDriver):
    """The newest start of a stream. One class, as each step of its end depends on what the others
    have found of its pod, its Secret and its note.

    Args:
        forward: whether the agent is reached through the API server.
        snapshot: the objects of all streams; None: Kubernetes is asked for this one's.
    """

    EVERY: ClassVar[float] = 5.0
    CONTAINER: ClassVar[str] = CONTAINER
    TOLD_BY: ClassVar[str] = "the API server and its agent"

    def __init__(
        self, api: Api, stream: str, record: Record, forward: bool, snapshot: Snapshot | None = None
    ) -> None:
        super().__init__(stream, record)
        self.api = api
        self.name = names.of_epoch(stream, record.epoch)
        self._forward = forward
        self._snapshot = snapshot
        self._seen: tuple[float, Object | None] | None = None
        """The pod as the last look has found it, and when that was, by `time.monotonic()`."""
        self._known: RemoteAgent | None = None
        self._explained: tuple[float, list[Object]] | None = None
        """The events as they were read last, and when."""

    def look(self) -> Observed:
        try:
            pod = self._find("pods")
            self._seen = time.monotonic(), pod
            if pod is None and self._snapshot is not None and self._is_new():
                # The pods were listed before the records.
                pod = self._snapshot.newer("pods", self.name)
            fate, waits_for = self._fate(pod)
        except (Unreachable, Refused) as error:
            pod, fate, waits_for = None, Fate(DriverState.UNKNOWN, reason=str(error)), ""
        if fate.state is DriverState.UNKNOWN:
            fate = self.by_its_agent(fate)
        report = None if pod is None else pod_fate.end_report(pod)
        if report and report.raised and fate.how == "exit code":
            why = pod_fate.with_cure(report.raised)
            fate = replace(fate, reason=f"{fate.reason}: {why}")
        place = pod_fate.place_of(pod, self.api.namespace, self.name, waits_for)
        record, alive = self.record, fate.state is DriverState.RUNNING
        return Observed(
            fate,
            where=place,
            agent_url=self._url if alive else None,
            app_id=spark.app_id(self.stream, record.epoch, record.id) if pod else None,
            ui_url=f"http://{self._host}:{spark.UI_PORT}" if alive else None,
            stopped=report.stopped if report else None,
            fenced=report.fenced if report else None,
            slots=report.slots if report else None,
            lineage=report.lineage if report else None,
        )

    def agent(self) -> RemoteAgent:
        if self._known is None:
            self._known = self._agent()
        return self._known

    def _agent(self) -> RemoteAgent:
        pod = self._just_seen()
        if pod is not None and pod_fate.never_began(pod):
            why = self._waits_for(pod) or "it was made a moment ago"
            raise AgentUnreachable(
                f"the agent of {self.stream!r} has not begun, its pod waits: {why}"
            )
        secret = self._find("secrets")
        token = None if secret is None else text_of(secret, TOKEN)
        if secret is None or token is None:
            raise AgentUnreachable(
                f"the agent of {self.stream!r} can't be asked: there is no Secret "
                f"{self.api.namespace}/{self.name} with its token; the driver is still starting, "
                "or has ended"
            )
        api, name = self.api, self.name

        def connect(deadline: float) -> object:
            return forwarded(api.access, api.namespace, name, spark.AGENT_PORT, deadline)

        return RemoteAgent(
            self.stream,
            self.record.epoch,
            self._url,
            token,
            certificate=text_of(secret, CERTIFICATE),
            connect=connect if self._forward else None,  # type: ignore[arg-type]  # as one
        )

    def log(self, lines: int) -> str:
        try:
            found = self.api.text(
                "pods", self.name, "log", tailLines=str(lines), container=self.CONTAINER
            )
        except Refused as refusal:
            if refusal.code == 403:
                raise
            # No pod, or its container was never started.
            note = notes.read(self._find("secrets"))
            found = note.log if note else ""
        return "\n".join(found.splitlines()[-lines:])

    def make_way(self) -> None:
        """See to it that nothing of the stream's drivers is left, remembered or not.

        Raises:
            AlreadyRunning: a driver is alive, or may be, remembered or not.
            ClusterError: something that an ended driver left behind can't be removed.
        """
        self.refuse_if_alive()
        label = f"{DRIVERS},{names.STREAM}={names.short_name(self.stream)}"
        for pod in self.api.find("pods", labelSelector=label):
            name = pod["metadata"]["name"]
            if name == self.name or self._was_declared_gone(pod):
                continue
            if pod_fate.fate_of(pod, time.time()).state.alive:
                raise AlreadyRunning(
                    f"the pod {self.api.namespace}/{name} is of a driver of {self.stream!r} that "
                    f"is not the one remembered (epoch {self.record.epoch}): was its ConfigMap "
                    f"{names.of_record(self.stream)} deleted, or an older one put back? Delete "
                    "that pod first. Two drivers on one checkpoint lose data"
                )
        self.clear()

    def foresee_its_end(self) -> None:
        """Find, while it runs, what would keep it from being known to have ended.

        Raises:
            ClusterError: the driver's node does not answer; says what to do.
        """
        pod = self.api.get("pods", self.name)
        fate = Fate(DriverState.RUNNING) if pod is None else pod_fate.fate_of(pod, time.time())
        if fate.state is DriverState.UNKNOWN:
            raise ClusterError(
                f"{self.stream!r}: {pod_fate.place_of(pod, self.api.namespace, self.name)}: "
                f"{fate.reason}. Stopped now, it would not be known to have ended, and no other "
                "could be started. Wait until the node is back or, when you are certain that it is "
                f"dead, {self._cure}"
            )
        executors.warn_of_silent(self.api, self._labels)

    def has_begun(self) -> bool:
        try:
            pod = self._just_seen()
        except (Unreachable, Refused):
            return True  # it can't be told
        return pod is None or not pod_fate.never_began(pod)

    def kill(self) -> None:
        pod = self.api.get("pods", self.name)
        # One that has just ended by itself tells how.
        if pod is not None and pod_fate.fate_of(pod, time.time()).state.alive:
            log = self._log_or_nothing()
            # It may begin, or tell more, until it is gone.
            took = pod_fate.took(self._delete_and_wait() or pod)
            note = notes.Note(time.time(), "killed", log, took)
            notes.leave(self.api, self.name, note)
        self.clear()

    def clear(self) -> None:
        if not self.record.epoch:
            return
        if self._is_declared_gone:
            self._delete_what_is_gone()
            return
        pod, proved = self.api.get("pods", self.name), True
        if pod is not None:
            self._refuse_unless_ended(pod)
        elif not self._has_note():
            # Whoever was held up before he made the pod makes none that runs (`launch.py`).
            self.api.delete("secrets", self.name)
            if proved := self.api.get("pods", self.name) is not None:
                self._delete_and_wait()
        # Of a driver that was killed: Spark does not delete them then.
        executors.end(self.api, self._labels, KILL_SECONDS, self.EVERY, proved)

    def end_was_noticed(self) -> bool:
        """Whether its pod, or who has ended it, tells of its end; a pod that somebody has deleted
        by force, or that went with its node, does not."""
        pod = self.api.get("pods", self.name)
        if pod is not None:
            return not pod_fate.fate_of(pod, time.time()).state.alive
        return self._has_note()

    def took(self) -> bool:
        """Whether the driver may have left its mark in its checkpoint, and did not report that it
        lost it."""
        if (pod := self.api.get("pods", self.name)) is not None:
            silent = pod_fate.fate_of(pod, time.time()).state.alive
            return (silent and self._is_declared_gone) or pod_fate.took(pod)
        note = notes.read(self.api.get("secrets", self.name))
        return note is None or note.took

    def _fate(self, pod: Object | None) -> tuple[Fate, str]:
        """What has become of it, and what it waits for."""
        gone = declared_gone(self.record)
        if pod is not None:
            fate = pod_fate.fate_of(pod, time.time())
            if gone and fate.state.alive:
                return gone, ""
            if fate.state is not DriverState.STARTING:
                return fate, ""
            return fate, self._waits_for(pod)
        if (note := notes.read(self._find("secrets"))) is not None:
            return Fate(DriverState.FAILED, ended_at=note.at, reason=note.reason), ""
        if gone:
            return gone, ""
        if self._is_being_launched():
            return Fate(DriverState.STARTING), ""
        return self._fate_without_pod()

    def _fate_without_pod(self) -> tuple[Fate, str]:
        """The fate of a driver that was launched and has no pod."""
        return Fate(DriverState.FAILED, reason=pod_fate.end_without_pod(self._events(None))), ""

    def _waits_for(self, pod: Object) -> str:
        """What keeps its pod from running."""
        # Its events are asked for only where the pod itself does not say.
        return pod_fate.waits_for(pod, ()) or pod_fate.waits_for(pod, self._events(pod))

    def _is_being_launched(self) -> bool:
        """Whether who has given it its epoch still has the lease, and may be about to make its
        pod. A later lease means that he is not: see `launch.py`."""
        lease, at = self.record.lease, self.record.submitted_at
        if lease is None or lease.process != self.record.submitter:
            return False
        # Two times of one clock; that of who looks may be another.
        return lease.since <= at and abs(time.time() - at) < LAUNCHING

    def _is_new(self) -> bool:
        return abs(time.time() - self.record.submitted_at) < NEW

    def _just_seen(self) -> Object | None:
        """The pod; not asked for again right after a look."""
        if self._seen is not None and time.monotonic() - self._seen[0] < JUST:
            return self._seen[1]
        return self._find("pods")

    def _find(self, kind: str) -> Object | None:
        if self._snapshot is None:
            return self.api.get(kind, self.name)
        return (self._snapshot.pods if kind == "pods" else self._snapshot.secrets).get(self.name)

    def _events(self, pod: Object | None) -> list[Object]:
        """The events of the driver's pod; none where they can't be read, as they only explain."""
        if pod is not None and not pod_fate.may_be_explained(pod):
            return []
        try:
            if self._snapshot is not None:
                return self._snapshot.events(self.name)
            if self._explained is None or time.monotonic() - self._explained[0] > EXPLAINED:
                query = f"involvedObject.kind=Pod,involvedObject.name={self.name}"
                found = self.api.find("events", fieldSelector=query)
                self._explained = time.monotonic(), found
            return self._explained[1]
        except ClusterError:
            return []

    def _log_or_nothing(self) -> str:
        try:
            return self.log(KEPT_LINES)
        except ClusterError:
            return ""

    def _refuse_unless_ended(self, pod: Object) -> None:
        """Look for the pod again: a launch that was held up may have made it since the last
        look."""
        if not pod_fate.fate_of(pod, time.time()).state.alive:
            return
        raise AlreadyRunning(
            f"the pod {self.api.namespace}/{self.name} of {self.stream!r} was made just now, by an "
            "operation that had been held up: look at the stream and try again"
        )

    def _has_note(self) -> bool:
        return notes.read(self.api.get("secrets", self.name)) is not None

    def _delete_and_wait(self) -> Object | None:
        """Delete the pod. Returns it as it was last seen; None: it was gone at once."""
        last: Object | None = None
        self.api.delete("pods", self.name, grace=1)
        deadline = time.monotonic() + KILL_SECONDS
        for pause in pauses(self.EVERY):
            late = time.monotonic() > deadline
            try:
                if (pod := self.api.get("pods", self.name)) is None:
                    return last
                last = pod
            except Unreachable:  # it may yet tell how it ended
                if late:
                    raise
            if late:
                raise ClusterError(
                    f"{self.stream!r}: the pod {self.api.namespace}/{self.name} was deleted "
                    f"{KILL_SECONDS:.0f} s ago and is there still: its node does not answer. When "
                    f"you are certain that the node is dead, {self._cure}"
                )
            time.sleep(pause)
        raise AssertionError("pauses have no end")

    def _delete_what_is_gone(self) -> None:
        """Delete the pods of a driver that a person declared gone, and of its executors, without
        waiting for nodes that do not answer."""
        pod = self.api.get("pods", self.name)
        if pod is not None and pod_fate.fate_of(pod, time.time()).state.alive:
            self.api.delete("pods", self.name, grace=0)
        self.api.delete_all("pods", grace=0, labelSelector=executors.selector(self._labels))

    def _was_declared_gone(self, pod: Object) -> bool:
        """Whether a person has declared the driver of `pod` gone."""
        labels = pod["metadata"]["labels"]
        epoch = str(labels.get(names.EPOCH))
        ours = labels.get(names.RECORD) == self.record.id
        return ours and epoch.isdecimal() and int(epoch) <= self.record.gone

    @property
    def _is_declared_gone(self) -> bool:
        return self.record.gone == self.record.epoch

    @property
    def _cure(self) -> str:
        """The command that deletes the pod, whatever its node says: the end of a sentence."""
        return f"run kubectl delete pods -n {self.api.namespace} {self.name} --force"

    @property
    def _labels(self) -> dict[str, str]:
        return names.labels(self.stream, self.record.epoch, self.record.id)

    @property
    def _host(self) -> str:
        return spark.host(self.stream, self.record.epoch, self.api.namespace)

    @property
    def _url(self) -> str:
        return f"https://{self._host}:{spark.AGENT_PORT}"
