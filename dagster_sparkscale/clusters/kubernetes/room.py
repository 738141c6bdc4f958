"""What the nodes of a cluster have, and what pods ask for of it. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dagster_sparkscale.clusters.base import Capacity

Object = Mapping[str, Any]

NOTHING: Object = {}
_UNITS = {"m": 1e-3, "u": 1e-6, "n": 1e-9, "k": 1e3}


def capacity_of(
    nodes: Sequence[Object],
    pods: Sequence[Object],
    selector: Object = NOTHING,
    tolerations: Sequence[Object] = (),
) -> Capacity:
    """The cores of the nodes that take such pods, whole ones, and those that no pod has asked for.

    Args:
        selector: labels that the nodes must have.
        tolerations: of the taints that they may have.
    """
    asked: dict[str, float] = {}
    for pod in pods:
        spec = pod.get("spec") or {}
        if node := spec.get("nodeName"):
            asked[node] = asked.get(node, 0.0) + _requests(spec)
    cores = free = 0
    details = []
    for node in nodes:
        name = node["metadata"]["name"]
        if not _takes_pods(node, tolerations):
            continue
        labels = node["metadata"].get("labels") or {}
        if any(labels.get(key) != selector[key] for key in selector):
            continue
        has = cores_of((node.get("status") or {}).get("allocatable", {}).get("cpu", "0"))
        left = max(0.0, has - asked.get(name, 0.0))
        cores += math.floor(has)
        free += math.floor(left)
        details.append(f"{name}: {left:g} of {has:g} cores free")
    return Capacity(cores, free, len(details), tuple(details))


def cores_of(quantity: object) -> float:
    """Cores of a quantity such as `2`, `500m` or `1.5`; 0 where it is none."""
    text = str(quantity)
    unit = _UNITS.get(text[-1:], 1.0)
    try:
        return round(float(text[:-1] if text[-1:] in _UNITS else text) * unit, 6)
    except ValueError:
        return 0.0


def _requests(spec: Object) -> float:
    each = spec.get("containers") or ()
    return sum(
        cores_of(((item.get("resources") or {}).get("requests") or {}).get("cpu", "0"))
        for item in each
    )


def _takes_pods(node: Object, tolerations: Sequence[Object]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    spec = node.get("spec") or {}
    kept = [each for each in spec.get("taints") or () if each.get("effect") != "PreferNoSchedule"]
    free = all(any(_tolerates(each, taint) for each in tolerations) for taint in kept)
    return ready and free and not spec.get("unschedulable")


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint.get("key"))
    same = (toleration.get("key"), toleration.get("value") or "")
    return same == (taint.get("key"), taint.get("value") or "")
