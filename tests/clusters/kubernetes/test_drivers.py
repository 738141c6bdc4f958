"""What is told of a driver by what is found of it, where the API server's answers are odd."""

import time
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from dagster_sparkscale import DeclarationError, KubernetesCluster
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AgentUnreachable, ClusterError
from dagster_sparkscale.clusters.kubernetes.api import Refused, Unreachable
from dagster_sparkscale.clusters.kubernetes.drivers import LAUNCHING, NEW, PodDriver
from dagster_sparkscale.clusters.kubernetes.launch import Parts, launch
from dagster_sparkscale.clusters.kubernetes.manifests import Objects
from dagster_sparkscale.clusters.kubernetes.snapshot import Snapshot
from dagster_sparkscale.clusters.kubernetes.templates import Placing
from dagster_sparkscale.clusters.records.store import Holding, Process, Record, Submission
from dagster_sparkscale.observe.end_report import EndReport, Stopped
from tests.clusters.kubernetes.pods import ended, pod
from tests.clusters.running import stream


@dataclass
class Nothing:
    """An API server that has no object at all, or one pod."""

    namespace: str = "streams"
    pod: Any = None
    refuses: Refused | None = None
    asked: list[str] = field(default_factory=list)
    silent: bool = False

    def get(self, kind: str, name: str) -> Any:
        self.asked.append(f"{kind}/{name}")
        if self.silent:
            raise Unreachable("the API server can't do it now")
        return self.pod if kind == "pods" else None

    def find(self, kind: str, **query: str) -> list[Any]:
        return []

    def path(self, kind: str) -> str:
        return kind

    def listed(self, path: str, keep: Any, **query: str) -> list[Any]:
        return []

    def create(self, kind: str, manifest: Any) -> Any:
        assert self.refuses
        raise self.refuses


def state(record: Record) -> DriverState:
    return PodDriver(Nothing(), "clicks", record, False).look().fate.state  # type: ignore[arg-type]


def test_a_start_is_under_way_by_its_submitters_clock_alone():
    here, there = Process("here", 1), Process("there", 1)
    now = time.time()
    mine = Holding("start", 1, now - 2, here)
    record = Record(
        "1" * 16, 3, "running", now, "here", (Submission(3, now, "manual"),), here, lease=mine
    )
    assert state(record) is DriverState.STARTING
    assert state(replace(record, lease=None)) is DriverState.FAILED
    # Another has taken the lease since, by a clock that is behind, or that is wrong by hours.
    for behind in (5.0, 7200.0):
        later = replace(record, lease=Holding("stop", 2, now - behind, there))
        assert state(later) is DriverState.FAILED
    ahead = replace(record, history=(Submission(3, now + LAUNCHING + 60, "manual"),))
    assert state(ahead) is DriverState.FAILED


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("AlreadyExists", "there is a Secret streams/sparkscale-clicks-3 already"),
        ("Conflict", "could not be launched: cannot be fulfilled on resourcequotas"),
    ],
)
def test_a_conflict_over_a_quota_is_not_taken_for_a_secret_that_is_there(reason, told):
    refusal = Refused("cannot be fulfilled on resourcequotas", 409, reason)
    api = Nothing(refuses=refusal)
    objects = Objects("clicks", 3, "1" * 16, Placing("streams", "spark", "driver", 30))
    record = Record("1" * 16, 3, "running", 0.0, "", ())
    parts = Parts({}, {}, {}, b"", (), {})
    with pytest.raises(ClusterError, match=told):
        launch(api, None, objects, record, parts)  # type: ignore[arg-type]


def test_a_start_while_all_streams_are_looked_at_is_not_taken_for_one_without_a_pod():
    """Its pod was not there when pods were listed; its record, listed later, has it launched."""
    kube = Nothing(pod=pod(state={"running": {}}))
    now = time.time()
    record = Record("1" * 16, 3, "running", now, "here", (Submission(3, now, "manual"),))
    seen = PodDriver(kube, "clicks", record, False, Snapshot(kube)).look()  # type: ignore[arg-type]
    assert seen.fate.state is DriverState.RUNNING
    # What ended long ago costs a tick nothing.
    kube.asked.clear()
    long_ago = replace(record, history=(Submission(3, now - NEW - 1, "manual"),))
    seen = PodDriver(kube, "clicks", long_ago, False, Snapshot(kube)).look()  # type: ignore[arg-type]
    assert seen.fate.state is DriverState.FAILED and kube.asked == []


@pytest.mark.parametrize(
    "field",
    ["service_account", "executor_service_account", "agent_bind", "kubeconfig", "context"],
)
def test_a_field_that_says_nothing_is_refused(field):
    with pytest.raises(DeclarationError, match=f"{field} = ' ': must not be empty"):
        KubernetesCluster(image="spark", **{field: " "})


def test_the_agent_of_a_pod_that_waits_is_not_asked_but_told_of():
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    server = Nothing(pod=pod("Pending", state={"waiting": waiting}, started=False))
    record = Record("1" * 16, 3, "running", 1.0, "here", (Submission(3, 1.0, "manual"),))
    driver = PodDriver(server, "clicks", record, False)  # type: ignore[arg-type]
    with pytest.raises(AgentUnreachable, match="its pod waits: ImagePullBackOff: no such image"):
        driver.agent()
    assert not driver.has_begun()


def test_where_the_api_server_is_silent_a_driver_that_is_to_end_may_have_begun():
    """For a moment, in the minutes that a stop may take: its agent is asked on."""
    server = Nothing(silent=True)
    record = Record("1" * 16, 3, "running", 1.0, "here", (Submission(3, 1.0, "manual"),))
    assert PodDriver(server, "clicks", record, False).has_begun()  # type: ignore[arg-type]


