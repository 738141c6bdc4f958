"""What the nodes of a cluster have, and what pods ask for of it. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dagster_sparkscale.clusters.capacity import Capacity, Free

Object = Mapping[str, Any]

NOTHING: Object = {}
_UNITS = {
    **{f"{prefix}i": 2.0 ** (10 * power) for power, prefix in enumerate("KMGTPE", 1)},
    **{prefix: 1e3**power for power, prefix in enumerate("kMGTPE", 1)},
    **{"m": 1e-3, "u": 1e-6, "n": 1e-9},
}
"""Longer ones first: `Mi` is no `i`."""


def capacity_of(
    nodes: Sequence[Object],
    pods: Sequence[Object],
    selector: Object = NOTHING,
    tolerations: Sequence[Object] = (),
) -> Capacity:
    """The cores of the nodes that take such pods, whole ones, and what no pod has asked for.

    Args:
        selector: labels that the nodes must have.
        tolerations: of the taints that they may have.
    """
    asked: dict[tuple[str, str], float] = {}
    for pod in pods:
        spec = pod.get("spec") or {}
        if node := spec.get("nodeName"):
            for what, read in _READ.items():
                asked[node, what] = asked.get((node, what), 0.0) + _requests(spec, what, read)
    cores = free = 0
    details, left_of = [], []
    for node in nodes:
        name = node["metadata"]["name"]
        if not _takes_pods(node, tolerations):
            continue
        labels = node["metadata"].get("labels") or {}
        if any(labels.get(key) != selector[key] for key in selector):
            continue
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        has = cores_of(allocatable.get("cpu", "0"))
        left = max(0.0, has - asked.get((name, "cpu"), 0.0))
        memory = mebibytes_of(allocatable.get("memory", "0"))
        left_memory = max(0.0, memory - asked.get((name, "memory"), 0.0))
        cores += math.floor(has)
        free += math.floor(left)
        details.append(
            f"{name}: {left:g} of {has:g} cores, {left_memory:.0f} of {memory:.0f} MiB free"
        )
        left_of.append(Free(math.floor(left), left_memory))
    return Capacity(cores, free, len(details), tuple(details), tuple(left_of))


def part_of_pod(pod: Object) -> Object | None:
    """What `capacity_of` needs of a pod: a cluster has tens of thousands. None: it is on no node
    yet."""
    spec = pod.get("spec") or {}
    if not spec.get("nodeName"):
        return None
    requests = [
        {"resources": {"requests": (each.get("resources") or {}).get("requests")}}
        for each in spec.get("containers") or ()
    ]
    return {"spec": {"nodeName": spec["nodeName"], "containers": requests}}


def part_of_node(node: Object) -> Object:
    """What `capacity_of` needs of a node."""
    metadata, status = node["metadata"], node.get("status") or {}
    return {
        "metadata": {"name": metadata["name"], "labels": metadata.get("labels")},
        "spec": node.get("spec"),
        "status": {key: status.get(key) for key in ("conditions", "allocatable")},
    }


def cores_of(quantity: object) -> float:
    """Cores of a quantity such as `2`, `500m` or `1.5`; 0 where it is none."""
    return round(_number(str(quantity)), 6)


def mebibytes_of(quantity: object) -> float:
    """MiB of a quantity of memory such as `2Gi`, `512M` or `1073741824`; 0 where it is none."""
    return _number(str(quantity)) / 2**20


def _number(text: str) -> float:
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    try:
        return float(text.removesuffix(unit)) * _UNITS.get(unit, 1.0)
    except ValueError:
        return 0.0


_READ: Mapping[str, Callable[[object], float]] = {"cpu": cores_of, "memory": mebibytes_of}


def _requests(spec: Object, what: str, read: Callable[[object], float]) -> float:
    each = spec.get("containers") or ()
    return sum(
        read(((item.get("resources") or {}).get("requests") or {}).get(what, "0")) for item in each
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
