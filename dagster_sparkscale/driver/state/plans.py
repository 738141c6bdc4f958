"""What a driver is told to make of the state of its queries. Pure."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any


class BadStatePlan(ValueError):
    """The setting is no plan; the text says what is wrong."""


@dataclass(frozen=True)
class StatePlan:
    """One change of state partitions, for the one start that it is given to."""

    id: str
    """Tells it from others."""
    partitions: int
    """The number of partitions that each of `queries` is to have."""
    key_groups: int
    """The key groups of its queries; a query with another number is left as it is."""
    plain_hash: bool = False
    """Whether `partitions` may be a number that does not divide `key_groups`."""
    queries: tuple[str, ...] = ()
    """The ones that are meant, as the agent calls them."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


_TYPES: dict[str, Any] = {
    "id": str,
    "partitions": int,
    "key_groups": int,
    "plain_hash": bool,
    "queries": list,
}


def plan_of(text: str) -> StatePlan:
    """Read the JSON of `StatePlan.to_json`.

    Raises:
        BadStatePlan: the text is something else.
    """
    try:
        read = json.loads(text)
        told = {field.name: read[field.name] for field in fields(StatePlan)}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadStatePlan(f"the plan can't be read: {type(error).__name__}: {error}") from None
    for name, kind in _TYPES.items():
        value = told[name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise BadStatePlan(f"{name} = {value!r}: must not be a {type(value).__name__}")
    if not all(isinstance(each, str) for each in told["queries"]):
        raise BadStatePlan(f"queries = {told['queries']!r}: must be names of queries")
    plan = StatePlan(**{**told, "queries": tuple(told["queries"])})
    if not 1 <= plan.partitions <= plan.key_groups:
        raise BadStatePlan(f"partitions = {plan.partitions}: must be 1 to {plan.key_groups}")
    return plan


def misfit(partitions: int, key_groups: int, plain_hash: bool) -> str | None:
    """Why a state can't have so many partitions, in words; None: it can.

    Spark puts a key to `pmod(hash, partitions)`. Where `partitions` divides the number of key
    groups that is one with `pmod(pmod(hash, key_groups), partitions)`, and a key group stays whole.
    """
    if partitions > key_groups:
        return f"{partitions} partitions are more than its {key_groups} key groups"
    if key_groups % partitions and not plain_hash:
        return (
            f"{partitions} partitions don't divide its {key_groups} key groups: every key may move"
        )
    return None
