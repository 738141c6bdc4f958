"""Looks after the SparkApplications of a namespace as their operators do, or does worse.

It submits with Spark's own spark-submit, in cluster mode, and knows of a driver what its pod tells.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import uuid
from pathlib import Path

from dagster_sparkscale.clusters.java import java_home, spark_home
from dagster_sparkscale.clusters.kubernetes.pod_fate import time_of
from dev.kubernetes.api import Object, Refused
from dev.kubernetes.operators import submission
from dev.kubernetes.running import Reached

_EVERY = 0.2
_FINALIZER = "sparkapplications.spark.apache.org/finalizer"
_SUBMIT_SECONDS = 120.0
FORCED_AFTER = 300.0
"""Seconds after the last change of its state from which Apache's deletes a driver's pod by force,
if its application says nothing else."""
_KINDS = ("sparkoperator.k8s.io/v1beta2", "spark.apache.org/v1")
# What each calls the states that are told apart here: kubeflow's, Apache's.
_WORDS = {
    "submitted": ("SUBMITTED", "DriverRequested"),
    "running": ("RUNNING", "RunningHealthy"),
    "succeeded": ("COMPLETED", "Succeeded"),
    "failed": ("FAILED", "Failed"),
    "refused": ("SUBMISSION_FAILED", "SchedulingFailure"),
    "again": ("PENDING_RERUN", "ScheduledToRestart"),
}


class Operator:
    """Both operators at once, from `start` to `close`.

    Args:
        restarts: how often a driver is started again that has ended, though that is forbidden.
    """

    def __init__(self, cluster: Reached, namespace: str, restarts: int = 0) -> None:
        self.restarts = restarts
        self.submissions = 0
        self._cluster, self._api, self._namespace = cluster, cluster.api, namespace
        self._ended = threading.Event()
        self._specs: dict[str, int] = {}
        self._thread = threading.Thread(target=self._follow, name="operator", daemon=True)
        self._running: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Be down. What it has begun is not finished."""
        self._ended.set()
        if (running := self._running) is not None:
            running.kill()
        if self._thread.ident is not None:
            self._thread.join()

    def _follow(self) -> None:
        while not self._ended.wait(_EVERY):
            try:
                for kind in _KINDS:
                    path = f"/apis/{kind}/namespaces/{self._namespace}/sparkapplications"
                    for each in self._api.items(path):
                        self._attend({"apiVersion": kind, **each}, path)
            except Refused as refused:
                print(f"operator: {refused}", file=sys.stderr, flush=True)
            except Exception:
                traceback.print_exc()

    def _attend(self, app: Object, path: str) -> None:
        metadata = app["metadata"]
        path = f"{path}/{metadata['name']}"
        if "deletionTimestamp" in metadata:
            self._let_go(app, path)
            return
        if not submission.is_kubeflows(app) and not metadata.get("finalizers"):
            self._api.patch(path, {"metadata": {"finalizers": [_FINALIZER]}})
        edited = self._specs.setdefault(metadata["uid"], metadata["generation"])
        state = _state(app)
        if submission.is_kubeflows(app) and edited != metadata["generation"] and state:
            self._specs[metadata["uid"]] = metadata["generation"]
            self._start_again(app, path)
        elif state in ("", "Submitted", *_WORDS["again"]):
            self._submit(app, path)
        elif state in (*_WORDS["submitted"], *_WORDS["running"]):
            self._look(app, path, state)
        elif state == "SUBMISSION_FAILED":
            self._tell(app, path, "failed", app["status"]["applicationState"]["errorMessage"])

    def _let_go(self, app: Object, path: str) -> None:
        forced = not submission.is_kubeflows(app) and _is_forced(app)
        self._api.delete(self._pod(app), {"gracePeriodSeconds": 0} if forced else None)
        if app["metadata"].get("finalizers"):
            self._api.patch(path, {"metadata": {"finalizers": None}})

    def _submit(self, app: Object, path: str) -> None:
        failure = self.submit(app)
        self._tell(app, path, "refused" if failure else "submitted", failure)

    def submit(self, app: Object) -> str:
        """Submit an application, whatever its state; returns what was said of its failure."""
        self.submissions += 1
        attempt = str(uuid.uuid4())
        with tempfile.TemporaryDirectory() as folder:
            template = Path(folder) / "driver-pod-template.json"
            template.write_text(json.dumps(submission.template(app)))
            master = f"k8s://{self._api.server}"
            words = submission.arguments(app, master, str(template), attempt)
            home = spark_home()
            environment = {
                "PATH": os.environ["PATH"],
                "SPARK_HOME": str(home),
                "JAVA_HOME": str(java_home()),
                "KUBECONFIG": str(self._cluster.kubeconfig),
            }
            self._running = process = subprocess.Popen(
                [str(home / "bin" / "spark-submit"), *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            _, said = process.communicate(timeout=_SUBMIT_SECONDS)
            self._running = None
        return f"failed to run spark-submit: {said}" if process.returncode else ""

    def _look(self, app: Object, path: str, state: str) -> None:
        pod = self._api.get(self._pod(app))
        phase = pod["status"].get("phase") if pod else None
        if phase in ("Succeeded", "Failed", None):
            if self.restarts > 0:
                self.restarts -= 1
                self._start_again(app, path)
                return
            said = "" if pod else "driver pod not found"
            self._tell(app, path, "succeeded" if phase == "Succeeded" else "failed", said)
        elif phase == "Running" and state not in _WORDS["running"]:
            self._tell(app, path, "running")

    def _start_again(self, app: Object, path: str) -> None:
        self._delete_pod(app)
        while self._api.get(self._pod(app)) is not None and not self._ended.wait(_EVERY):
            pass
        self._tell(app, path, "again")

    def _delete_pod(self, app: Object) -> None:
        self._api.delete(self._pod(app))

    def _pod(self, app: Object) -> str:
        name = app["spec"]["sparkConf"]["spark.kubernetes.driver.pod.name"]
        return f"/api/v1/namespaces/{self._namespace}/pods/{name}"

    def _tell(self, app: Object, path: str, what: str, said: str = "") -> None:
        kubeflows, apaches = _WORDS[what]
        if submission.is_kubeflows(app):
            status: Object = {"applicationState": {"state": kubeflows, "errorMessage": said}}
        else:
            status = _apaches(app.get("status") or {}, apaches, said)
        if self._api.get(path) is not None:
            self._api.patch(f"{path}/status", {"status": status})


def _apaches(status: Object, state: str, said: str) -> Object:
    """Its status with one more state; those that end a driver are followed by what then becomes of
    its pod, which is kept."""
    history = dict(status.get("stateTransitionHistory") or {})
    ends = ("Succeeded", "Failed", "SchedulingFailure")
    over = ["TerminatedWithoutReleaseResources"] if state in ends else []
    told: Object = {}
    for each in (state, *over):
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        told = {"currentStateSummary": each, "message": said, "lastTransitionTime": at}
        history[str(len(history))] = told
        said = ""
    return {"currentState": told, "stateTransitionHistory": history}


def _is_forced(app: Object) -> bool:
    tolerations = app["spec"].get("applicationTolerations") or {}
    timeouts = tolerations.get("applicationTimeoutConfig") or {}
    seconds = timeouts.get("forceTerminationGracePeriodMillis", FORCED_AFTER * 1000) / 1000
    told = (app.get("status") or {}).get("currentState") or {}
    at = time_of(told.get("lastTransitionTime"))
    return at is not None and at + seconds < time.time()


def _state(app: Object) -> str:
    status = app.get("status") or {}
    kubeflows = (status.get("applicationState") or {}).get("state")
    return str(kubeflows or (status.get("currentState") or {}).get("currentStateSummary") or "")
