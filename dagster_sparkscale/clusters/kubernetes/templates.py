"""What all pods of a cluster have in common, and a template of the user's below what is ours. Pure.

What must not change: what is ours wins wherever both say something; what a template adds stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_KEYS = ("name", "mountPath", "containerPort", "ip", "topologyKey")
"""What tells the items of Kubernetes' lists apart. Items without any of these are added up."""


@dataclass(frozen=True)
class Placing:
    """What the pods of a cluster have in common."""

    namespace: str
    image: str
    service_account: str
    term_seconds: int
    pull_policy: str | None = None
    pull_secrets: Sequence[str] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()
    driver_template: Mapping[str, Any] = field(default_factory=dict)
    executor_template: Mapping[str, Any] = field(default_factory=dict)
    executor_account: str | None = None
    """The service account of executors; None: that of their template."""
    bind: str = "0.0.0.0"
    """The address that drivers listen on."""


def merged(template: Any, ours: Any) -> Any:
    """`template` with `ours` over it: mappings key by key, lists item by item."""
    if isinstance(template, Mapping) and isinstance(ours, Mapping):
        both = {key: merged(template[key], ours[key]) for key in template if key in ours}
        return {**template, **ours, **both}
    if _is_list(template) and _is_list(ours):
        return _merged_lists(template, ours)
    return ours


def _merged_lists(template: Sequence[Any], ours: Sequence[Any]) -> list[Any]:
    result = list(template)
    for item in ours:
        # Volumes may be mounted in several places: those are known by the place.
        known = next((k for k in _KEYS[1:] + _KEYS[:1] if _has(item, k)), None)
        at = None if known is None else _index(result, known, item[known])
        if at is None:
            result.append(item)
        else:
            result[at] = merged(result[at], item)
    return result


def _index(items: Sequence[Any], key: str, value: Any) -> int | None:
    found = (i for i, item in enumerate(items) if _has(item, key) and item[key] == value)
    return next(found, None)


def _has(item: Any, key: str) -> bool:
    return isinstance(item, Mapping) and key in item


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
