"""What is told of a start whose pod an operator makes, and how it is barred."""

import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from dagster_sparkscale import DeclarationError, SparkApplicationCluster
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AlreadyRunning
from dagster_sparkscale.clusters.kubernetes import notes
from dagster_sparkscale.clusters.kubernetes.api import Refused
from dagster_sparkscale.clusters.kubernetes.application_driver import ApplicationDriver
from dagster_sparkscale.clusters.kubernetes.applications import KINDS
from dagster_sparkscale.clusters.kubernetes.snapshot import Snapshot
from dagster_sparkscale.clusters.records.store import Record, Submission
from tests.clusters.kubernetes.pods import ended, pod

KIND = KINDS["kubeflow"]
NAME = "sparkscale-clicks-3"
RECORD = Record("1" * 16, 3, "running", 1.0, "here", (Submission(3, 1.0, "manual"),))


@dataclass
class Objects:
    """An API server with one namespace, and somebody who does something at a certain call."""

    namespace: str = "streams"
    held: dict[str, Any] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    meanwhile: dict[str, Any] = field(default_factory=dict)

    def _happens(self, call: str) -> None:
        self.calls.append(call)
        if (then := self.meanwhile.pop(call, None)) is not None:
            then(self.held)

    def get(self, kind: str, name: str) -> Any:
        self._happens(f"get {kind}")
        return self.held.get(f"{kind}/{name}")

    def find(self, kind: str, **query: str) -> list[Any]:
        if "executor" in query.get("labelSelector", ""):
            return []
        return [each for key, each in self.held.items() if key.startswith(f"{kind}/")]

    def create(self, kind: str, manifest: Any) -> Any:
        self._happens(f"create {kind}")
        key = f"{kind}/{manifest['metadata']['name']}"
        if key in self.held:
            raise Refused("there", 409, "AlreadyExists")
        self.held[key] = manifest
        return manifest

    def patch(self, kind: str, name: str, change: Any) -> Any:
        self.held[f"{kind}/{name}"].setdefault("data", {}).update(change["data"])

    def delete(self, kind: str, name: str, uid: Any = None, grace: Any = None) -> bool:
        self._happens(f"delete {kind}")
        return self.held.pop(f"{kind}/{name}", None) is not None


def application(state: str = "", message: str = "", name: str = NAME) -> Any:
    status = {"applicationState": {"state": state, "errorMessage": message}}
    return {"metadata": {"name": name, "namespace": "streams"}, "status": status}


def launched(**held: Any) -> Objects:
    """A start that was launched, with `pods=` or `application=`."""
    kinds = {"pods": "pods", "application": KIND}
    secret = {f"secrets/{NAME}": {"metadata": {"uid": "u-1"}}}
    return Objects(held={f"{kinds[kind]}/{NAME}": held[kind] for kind in held} | secret)


def driver(kube: Objects, snapshot: Snapshot | None = None) -> ApplicationDriver:
    return ApplicationDriver(kube, "clicks", RECORD, False, snapshot, "kubeflow")  # type: ignore[arg-type]


def test_one_that_waits_for_its_operator_is_starting_and_has_not_begun():
    waiting = driver(launched(application=application()))
    seen = waiting.look()
    assert seen.fate.state is DriverState.STARTING
    assert seen.where == f"pod streams/{NAME}, its operator has yet to make it"
    assert not waiting.has_begun()


def test_one_that_its_operator_could_not_submit_has_failed_and_says_why():
    refused = driver(launched(application=application("SUBMISSION_FAILED", "no such image")))
    fate = refused.look().fate
    assert (fate.state, fate.reason) == (DriverState.FAILED, "SUBMISSION_FAILED: no such image")
    assert refused.has_begun()


def test_one_whose_pod_is_gone_or_whose_application_is():
    for left in (launched(application=application("RUNNING")), launched()):
        fate = driver(left).look().fate
        assert fate.state is DriverState.FAILED
        assert fate.reason is not None and fate.reason.startswith("it has no pod")


