"""SparkApplications in both spellings, and what is told of them."""

import json
from dataclasses import replace

import pytest

from dagster_sparkscale.clusters.kubernetes.applications import (
    KINDS,
    TAKEN_UP_WITHIN,
    ApplicationObjects,
    failure,
    may_start,
    waits_for,
)
from dagster_sparkscale.clusters.kubernetes.manifests import CODE
from dagster_sparkscale.clusters.kubernetes.templates import Placing
from dev.kubernetes.operators.submission import arguments
from dev.kubernetes.volumes import expand
from tests.clusters.kubernetes.pods import NOW

PLACING = Placing("streams", "spark:4.3", "sparkscale-driver", 30)
COMMAND = ["python3", f"{CODE}/in_pod.py", "--epoch", "7", "a.py", "cost$", "$(TOKEN)", "--x=1"]
SETTINGS = {"spark.driver.memory": "2g", "spark.executor.instances": "3", "spark.secret": "s3cret"}
BOTH = pytest.mark.parametrize("operator", ["kubeflow", "apache"])


def made(operator, placing=PLACING, settings=SETTINGS):
    objects = ApplicationObjects("word_count", 7, "ab" * 8, placing, operator, "4.3.0")
    return objects.driver("u-1", COMMAND, ["TOKEN"], settings)


def template(application):
    spec = application["spec"]
    driver = spec.get("driver") or spec["driverSpec"]
    return driver.get("template") or driver["podTemplateSpec"]


def container(application):
    found = template(application)["spec"]["containers"]
    return next(each for each in found if each["name"] == "spark-kubernetes-driver")


