"""What has become of a pod, in words."""

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.fate import Fate
from dagster_sparkscale.clusters.kubernetes.pod_fate import (
    end_report,
    end_without_pod,
    event_time,
    fate_of,
    never_began,
    place_of,
    took,
    waits_for,
    with_cure,
)
from tests.clusters.kubernetes.pods import NOW, condition, ended, event, pod

AT = NOW - 30.0


# Alive.


def test_a_pod_whose_agent_listens_runs():
    assert fate_of(pod(state={"running": {}}), NOW) == Fate(DriverState.RUNNING)


@pytest.mark.parametrize(
    "seen",
    [
        pod("Pending"),
        pod("Pending", state={"waiting": {"reason": "ContainerCreating"}}, started=False),
        pod(state={"running": {}}, started=False),
        {"metadata": {}},
    ],
)
def test_before_that_it_is_starting(seen):
    assert fate_of(seen, NOW) == Fate(DriverState.STARTING)


def test_one_that_is_being_deleted_runs_until_it_has_ended():
    seen = pod(state={"running": {}})
    seen["metadata"]["deletionTimestamp"] = "2027-01-15T07:59:05Z"
    assert fate_of(seen, NOW).state is DriverState.RUNNING


@pytest.mark.parametrize(
    ("seen", "never"),
    [
        (pod("Pending"), True),
        (pod("Pending", state={"waiting": {"reason": "ImagePullBackOff"}}, started=False), True),
        (pod("Pending", state={"running": {}}), False),
        (pod("Pending", state=ended(1)), False),
        (pod(state={"waiting": {"reason": "ContainerCreating"}}), False),
        (pod(state={"running": {}}), False),
        (pod("Unknown"), False),
        ({"metadata": {}}, False),
    ],
)
def test_only_what_is_known_never_to_have_run_has_nothing_to_finish(seen, never):
    assert never_began(seen) is never


# Nothing can be told.


def test_a_pod_that_should_be_gone_for_long_can_not_be_told():
    seen = pod(state={"running": {}})
    seen["metadata"]["deletionTimestamp"] = "2027-01-15T07:58:55Z"
    reason = "it was to be deleted, but its node node-1 does not answer"
    assert fate_of(seen, NOW) == Fate(DriverState.UNKNOWN, reason=reason)


def test_a_pod_of_a_node_that_was_lost_can_not_be_told():
    lost = [condition("ContainersReady", "True"), condition("Ready", "False", "NodeNotReady")]
    seen = pod(state={"running": {}}, conditions=lost)
    reason = "its node node-1 does not answer"
    assert fate_of(seen, NOW) == Fate(DriverState.UNKNOWN, reason=reason)
    assert fate_of(pod("Unknown"), NOW) == Fate(DriverState.UNKNOWN, reason=reason)


@pytest.mark.parametrize(
    ("ready", "containers", "reason"),
    [
        ("False", "False", "ContainersNotReady"),
        ("True", "True", ""),
        ("False", "True", "ReadinessGatesNotReady"),
    ],
)
def test_one_that_is_not_ready_for_another_reason_is_not_lost(ready, containers, reason):
    told = [condition("Ready", ready, reason), condition("ContainersReady", containers)]
    assert fate_of(pod(state={"running": {}}, conditions=told), NOW).state is DriverState.RUNNING


# Ended.


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (ended(0, "Completed"), "its program returned, exit code 0"),
        (ended(1), "exit code 1"),
        (ended(128), "exit code 128"),
        (ended(137), "killed by signal 9"),
        (ended(143), "killed by signal 15"),
        (ended(128 + 64), "killed by signal 64"),
        (ended(255), "exit code 255"),  # `sys.exit(-1)`
        (
            ended(137, "OOMKilled"),
            "killed by signal 9: out of memory (OOMKilled), its limit is 1433Mi",
        ),
        (ended(1, "OOMKilled"), "exit code 1: out of memory (OOMKilled), its limit is 1433Mi"),
        (
            ended(128, "StartError", message='exec: "python3": not found'),
            'could not be started: exec: "python3": not found',
        ),
        (
            ended(137, "ContainerStatusUnknown"),
            "its node has lost it, and can't say how it ended",
        ),
        # So does containerd when its node has been started anew.
        (ended(255, "Unknown"), "its node has lost it, and can't say how it ended"),
        ({"terminated": {}}, "it has ended; Kubernetes does not say how"),
    ],
)
def test_how_its_container_ended(state, reason):
    found = fate_of(pod("Failed", state=state), NOW)
    assert (found.state, found.reason) == (DriverState.FAILED, reason)
    assert found.ended_at == (AT if state["terminated"] else None)


def test_it_has_ended_with_the_drivers_container_whatever_is_beside_it():
    assert fate_of(pod("Running", state=ended(1)), NOW).reason == "exit code 1"


def test_an_evicted_pod_says_why():
    told = "The node was low on resource: memory."
    conditions = [condition("DisruptionTarget", "True", "TerminationByKubelet", "of no use")]
    seen = pod("Failed", reason="Evicted", message=told, conditions=conditions)
    reason = f"evicted: {told}"
    assert fate_of(seen, NOW) == Fate(DriverState.FAILED, ended_at=NOW - 20, reason=reason)
    assert fate_of(pod("Failed", reason="Evicted"), NOW).reason == "evicted"