@dataclass
class Going(Nothing):
    """An API server with one pod, and how that looks, time after time, once it is deleted."""

    after: list[Any] = field(default_factory=list)
    deleted: bool = False
    noted: dict[str, str] | None = None

    def get(self, kind: str, name: str) -> Any:
        if kind != "pods":
            return None if self.noted is None else {"data": self.noted}
        if not self.deleted:
            return self.pod
        seen = self.after.pop(0) if self.after else None
        if isinstance(seen, Unreachable):
            raise seen
        return seen

    def delete(self, kind: str, name: str, grace: int | None = None) -> None:
        self.deleted = self.deleted or kind == "pods"

    def text(self, *asked: str, **query: str) -> str:
        return "the log"

    def patch(self, kind: str, name: str, change: Any) -> None:
        self.noted = change["data"]


WAITS = pod("Pending", state={"waiting": {"reason": "ContainerCreating"}}, started=False)
SILENT = Unreachable("the API server can't do it now")
TOOK, FENCED = (ended(137, message=text) for text in ('{"took": true}', '{"fenced": "another"}'))


@pytest.mark.parametrize(
    ("before", "after", "may_have"),
    [
        (WAITS, [], False),
        (WAITS, [WAITS], False),
        # It began while it was being deleted, or its node had not told yet that it has.
        (WAITS, [WAITS, pod(state={"running": {}})], True),
        (WAITS, [pod("Failed", state=TOOK)], True),
        (pod(state={"running": {}}), [], True),
        (pod(state={"running": {}}), [pod("Failed", state=FENCED)], False),
        # The API server is silent for a moment, while it is being deleted.
        (pod(state={"running": {}}), [SILENT, pod("Failed", state=FENCED), SILENT], False),
    ],
)
def test_whether_one_that_is_killed_may_have_left_its_mark_is_told_by_the_last_look_at_it(
    monkeypatch, before, after, may_have
):
    monkeypatch.setattr(PodDriver, "EVERY", 0.0)
    server = Going(pod=before, after=list(after))
    record = Record("1" * 16, 3, "running", 1.0, "here", (Submission(3, 1.0, "manual"),))
    driver = PodDriver(server, "clicks", record, False)  # type: ignore[arg-type]
    driver.kill()
    assert server.deleted and driver.took() is may_have


def test_one_that_has_ended_by_itself_just_before_it_is_killed_tells_how():
    words = EndReport(True, stopped=Stopped(1.0, True, True)).as_json()
    server = Going(pod=pod("Succeeded", state=ended(0, message=words)))
    record = Record("1" * 16, 3, "stopped", 1.0, "here", (Submission(3, 1.0, "manual"),))
    driver = PodDriver(server, "clicks", record, False)  # type: ignore[arg-type]
    driver.kill()
    assert not server.deleted
    assert driver.describe().ending == "the program has ended by itself"


class Full(Nothing):
    """An API server whose quota is used up, also by a driver's pod such as it is asked to make."""

    def create(self, kind: str, manifest: Any, **query: str) -> Any:
        self.pod = {**manifest, "status": self.pod["status"]}
        raise Refused('pods "a" is forbidden: exceeded quota: q', 403, "Forbidden")


def test_in_a_quota_only_a_driver_that_lives_makes_way(monkeypatch):
    server = Full()
    monkeypatch.setattr(KubernetesCluster, "_api", lambda self: server)
    cluster = KubernetesCluster(image="spark")
    server.pod = pod(state={"running": {}})
    cluster.check(stream("clicks"))
    server.pod = pod("Failed", state=ended(1))  # which counts no more
    with pytest.raises(ClusterError, match="exceeded quota"):
        cluster.check(stream("clicks"))


class Mute(Nothing):
    """An API server that gives no logs, as where the node does not answer it."""

    def text(self, *asked: str, **query: str) -> str:
        raise Unreachable("dial tcp 10.0.0.7:10250: i/o timeout")


def test_a_driver_that_ended_at_once_says_why_also_where_its_log_can_not_be_had():
    server = Mute(pod=pod("Failed", state=ended(1, message='{"raised": "ValueError: no such"}')))
    record = Record("1" * 16, 3, "running", 1.0, "here", (Submission(3, 1.0, "manual"),))
    driver = PodDriver(server, "clicks", record, False)  # type: ignore[arg-type]
    with pytest.raises(ClusterError, match="at once: exit code 1: ValueError: no such") as caught:
        driver.await_agent(1.0)
    assert "i/o timeout" in str(caught.value)


def test_one_that_was_launched_and_can_not_be_looked_at_may_run():
    record = Record("1" * 16, 3, "running", 1.0, "here", (Submission(3, 1.0, "manual"),))

    class Unread(PodDriver):
        def look(self):
            raise ClusterError("what is remembered of it can't be read")

    driver = Unread(Mute(), "clicks", record, False).await_agent(0.2)  # type: ignore[arg-type]
    assert (driver.epoch, driver.state) == (3, DriverState.UNKNOWN)
    assert driver.state.alive
    assert driver.exit_reason == "what is remembered of it can't be read"


def test_one_that_was_declared_gone_may_have_left_its_mark_whatever_its_node_has_told_of_it():
    waits = pod("Pending", state={"waiting": {"reason": "ContainerCreating"}}, started=False)
    record = Record("1" * 16, 3, "running", 1.0, "here", (Submission(3, 1.0, "manual"),), gone=3)
    driver = PodDriver(Nothing(pod=waits), "clicks", record, False)  # type: ignore[arg-type]
    assert driver.took()
    driver.api.pod = pod("Failed", state=FENCED)  # type: ignore[attr-defined]  # it was back
    assert not driver.took()