@BOTH
def test_it_is_of_its_start_and_owned_by_its_secret(operator):
    application = made(operator)
    metadata = application["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("sparkscale-word-count-7", "streams")
    assert [each["uid"] for each in metadata["ownerReferences"]] == ["u-1"]
    # Spark has this label for itself, and kubeflow's operator hands labels on to the pod.
    assert "spark-role" not in metadata["labels"]
    assert metadata["labels"]["dagster-sparkscale/epoch"] == "7"
    assert f"{application['apiVersion']}/sparkapplications" == KINDS[operator]
    assert application["kind"] == "SparkApplication"


def test_neither_operator_is_to_start_a_driver_again():
    assert made("kubeflow")["spec"]["restartPolicy"] == {"type": "Never"}
    tolerations = made("apache")["spec"]["applicationTolerations"]
    assert tolerations["restartConfig"] == {"restartPolicy": "Never"}
    assert tolerations["resourceRetainPolicy"] == "Always"
    # Nor to end one that waits.
    timeouts = dict(tolerations["applicationTimeoutConfig"])
    years = timeouts.pop("forceTerminationGracePeriodMillis") / 1000 / 3600 / 24 / 365
    assert timeouts == {
        "driverStartTimeoutMillis": 0,
        "driverReadyTimeoutMillis": 0,
        "executorStartTimeoutMillis": 0,
    }
    # Nor to forget one whose node does not answer: 0 means at once.
    assert years >= 100


@BOTH
def test_the_pod_is_the_one_that_dagster_would_make(operator):
    pod, found = made(operator), template(made(operator))
    assert set(found) == {"metadata", "spec"}
    assert not {"name", "namespace", "ownerReferences"} & set(found["metadata"])
    assert found["metadata"]["labels"]["dagster-sparkscale/stream"] == "word-count"
    assert found["spec"]["restartPolicy"] == "Never"
    assert found["spec"]["serviceAccountName"] == "sparkscale-driver"
    assert container(pod)["args"] == COMMAND[:2]
    assert container(pod)["terminationMessagePath"] == "/dev/termination-log"
    variables = {each["name"]: each for each in container(pod)["env"]}
    assert variables["TOKEN"]["valueFrom"]["secretKeyRef"]["name"] == "sparkscale-word-count-7"
    assert "s3cret" not in json.dumps(pod)


@BOTH
def test_a_template_of_the_users_keeps_what_it_adds(operator):
    given = {
        "metadata": {"labels": {"team": "clicks"}},
        "spec": {"containers": [{"name": "sidecar"}, {"name": "driver", "tty": True}]},
    }
    application = made(operator, replace(PLACING, driver_template=given))
    found = template(application)["spec"]["containers"]
    assert [each["name"] for each in found] == ["sidecar", "spark-kubernetes-driver"]
    assert container(application)["tty"] is True
    assert template(application)["metadata"]["labels"]["team"] == "clicks"


@BOTH
def test_words_come_as_they_were_given(operator):
    spec = made(operator)["spec"]
    words = spec.get("arguments") or spec["driverArgs"]
    assert [expand(word, {"TOKEN": "x"}) for word in words] == COMMAND[2:]
    assert (spec.get("mainApplicationFile") or spec["pyFiles"]) == f"local://{CODE}/in_pod.py"


@BOTH
def test_spark_is_told_what_the_driver_asks_for(operator):
    conf = made(operator)["spec"]["sparkConf"]
    assert conf["spark.kubernetes.driver.pod.name"] == "sparkscale-word-count-7"
    assert conf["spark.driver.memory"] == "2048m"
    assert conf["spark.driver.memoryOverhead"] == "820m"
    assert conf["spark.driver.cores"] == "1"
    asked = {
        "spark.driver.cores": "2",
        "spark.kubernetes.driver.request.cores": "500m",
        "spark.kubernetes.driver.limit.cores": "3",
    }
    assert made(operator, settings=asked)["spec"]["sparkConf"].items() >= asked.items()
    assert "spark.kubernetes.driver.limit.cores" not in conf


def test_each_says_the_rest_in_its_own_way():
    placing = replace(PLACING, pull_policy="Always")
    spec = made("kubeflow", placing)["spec"]
    assert (spec["image"], spec["imagePullPolicy"]) == ("spark:4.3", "Always")
    assert (spec["type"], spec["mode"], spec["sparkVersion"]) == ("Python", "cluster", "4.3.0")
    assert spec["executor"] == {"instances": 3}
    assert "imagePullPolicy" not in made("kubeflow")["spec"]
    spec = made("apache", placing)["spec"]
    image = "spark.kubernetes.container.image"
    assert spec["sparkConf"][image] == "spark:4.3"
    assert spec["sparkConf"][f"{image}.pullPolicy"] == "Always"
    key = "spark.kubernetes.driver.podTemplateContainerName"
    assert spec["sparkConf"][key] == "spark-kubernetes-driver"
    assert spec["mainClass"] == "org.apache.spark.deploy.PythonRunner"
    assert spec["runtimeVersions"] == {"sparkVersion": "4.3.0"}
    assert f"{image}.pullPolicy" not in made("apache")["spec"]["sparkConf"]


@BOTH
def test_a_submission_has_the_words_last(operator):
    application = made(operator)
    application["metadata"]["uid"] = "u-2"
    words = arguments(application, "k8s://https://x", "/t.json", "s-1")
    ours = [*COMMAND[2:5], "cost$$", "$$(TOKEN)", "--x=1"]
    assert words[-7:] == [f"local://{CODE}/in_pod.py", *ours]


# What is told.


def told(state=None, message="", history=None, **metadata):
    """Of kubeflow's if the state is in capitals."""
    about = {"creationTimestamp": "2027-01-15T07:59:50Z", "namespace": "streams", **metadata}
    if state is None:
        return {"metadata": about}
    if state.isupper() or not state:
        status = {"applicationState": {"state": state, "errorMessage": message}}
    else:
        current = {"currentStateSummary": state, "message": message}
        status = {"currentState": current, "stateTransitionHistory": history or {"0": current}}
    return {"metadata": about, "status": status}


@pytest.mark.parametrize("state", [None, "", "Submitted"])
def test_one_that_nobody_takes_up(state):
    application = told(state)
    assert may_start(application)
    soon = NOW - 10 + TAKEN_UP_WITHIN - 1
    assert waits_for(application, "apache", soon) == "its operator has yet to make it"
    assert waits_for(application, "apache", NOW - 10 + 75) == (
        "no operator has taken its SparkApplication up for 75 s: does that of apache run, and does "
        "it watch the namespace streams?"
    )


@pytest.mark.parametrize("state", ["PENDING_RERUN", "INVALIDATING", "ScheduledToRestart"])
def test_one_that_is_started_again(state):
    assert may_start(told(state))
    assert waits_for(told(state), "x", NOW) == f"its operator starts it again ({state})"


def test_one_that_is_suspended():
    assert may_start(told("SUSPENDED"))
    assert waits_for(told("SUSPENDED"), "x", NOW) == (
        "its SparkApplication is suspended (SUSPENDED)"
    )


def test_a_state_that_is_not_known_tells_of_no_end():
    assert may_start(told("Sleeping", "for now"))
    assert waits_for(told("Sleeping", "for now"), "x", NOW) == (
        "its SparkApplication is Sleeping: for now"
    )


@pytest.mark.parametrize(
    "state",
    [
        *("SUBMITTED", "RUNNING", "SUCCEEDING", "FAILING", "COMPLETED", "FAILED", "UNKNOWN"),
        *("SUBMISSION_FAILED", "DriverRequested", "DriverStarted", "DriverReady", "Failed"),
        *("InitializedBelowThresholdExecutors", "RunningHealthy", "RunningWithPartialCapacity"),
        *("RunningWithBelowThresholdExecutors", "Succeeded", "SchedulingFailure"),
        *("DriverEvicted", "DriverStartTimedOut", "ExecutorsStartTimedOut", "DriverReadyTimedOut"),
        *("ResourceReleased", "TerminatedWithoutReleaseResources"),
    ],
)
def test_one_whose_pod_was_made_or_will_not_be(state):
    assert not may_start(told(state))


def test_one_that_is_being_deleted_starts_nothing():
    assert not may_start(told(None, deletionTimestamp="2027-01-15T08:00:00Z"))


def test_a_failure_is_told_with_what_matters_of_it():
    said = (
        "failed to run spark-submit: WARNING: Using incubator modules\n"
        'Exception in thread "main" io.fabric8.X: Failure executing: POST at: https://x/pods.\n'
        "\tat io.fabric8.Y.of(Exception.java:1)\n"
        'Caused by: KubernetesClientException: pods "a" is forbidden: exceeded quota\n'
        "\tat z\n"
        "bye\n"
    )
    assert failure(told("SUBMISSION_FAILED", said)) == (
        'SUBMISSION_FAILED: Caused by: KubernetesClientException: pods "a" is forbidden: '
        "exceeded quota"
    )
    client = (
        "Exception in thread main io.fabric8.X: Failure executing: POST at: https://x/pods. "
        'Message: Pod "a" is invalid: no. Received status: Status(apiVersion=v1)'
    )
    assert failure(told("FAILED", client)) == 'FAILED: Pod "a" is invalid: no'
    assert failure(told("FAILED", "driver pod\n not found")) == "FAILED: driver pod not found"
    assert len(failure(told("FAILED", "x" * 999))) == len("FAILED: ") + 300
    assert failure(told("FAILED")) == failure(told("RUNNING", "fine")) == failure(told()) == ""


def test_what_apaches_died_of_stands_before_what_then_became_of_its_pod():
    history = {
        "0": {"currentStateSummary": "Submitted", "message": "a"},
        "9": {"currentStateSummary": "SchedulingFailure", "message": "an older one"},
        "10": {"currentStateSummary": "SchedulingFailure", "message": "no role"},
        "11": {"currentStateSummary": "TerminatedWithoutReleaseResources", "message": "kept"},
    }
    application = told("TerminatedWithoutReleaseResources", "kept", history)
    assert failure(application) == "SchedulingFailure: no role"
    ended = told("ResourceReleased", "gone", {"0": {"currentStateSummary": "Succeeded"}})
    assert failure(ended) == ""