def test_a_pod_that_was_made_while_it_was_looked_for_is_not_missed():
    kube = launched(application=application("SUBMITTED"))
    made = {f"pods/{NAME}": pod(state={"running": {}})}
    kube.meanwhile = {f"get {KIND}": lambda held: held.update(made)}
    assert driver(kube).look().fate.state is DriverState.RUNNING


def test_what_its_pod_tells_counts_whatever_the_application_says():
    said = application("FAILED", "driver pod already exist")
    kube = launched(application=said, pods=pod(state={"running": {}}))
    assert driver(kube).look().fate.state is DriverState.RUNNING
    waiting = launched(application=said, pods=pod("Pending"))
    seen = driver(waiting).look()
    assert seen.fate.state is DriverState.STARTING
    assert "FAILED: driver pod already exist" in seen.where


def test_all_streams_at_once_cost_no_call_for_each():
    kube = Objects()
    snapshot = Snapshot(kube, applications={NAME: application()})  # type: ignore[arg-type]
    assert driver(kube, snapshot).look().fate.state is DriverState.STARTING
    assert kube.calls == []


def test_one_that_is_given_up_can_not_begin_any_more():
    kube = launched(application=application())
    driver(kube).kill()
    assert f"{KIND}/{NAME}" not in kube.held
    assert f"configmaps/{NAME}-begun" in kube.held
    # The bar is there before its pod is looked for the last time.
    last = len(kube.calls) - 1 - kube.calls[::-1].index("get pods")
    assert kube.calls.index("create configmaps") < last
    note = notes.read(kube.held[f"secrets/{NAME}"])
    assert note is not None and not note.took
    assert not driver(kube).took()


def test_one_that_had_begun_may_have_left_its_mark():
    kube = launched(application=application("PENDING_RERUN"))
    kube.held[f"configmaps/{NAME}-begun"] = {}
    driver(kube).kill()
    assert driver(kube).took()


def test_the_application_goes_before_its_pod_and_with_it():
    kube = launched(application=application("RUNNING"), pods=pod(state={"running": {}}))
    kube.text = lambda *_, **__: "the log"  # type: ignore[attr-defined]
    driver(kube).kill()
    assert kube.calls.index(f"delete {KIND}") < kube.calls.index("delete pods")
    assert list(kube.held) == [f"secrets/{NAME}", f"configmaps/{NAME}-begun"]


def test_one_that_has_ended_keeps_its_application_with_its_pod():
    kube = launched(application=application("COMPLETED"), pods=pod("Succeeded", state=ended(0)))
    driver(kube).make_way()
    assert f"{KIND}/{NAME}" in kube.held and f"pods/{NAME}" in kube.held


def test_an_application_of_which_nothing_is_remembered_bars_a_start():
    other = "sparkscale-clicks-9"
    kube = Objects(held={f"{KIND}/{other}": application(name=other)})
    with pytest.raises(AlreadyRunning, match=f"{other} is of a driver .*delete it first"):
        driver(kube).make_way()
    kube.held = {f"{KIND}/{other}": application("COMPLETED", name=other)}
    driver(kube).make_way()


def test_an_operator_that_does_not_let_go_is_not_waited_for_for_ever(monkeypatch, caplog):
    from dagster_sparkscale.clusters.kubernetes import application_driver

    monkeypatch.setattr(application_driver, "LET_GO_SECONDS", 0.0)
    kube = launched(application=application())
    kube.delete = lambda *_, **__: True  # type: ignore[method-assign]
    began = time.monotonic()
    driver(kube)._delete_application()
    assert "does not let go of it; does that run?" in caplog.text
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"operator": "google"}, "operator = 'google': must be kubeflow or apache"),
        ({"spark_version": "newest"}, "spark_version = 'newest': must be the version of Spark"),
    ],
)
def test_a_field_that_makes_no_sense_is_refused(given, fault):
    fields = {"operator": "apache", "spark_version": "4.3.0", "image": "spark", **given}
    with pytest.raises(DeclarationError, match=fault):
        SparkApplicationCluster(**fields)