def test_another_end_by_its_node_is_called_as_kubernetes_does():
    seen = pod("Failed", state=ended(143), reason="Terminated", message="Pod was terminated")
    assert fate_of(seen, NOW).reason == "ended by its node (Terminated): Pod was terminated"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("PreemptionByScheduler", "preempted, for a pod of higher priority: room for it"),
        ("DeletionByTaintManager", "deleted, for its node was tainted: room for it"),
        ("EvictionByEvictionAPI", "evicted, as when its node is drained: room for it"),
        ("SomethingNew", "ended by Kubernetes: room for it"),
    ],
)
def test_who_ended_a_pod_that_has_done_nothing_wrong(reason, words):
    told = [condition("DisruptionTarget", "True", reason, "room for it")]
    assert fate_of(pod("Failed", state=ended(143), conditions=told), NOW).reason == words


def test_a_pod_that_ended_before_its_container_began():
    found = fate_of(pod("Failed"), NOW)
    assert found == Fate(DriverState.FAILED, reason="it has ended; Kubernetes does not say how")


def test_what_it_left():
    words = '{"took": true, "raised": "ValueError: no such topic"}'
    found = end_report(pod(state=ended(1, message=words)))
    assert found is not None and found.raised == "ValueError: no such topic"
    assert end_report(pod(state=ended(1, message="cut o"))) is None
    assert end_report(pod(state={"running": {}})) is end_report(pod("Pending")) is None


@pytest.mark.parametrize(
    ("state", "may_have"),
    [
        (ended(1, message='{"took": true}'), True),
        (ended(1, message='{"took": false}'), False),
        (ended(75, message='{"took": true, "fenced": "by another"}'), False),
        (ended(137), True),
        (ended(75), False),
        (ended(128, "StartError"), False),
        ({"running": {}}, True),
        ({"waiting": {"reason": "ImagePullBackOff"}}, False),
    ],
)
def test_whether_its_mark_may_be_in_its_checkpoint(state, may_have):
    assert took(pod(state=state)) is may_have


def test_an_evicted_pod_may_have_left_its_mark_and_one_without_a_node_has_not():
    assert took(pod("Failed", reason="Evicted"))
    assert not took(pod("Pending"))


# What a pod waits for.


def test_the_scheduler_says_why_there_is_no_node():
    told = "0/2 nodes are available: 2 Insufficient cpu."
    seen = pod("Pending", conditions=[condition("PodScheduled", "False", "Unschedulable", told)])
    assert waits_for(seen, []) == f"not scheduled: {told}"
    gated = pod("Pending", conditions=[condition("PodScheduled", "False", "SchedulingGated")])
    assert waits_for(gated, []) == "not scheduled: SchedulingGated"


def test_an_image_that_can_not_be_had():
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling "bad/x"'}}
    assert (
        waits_for(pod("Pending", state=waiting), []) == 'ImagePullBackOff: Back-off pulling "bad/x"'
    )


def test_else_the_newest_warning():
    seen = pod("Pending", state={"waiting": {"reason": "ContainerCreating"}})
    events = [
        event("FailedMount", 'secret "x" not found', "2027-01-15T07:59:00Z"),
        event("Other", "older", "2027-01-15T07:00:00Z"),
        event("Scheduled", "fine", "2027-01-15T07:59:30Z", "Normal"),
    ]
    assert waits_for(seen, events) == 'FailedMount: secret "x" not found'
    assert waits_for(pod(state={"running": {}}), events) == ""
    assert waits_for(seen, []) == ""


def test_long_messages_are_cut():
    told = condition("PodScheduled", "False", "Unschedulable", "no\n " * 200)
    words = waits_for(pod("Pending", conditions=[told]), [])
    assert len(words) < 320 and words.endswith("...") and "\n" not in words


# No pod.


def test_events_tell_where_a_pod_went():
    events = [
        event("Killing", "Stopping container driver", "2027-01-15T07:59:30Z", "Normal"),
        event("Preempted", "Preempted by default/other on node node-1", "2027-01-15T07:59:00Z"),
    ]
    told = "its pod was deleted (Preempted: Preempted by default/other on node node-1)"
    assert end_without_pod(events) == told
    unknown = "it has no pod: that was never made, or was deleted by somebody or with its node"
    assert end_without_pod([]) == unknown


def test_when_an_event_was():
    assert event_time(event("a", "b", "2027-01-15T08:00:00Z")) == NOW
    assert event_time({"eventTime": "2027-01-15T08:00:00.000000Z"}) == NOW
    series = {"series": {"lastObservedTime": "2027-01-15T08:00:00Z"}, "eventTime": None}
    assert event_time(series) == NOW
    assert event_time({"metadata": {"creationTimestamp": "2027-01-15T08:00:00Z"}}) == NOW
    assert event_time({"lastTimestamp": "yesterday"}) == 0.0


def test_a_role_that_is_missing_is_named():
    raised = 'Py4JJavaError: X: pods "a" is forbidden: User "b" cannot get resource "pods"'
    told = with_cure(raised)
    assert told.startswith(f"{raised}; ") and "deploy/kubernetes/driver.yaml" in told
    assert with_cure("ValueError: no such topic") == "ValueError: no such topic"
    # A driver that has said so itself is not told it twice.
    assert with_cure(told) == told
    # A quota's refusal is none of a role.
    quota = 'X: pods "a" is forbidden: exceeded quota: q'
    assert with_cure(quota) == quota


def test_where_a_person_looks():
    assert place_of(None, "streams", "x") == "pod streams/x"
    assert place_of(pod(), "streams", "x") == "pod streams/x on node node-1"
    assert place_of({}, "streams", "x", "not scheduled: no") == "pod streams/x, not scheduled: no"
