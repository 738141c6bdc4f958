"""SparkApplications, by which an operator makes the driver's pod. Pure.

There are two operators, kubeflow's and Apache's, each with a resource of its own of that name. Both
hand it to Spark's submission in cluster mode, which takes a pod template and adds what it needs.
Ours is that of the pod that Dagster would make itself; only its words are handed over as the
application's arguments.

What must not change: nothing secret stands in it; neither operator is asked to start a driver
again, or to end one that waits for room.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dagster_sparkscale.clusters.kubernetes.manifests import (
    BEGIN,
    CODE,
    CONTAINERS,
    Manifest,
    Objects,
    as_args,
    heap_mib,
    memory_mib,
)
from dagster_sparkscale.clusters.kubernetes.pod_fate import time_of
from dagster_sparkscale.markdown import cut

KUBEFLOW, APACHE = "kubeflow", "apache"
VERSIONS = {KUBEFLOW: "sparkoperator.k8s.io/v1beta2", APACHE: "spark.apache.org/v1"}
KINDS = {operator: f"{VERSIONS[operator]}/sparkapplications" for operator in VERSIONS}
"""The kind of each operator's applications, as `Api` takes it."""
TAKEN_UP_WITHIN = 60.0
"""Seconds after which an application without a status is one that no operator cares for. kubeflow's
gives it one when its submission is over, which may take half of that."""

_DRIVER, _OURS = CONTAINERS
"""What the container is called in a template, and by both operators."""
_MAIN = f"local://{CODE}/{BEGIN}"
_LONGEST = 300
_NEVER_MILLIS = 100 * 365 * 24 * 3600 * 1000

# States in which an operator may make a pod yet, the first of them in both; in all others that are
# known it has made one, or will not.
_MAY_START = {"", "Submitted"}
_STARTS_AGAIN = {"PENDING_RERUN", "INVALIDATING", "RESUMING", "ScheduledToRestart"}
_HELD = {"SUSPENDING", "SUSPENDED"}
_OVER = {"ResourceReleased", "TerminatedWithoutReleaseResources"}
_STARTED = {
    *_OVER,
    *("SUBMITTED", "RUNNING", "SUCCEEDING", "FAILING", "COMPLETED", "FAILED", "UNKNOWN"),
    *("DriverRequested", "DriverStarted", "DriverReady", "InitializedBelowThresholdExecutors"),
    *("RunningHealthy", "RunningWithPartialCapacity", "RunningWithBelowThresholdExecutors"),
    "Succeeded",
}
_FAILED = {
    *("SUBMISSION_FAILED", "FAILED", "FAILING"),
    *("SchedulingFailure", "Failed", "DriverEvicted"),
    *("DriverStartTimedOut", "ExecutorsStartTimedOut", "DriverReadyTimedOut"),
}


@dataclass(frozen=True)
class ApplicationObjects(Objects):
    """Makes the objects of one start, with a SparkApplication in the place of the pod."""

    operator: str = KUBEFLOW
    spark_version: str = ""

    @property
    def kind(self) -> str:
        return KINDS[self.operator]

    def driver(
        self,
        owner: str,
        command: Sequence[str],
        variables: Sequence[str],
        settings: Mapping[str, str],
    ) -> Manifest:
        # Python and the file that it runs; the words are that file's.
        begin, words = command[:2], as_args(command[2:])
        template = self._template(begin, variables, settings)
        conf = {"spark.kubernetes.driver.pod.name": self.name, **_size(settings)}
        spec = _kubeflow if self.operator == KUBEFLOW else _apache
        return {
            "apiVersion": VERSIONS[self.operator],
            "kind": "SparkApplication",
            "metadata": self._metadata(owner),
            "spec": spec(self, words, template, conf, settings),
        }

    def _template(
        self, begin: Sequence[str], variables: Sequence[str], settings: Mapping[str, str]
    ) -> Manifest:
        """The pod that Dagster would make, but for its name and owner, which Spark and the operator
        give it. Spark adds its own words to those of `begin` (`in_pod.py`)."""
        pod = super().driver("", begin, variables, settings)
        set_elsewhere = ("name", "namespace", "ownerReferences")
        metadata = {
            key: pod["metadata"][key] for key in pod["metadata"] if key not in set_elsewhere
        }
        containers = [
            {**each, "name": _OURS} if each.get("name") == _DRIVER else each
            for each in pod["spec"]["containers"]
        ]
        return {"metadata": metadata, "spec": {**pod["spec"], "containers": containers}}


def _size(settings: Mapping[str, str]) -> dict[str, str]:
    """What Spark's submission has the container ask for, whatever the template says."""
    heap = heap_mib(settings)
    asked = ("spark.kubernetes.driver.request.cores", "spark.kubernetes.driver.limit.cores")
    return {
        "spark.driver.memory": f"{heap}m",
        "spark.driver.memoryOverhead": f"{memory_mib(settings) - heap}m",
        "spark.driver.cores": settings.get("spark.driver.cores", "1"),
        **{key: settings[key] for key in asked if key in settings},
    }


