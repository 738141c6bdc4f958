"""The life of one pod on its node: from what it waits for to the end of its last process."""

import contextlib
import shutil
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dev.kubernetes import images, prepare, probes, telling
from dev.kubernetes.api import Api, Object, Refused
from dev.kubernetes.containers import Container, Specification
from dev.kubernetes.network import Network
from dev.kubernetes.volumes import Missing, Sources, environment

_LOOK = 0.05
_AGAIN = 0.5
"""Seconds until what is missing is looked for again. A real kubelet takes longer each time."""
_TERMINATION_MESSAGE = 4096
EVICT, OUT_OF_MEMORY = "evict", "out-of-memory"
"""Names of files in a pod's folder, by which tests ask for mishaps."""


@dataclass(frozen=True)
class Node:
    """What pods share."""

    api: Api
    network: Network
    folder: Path
    """Below it each pod has a folder, named by its uid; logs stay in `logs`."""
    environment: Mapping[str, str]
    """Of the image."""


class PodGone(Exception):
    """The pod was asked to end before it had started."""


class PodLife(threading.Thread):
    """Runs a pod that was bound to a node, and tells of it, until it has ended for good."""

    def __init__(self, pod: Object, node: Node) -> None:
        super().__init__(name=f"pod {pod['metadata']['name']}", daemon=True)
        self.pod, self._node = pod, node
        self.uid = str(pod["metadata"]["uid"])
        self.folder = node.folder / self.uid
        self.container: Container | None = None
        self.address = node.network.address(self.uid)
        self._spec = pod["spec"]
        self._what = self._spec["containers"][0]
        self._restarts = 0
        self._last: Object | None = None
        self._ending = threading.Event()
        self._grace = 0.0
        self._gone = False

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def end(self, grace: float) -> None:
        """Ask it to end, within so many seconds; less where it was asked before."""
        if not self._ending.is_set() or grace < self._grace:
            self._grace = grace
            self._ending.set()

    def vanish(self) -> None:
        """Its object is gone: end at once, and tell nobody."""
        self._gone = True
        self.end(0)

    def run(self) -> None:
        self.folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        try:
            self._live()
        except PodGone:
            pass
        except Exception as error:
            with contextlib.suppress(Refused):
                told = {"phase": "Failed", "reason": "KubeletFailed", "message": repr(error)}
                telling.patch_status(self._node.api, self.pod, told)
            raise
        finally:
            self._clean_up()

    def _clean_up(self) -> None:
        if self.container is not None:
            self.container.kill()
        self._node.network.give_back(self.uid)
        if self.log.exists():
            kept = self._node.folder / "logs" / f"{self._spec['nodeName']}"
            kept.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.log, kept / f"{self.pod['metadata']['name']}-{self.uid[:8]}.log")

    def _live(self) -> None:
        self._pull()
        while True:
            what = self._put_together()
            self.log.touch()
            self.container = Container(what, self.folder, self._node.network)
            (self.folder / "pid").write_text(str(self.container.pid))
            started = telling.now()
            self._event("Started", f"Started container {self._what['name']}", warning=False)
            self._attend(self.container, started)
            if (ended := self._how_it_ended(started)) is None:
                return
            again = self._spec.get("restartPolicy", "Always")
            code = ended["terminated"]["exitCode"]
            if self._ending.is_set() or again == "Never" or (again == "OnFailure" and not code):
                self._tell(ended, "Succeeded" if code == 0 else "Failed", ready=False)
                return
            self._tell(ended, "Running", ready=False)
            self._restarts, self._last = self._restarts + 1, ended
            self._pause(_AGAIN)

    # Before it runs.

    def _pull(self) -> None:
        image = self._what["image"]
        if images.can_be_had(image):
            return
        why = f'failed to pull and unpack image "{image}": {image}: not found'
        self._event("Failed", f'Failed to pull image "{image}": {why}')
        self._event("Failed", "Error: ErrImagePull")
        self._waits("ErrImagePull", why)
        self._pause(_AGAIN)
        back_off = f'Back-off pulling image "{image}"'
        self._event("BackOff", back_off, warning=False)
        self._event("Failed", "Error: ImagePullBackOff")
        self._waits("ImagePullBackOff", f"{back_off}: ErrImagePull: {why}")
        self._ending.wait()
        raise PodGone

    def _put_together(self) -> Specification:
        told: set[str] = set()
        while True:
            sources = Sources(self._node.api, self.pod, self.address)
            reason, why = "ContainerCreating", ""
            try:
                mounts = prepare.mounts(self._spec, self.folder, sources)
                reason = "CreateContainerConfigError"
                given = environment(self._what, sources)
                image, server = self._node.environment, self._node.network.api_server
                return prepare.specification(self.pod, image, given, mounts, server)
            except (Missing, Refused) as error:
                why = str(error)
            if why not in told:
                told.add(why)
                self._waits(reason, "" if reason == "ContainerCreating" else why)
                failed = "FailedMount" if reason == "ContainerCreating" else "Failed"
                self._event(failed, why if failed == "FailedMount" else f"Error: {why}")
            self._pause(_AGAIN)

    def _pause(self, seconds: float) -> None:
        if self._ending.wait(seconds):
            raise PodGone

    # While it runs.

    def _attend(self, container: Container, begun: str) -> None:
        """Return when it is to end or has ended by itself.

        Args:
            begun: when it was started.
        """
        kinds = [kind for kind in ("startupProbe", "readinessProbe") if self._what.get(kind)]
        # The second begins when the first has gone well. Without one it is so at once.
        passed = dict.fromkeys(kinds, False)
        state = {"running": {"startedAt": begun}}
        self._tell(state, "Running", ready=not kinds, started="startupProbe" not in kinds)
        next_probe = time.monotonic()
        while container.exit_code() is None:
            if self._ending.wait(_LOOK):
                self._end_kindly(container)
                return
            if (self.folder / EVICT).exists():
                return
            if not kinds or time.monotonic() < next_probe:
                continue
            kind, probe = kinds[0], self._what[kinds[0]]
            next_probe = time.monotonic() + probe.get("periodSeconds", 10)
            if probes.answers(self._what, probe, self.address, container) is not passed[kind]:
                passed[kind] = not passed[kind]
                if kind == "startupProbe":
                    kinds.pop(0)
                self._tell(state, "Running", ready=all(passed.values()))

    def _end_kindly(self, container: Container) -> None:
        """First its own command for that, then SIGTERM, in the end SIGKILL."""
        asked = time.monotonic()
        if not self._gone:
            self._event("Killing", f"Stopping container {self._what['name']}", warning=False)
        hook = (self._what.get("lifecycle") or {}).get("preStop") or {}
        if self._grace and "exec" in hook:
            container.run(hook["exec"]["command"], self._grace)
        if self._grace:
            container.send(signal.SIGTERM)
        # It may be given less meanwhile.
        while container.exit_code() is None and time.monotonic() - asked < self._grace:
            time.sleep(_LOOK)
        container.kill()

    # After it has ended.

    def _how_it_ended(self, started: str) -> Object | None:
        """The container's last state; None if it was evicted, which is told of here."""
        assert self.container is not None
        evicted = self.folder / EVICT
        self.container.kill()
        code = self.container.exit_code()
        assert code is not None
        reason = "Completed" if code == 0 else "Error"
        if (self.folder / OUT_OF_MEMORY).exists():
            reason = "OOMKilled"
            (self.folder / OUT_OF_MEMORY).unlink()
        state: Object = {
            "terminated": {
                "exitCode": code,
                "reason": reason,
                "message": self._last_words(code),
                "startedAt": started,
                "finishedAt": telling.now(),
            }
        }
        if not evicted.exists():
            return state
        message = evicted.read_text()
        self._event("Evicted", message)
        by = telling.condition("DisruptionTarget", True, "TerminationByKubelet", message)
        more = {"reason": "Evicted", "message": message, "conditions": [by]}
        self._tell(state, "Failed", ready=False, more=more)
        return None

    def _last_words(self, code: int) -> str:
        said = (self.folder / prepare.MESSAGE).read_bytes()[-_TERMINATION_MESSAGE:]
        falls_back = self._what.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        if not said and code and falls_back:
            lines = self.log.read_bytes()[-2048:].splitlines()
            said = b"\n".join(lines[-80:])
        return said.decode(errors="replace")

    # Telling.

    def _waits(self, reason: str, message: str) -> None:
        self._tell({"waiting": {"reason": reason, "message": message}}, "Pending", ready=False)

    def _tell(
        self,
        state: Object,
        phase: str,
        *,
        ready: bool,
        started: bool = True,
        more: Object | None = None,
    ) -> None:
        if self._gone:
            return
        more = dict(more or {})
        kinds = {"Initialized": True, "ContainersReady": ready, "Ready": ready}
        conditions = [telling.condition(kind, holds) for kind, holds in kinds.items()]
        status = {
            "phase": phase,
            "hostIP": self._node.network.api_server,
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "startTime": telling.now(),
            "conditions": [*conditions, *more.pop("conditions", [])],
            "containerStatuses": telling.container_status(
                self.pod,
                state,
                ready=ready,
                started=started and "running" in state,
                restarts=self._restarts,
                last=self._last,
            ),
            **more,
        }
        while not self._gone:
            try:
                telling.patch_status(self._node.api, self.pod, status)
                return
            except Refused as refused:
                if refused.status not in (0, 500, 503):
                    raise
                time.sleep(_AGAIN)  # the API server is away

    def _event(self, reason: str, message: str, *, warning: bool = True) -> None:
        with contextlib.suppress(Refused):
            telling.emit(self._node.api, self.pod, reason, message, warning=warning)
