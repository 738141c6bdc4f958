"""On which node a pod fits: a part of what Kubernetes' scheduler looks at, in its words.

No input and no output: data in, data out. Affinity to other pods, spreading and priorities are not
looked at.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

Object = Mapping[str, Any]

_UNITS = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{unit: Fraction(1000 ** (n + 1)) for n, unit in enumerate("kMGTPE")},
    **{f"{unit}i": Fraction(1024 ** (n + 1)) for n, unit in enumerate("KMGTPE")},
}

_TO_BEGIN = "DuringSchedulingIgnoredDuringExecution"
_FITS: Mapping[str, Callable[[Any, Any], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
}


def quantity(text: object) -> Fraction:
    """A number as Kubernetes writes it: `500m`, `1408Mi`, `2`, `1e3`.

    Raises:
        ValueError: it is none.
    """
    found = re.fullmatch(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)", str(text).strip())
    if not found or found[2] not in _UNITS:
        raise ValueError(f"{text!r} is no quantity")
    return Fraction(found[1]) * _UNITS[found[2]]


def requests(*pods: Object) -> dict[str, Fraction]:
    """What pods ask for together, themselves counted among `pods`."""
    wanted: dict[str, Fraction] = defaultdict(Fraction)
    wanted["pods"] = Fraction(len(pods))
    for pod in pods:
        for container in pod["spec"]["containers"]:
            resources = container.get("resources") or {}
            asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
            for name, amount in asked.items():
                wanted[name] += quantity(amount)
    return wanted


def place(pod: Object, nodes: Sequence[Object], pods: Sequence[Object]) -> tuple[str | None, str]:
    """The name of the node that `pod` goes to, the emptiest of those it likes best; or None and why
    none will do.

    Args:
        pods: all there are; those that have ended take no room.
    """
    reasons: Counter[str] = Counter()
    fitting: list[tuple[int, Fraction, str]] = []
    for node in nodes:
        name = node["metadata"]["name"]
        used = requests(*(each for each in pods if _takes_room(each, name)))
        if why := _why_not(pod, node, used):
            reasons.update(why)
        else:
            fitting.append((-_liking(pod, node), used["cpu"], name))
    if fitting:
        return min(fitting)[2], ""
    told = ", ".join(f"{number} {why}" for why, number in sorted(reasons.items()))
    return None, f"0/{len(nodes)} nodes are available: {told}."


def _takes_room(pod: Object, node: str) -> bool:
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return pod["spec"].get("nodeName") == node and not ended


def _why_not(pod: Object, node: Object, used: Mapping[str, Fraction]) -> list[str]:
    if node["spec"].get("unschedulable"):
        return ["node(s) were unschedulable"]
    for taint in node["spec"].get("taints") or []:
        tolerated = any(_tolerates(each, taint) for each in pod["spec"].get("tolerations") or [])
        if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerated:
            return ["node(s) had untolerated taint(s)"]
    labels = node["metadata"].get("labels") or {}
    selected = all(labels.get(k) == v for k, v in (pod["spec"].get("nodeSelector") or {}).items())
    required = _affinity(pod).get(f"required{_TO_BEGIN}")
    if not selected or (
        required and not any(_has(node, term) for term in required["nodeSelectorTerms"])
    ):
        return ["node(s) didn't match Pod's node affinity/selector"]
    there_is = node["status"]["allocatable"]
    return [
        "Too many pods" if name == "pods" else f"Insufficient {name}"
        for name, amount in requests(pod).items()
        if amount > quantity(there_is.get(name, 0)) - used.get(name, 0)
    ]


def _affinity(pod: Object) -> Object:
    found: Object = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    return found


def _liking(pod: Object, node: Object) -> int:
    liked = _affinity(pod).get(f"preferred{_TO_BEGIN}") or []
    return sum(each["weight"] for each in liked if _has(node, each["preference"]))


def _has(node: Object, term: Object) -> bool:
    """Whether a node is as a term has it."""
    labels = node["metadata"].get("labels") or {}
    return all(
        _FITS[each["operator"]](labels.get(each["key"]), each.get("values"))
        for each in term["matchExpressions"]
    )


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    same = (toleration.get("key"), toleration.get("value") or "")
    return same == (taint["key"], taint.get("value") or "")
