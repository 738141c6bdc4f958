"""The stateful operators of a query and their stores, as Spark has noted them in its checkpoint."""

import json
import re
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
        found[int(number)] = _latest(folder, f"{layout.STATE}/{number}/_metadata")
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


def _latest(folder: Folder, place: str) -> Operator | None:
    """What is noted in `place`, of the version that Spark takes (`OperatorStateMetadataReader`)."""
    versions = {name for name in folder.names(place) if re.fullmatch(r"v\d+", name)}
    if not versions:
        return _operator(folder.read(f"{place}/metadata"), b"v1")
    last = layout.latest(folder.names(f"{place}/v2"))
    if versions != {"v2"} or last is None:
        return None
    return _operator(folder.read(f"{place}/v2/{last}"), b"v2")


def _operator(metadata: bytes | None, version: bytes) -> Operator | None:
    """What `OperatorStateMetadataUtils` has written: a version and a line of JSON."""
    written, _, text = (metadata or b"").partition(b"\n")
    try:
        noted = json.loads(text)
        kept = tuple(str(store["storeName"]) for store in noted["stateStoreInfo"])
        operator = Operator(str(noted["operatorInfo"]["operatorName"]), kept)
    except (ValueError, KeyError, TypeError):
        return None
    return operator if kept and written == version else None
