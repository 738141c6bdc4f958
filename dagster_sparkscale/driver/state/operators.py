"""The stateful operators of a query and their stores, as Spark has noted them in its checkpoint."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from . import layout
from .folder import Folder

Store = tuple[int, str]
"""Number of an operator, and name of one of its stores."""


@dataclass(frozen=True)
class Operator:
    """What is noted of one."""

    name: str
    """The name that Spark gives it."""
    stores: tuple[str, ...]
    """The names of its stores."""


def operators(folder: Folder) -> Mapping[int, Operator | None]:
    """The stateful operators by their numbers; None: what is noted of it can't be read."""
    found = {}
    for number in filter(str.isdecimal, folder.names(layout.STATE)):
        place = f"{layout.STATE}/{number}/_metadata"
        last = layout.latest(folder.names(f"{place}/v2"))
        file = f"{place}/metadata" if last is None else f"{place}/v2/{last}"
        found[int(number)] = _operator(folder.read(file))
    return found


def operator_names(folder: Folder) -> Mapping[int, str]:
    """The names of those that can be read, by their numbers."""
    noted = operators(folder).items()
    return {number: operator.name for number, operator in noted if operator is not None}


def stores(folder: Folder) -> tuple[Store, ...]:
    """The stores of all stateful operators.

    Raises:
        ValueError: what is noted of one can't be read.
    """
    found: list[Store] = []
    for number, operator in sorted(operators(folder).items()):
        if operator is None:
            raise ValueError(f"what Spark has noted of operator {number} can't be read")
        found += [(number, name) for name in sorted(operator.stores)]
    return tuple(found)


def _operator(metadata: bytes | None) -> Operator | None:
    """What `OperatorStateMetadataUtils` has written: a version and a line of JSON."""
    try:
        noted = json.loads((metadata or b"").partition(b"\n")[2])
        kept = tuple(str(store["storeName"]) for store in noted["stateStoreInfo"])
        return Operator(str(noted["operatorInfo"]["operatorName"]), kept)
    except (ValueError, KeyError, TypeError):
        return None