def _kubeflow(
    of: ApplicationObjects,
    words: Sequence[str],
    template: Manifest,
    conf: Mapping[str, str],
    settings: Mapping[str, str],
) -> Manifest:
    placing = of.placing
    spec = {
        "type": "Python",
        "mode": "cluster",
        "sparkVersion": of.spark_version,
        "image": placing.image,
        "mainApplicationFile": _MAIN,
        "arguments": list(words),
        "sparkConf": dict(conf),
        "restartPolicy": {"type": "Never"},
        "driver": {"template": template},
        # For who reads it: the driver asks for its executors itself.
        "executor": {"instances": int(settings.get("spark.executor.instances", "1"))},
    }
    if placing.pull_policy:
        spec["imagePullPolicy"] = placing.pull_policy
    return spec


def _apache(
    of: ApplicationObjects,
    words: Sequence[str],
    template: Manifest,
    conf: Mapping[str, str],
    settings: Mapping[str, str],
) -> Manifest:
    placing = of.placing
    image = {"spark.kubernetes.container.image": placing.image}
    if placing.pull_policy:
        image["spark.kubernetes.container.image.pullPolicy"] = placing.pull_policy
    return {
        "mainClass": "org.apache.spark.deploy.PythonRunner",
        "pyFiles": _MAIN,
        "driverArgs": list(words),
        "runtimeVersions": {"sparkVersion": of.spark_version},
        "sparkConf": {**conf, **image, "spark.kubernetes.driver.podTemplateContainerName": _OURS},
        "driverSpec": {"podTemplateSpec": template},
        "applicationTolerations": {
            "restartConfig": {"restartPolicy": "Never"},
            # Its log is in its pod.
            "resourceRetainPolicy": "Always",
            # Never, or a driver that waits for room would be ended.
            "applicationTimeoutConfig": {
                "driverStartTimeoutMillis": 0,
                "driverReadyTimeoutMillis": 0,
                "executorStartTimeoutMillis": 0,
                # Else it deletes the pod of one that is older than that by force: Kubernetes has
                # forgotten it then, while it runs on at a node that does not answer.
                "forceTerminationGracePeriodMillis": _NEVER_MILLIS,
            },
        },
    }


def may_start(application: Mapping[str, Any]) -> bool:
    """Whether its operator may make a pod yet, as far as is known; a state that is not known tells
    nothing."""
    state, _ = _state(application)
    return not _is_deleted(application) and state not in _STARTED | _FAILED


def waits_for(application: Mapping[str, Any], operator: str, now: float) -> str:
    """What keeps it from having a pod.

    Args:
        now: seconds since the epoch.
    """
    metadata = application.get("metadata") or {}
    state, message = _state(application)
    if state in _MAY_START:
        age = now - (time_of(metadata.get("creationTimestamp")) or now)
        if age < TAKEN_UP_WITHIN:
            return "its operator has yet to make it"
        return (
            f"no operator has taken its SparkApplication up for {age:.0f} s: does that of "
            f"{operator} run, and does it watch the namespace {metadata.get('namespace')}?"
        )
    if state in _STARTS_AGAIN:
        return f"its operator starts it again ({state})"
    if state in _HELD:
        return f"its SparkApplication is suspended ({state})"
    return f"its SparkApplication is {state}" + (f": {message}" if message else "")


def failure(application: Mapping[str, Any]) -> str:
    """What its operator says of its failure; empty: nothing."""
    state, message = _state(application)
    return f"{state}: {message}" if state in _FAILED and message else ""


def _is_deleted(application: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in (application.get("metadata") or {})


def _state(application: Mapping[str, Any]) -> tuple[str, str]:
    """The operator's word for its state, and what it says of that."""
    status = application.get("status") or {}
    if state := status.get("applicationState"):
        return str(state.get("state") or ""), _gist(state.get("errorMessage"))
    state = status.get("currentState") or {}
    if state.get("currentStateSummary") in _OVER:
        # What it died of stands before that.
        before = status.get("stateTransitionHistory") or {}
        failed = [key for key in before if before[key].get("currentStateSummary") in _FAILED]
        state = before[max(failed, key=int)] if failed else state
    return str(state.get("currentStateSummary") or ""), _gist(state.get("message"))


def _gist(message: object) -> str:
    """What is worth telling of a message that may hold all the output of a submission."""
    lines = [line.strip() for line in str(message or "").splitlines() if line.strip()]
    raised = [line for line in lines if "Exception" in line and not line.startswith("at ")]
    text = " ".join(raised[-1:] or lines)
    # What the API server has said, in the words of the client that Spark has for it.
    said = text.partition(" Message: ")[2].partition(". Received status: ")[0]
    return cut(said or text, _LONGEST)
