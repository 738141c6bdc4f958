"""Where the tests' Kubernetes cluster puts a pod, and what it says where none will do."""

from fractions import Fraction
from typing import Any

import pytest

from dev.kubernetes.placing import place, quantity

ROOM = {"cpu": "2", "memory": "4Gi", "pods": "3"}


def node(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels or {}}
    return {"metadata": metadata, "spec": spec, "status": {"allocatable": ROOM}}


def pod(cpu: str = "1", on: str | None = None, phase: str = "Running", **spec: Any) -> Any:
    container = {"resources": {"requests": {"cpu": cpu}}}
    return {
        "spec": {"containers": [container], "nodeName": on, **spec},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("500m", Fraction(1, 2)),
        ("2", Fraction(2)),
        (3, Fraction(3)),
        ("1.5Gi", Fraction(3 * 1024**3, 2)),
        ("1408Mi", Fraction(1408 * 1024**2)),
        ("1e3", Fraction(1000)),
        ("2k", Fraction(2000)),
    ],
)
def test_a_quantity(text: object, number: Fraction) -> None:
    assert quantity(text) == number


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1Xi", "--1"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        quantity(text)


def test_the_emptiest_node_is_taken() -> None:
    nodes = [node("a"), node("b")]
    assert place(pod(), nodes, [pod(on="a")]) == ("b", "")
    assert place(pod(), nodes, [pod(on="a"), pod("1500m", on="b")]) == ("a", "")


def test_what_has_ended_takes_no_room() -> None:
    ended = [pod("2", on="a", phase=phase) for phase in ("Succeeded", "Failed")]
    assert place(pod("2"), [node("a")], ended) == ("a", "")


def test_all_that_keeps_it_off_is_told_with_the_number_of_nodes() -> None:
    nodes = [node("a"), node("b"), node("c", unschedulable=True)]
    nodes += [node("d", taints=[{"key": "gpu", "effect": "NoSchedule"}])]
    others = [pod("2", on="a"), *(pod("500m", on="b") for _ in range(3))]
    found, why = place(pod(), nodes, others)
    assert found is None
    assert why == (
        "0/4 nodes are available: 2 Insufficient cpu, 1 Too many pods, "
        "1 node(s) had untolerated taint(s), 1 node(s) were unschedulable."
    )


def test_labels_must_match() -> None:
    nodes = [node("a"), node("b", {"disk": "fast"})]
    assert place(pod(nodeSelector={"disk": "fast"}), nodes, []) == ("b", "")
    _, why = place(pod(nodeSelector={"disk": "slow"}), nodes, [])
    assert why == ("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.")


@pytest.mark.parametrize(
    ("toleration", "goes"),
    [
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "value": "yes", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "cpu", "operator": "Exists"}, False),
    ],
)
def test_a_taint_is_tolerated(toleration: dict[str, str], goes: bool) -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    found, _ = place(pod(tolerations=[toleration]), [node("a", taints=[taint])], [])
    assert (found == "a") is goes


def affinity(**how: Any) -> dict[str, Any]:
    to_begin = "DuringSchedulingIgnoredDuringExecution"
    return {"nodeAffinity": {f"{name}{to_begin}": each for name, each in how.items()}}


@pytest.mark.parametrize(
    ("operator", "values", "goes"),
    [
        ("In", ["true"], "spot"),
        ("NotIn", ["true"], "steady"),
        ("Exists", None, "spot"),
        ("DoesNotExist", None, "steady"),
    ],
)
def test_a_required_affinity_must_be_met(
    operator: str, values: list[str] | None, goes: str
) -> None:
    nodes = [node("spot", {"spot": "true"}), node("steady")]
    term = {"matchExpressions": [{"key": "spot", "operator": operator, "values": values}]}
    its = affinity(required={"nodeSelectorTerms": [term]})
    assert place(pod(affinity=its), nodes, []) == (goes, "")
    others = [each for each in nodes if each["metadata"]["name"] != goes]
    assert place(pod(affinity=its), others, []) == (
        None,
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
    )


def test_a_preferred_affinity_goes_before_room_and_is_given_up_where_there_is_none() -> None:
    nodes = [node("spot", {"spot": "true"}), node("steady")]
    term = {"matchExpressions": [{"key": "spot", "operator": "In", "values": ["true"]}]}
    its = affinity(preferred=[{"weight": 100, "preference": term}])
    assert place(pod(affinity=its), nodes, [pod("500m", on="spot")]) == ("spot", "")
    assert place(pod(affinity=its), nodes, [pod("2", on="spot")]) == ("steady", "")
