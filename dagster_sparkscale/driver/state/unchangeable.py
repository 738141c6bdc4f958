"""Why the partitions of a query's state can't be changed, whatever is done: looked up in its
checkpoint, so that it is known once the query has run a batch, and before anything is stopped."""

from dagster_sparkscale.driver.begin.fence import without_credentials

from . import layout
from .folder import Folder
from .layout import QuerySettings
from .operators import operator_names

_JOINS = 3
"""The last format of the state of joins whose keys Spark 4.3 tells from it."""
_AGGREGATION, _LIMIT = "stateStoreSave", "globalLimit"
_REAL_TIME_AGGREGATION = "StatefulStreamlineAggregate"
"""Operators, as Spark calls them."""
_KEY = b'{"type":"struct","fields":['
"""How the key begins in a file with the schema of a state, which has it first."""


def why_unchangeable(folder: Folder, bound: QuerySettings) -> str | None:
    """Why Spark can't change the partitions of the state in `folder`, in words; None: it can, as
    far as the checkpoint tells.

    Args:
        bound: what the last batch is bound to.
    """
    if why := layout.why_not_by(bound.provider):
        return why
    if folder.escaped is not None:
        # By `StreamingUtils.resolvedCheckpointLocation`, unlike the query itself.
        there = without_credentials(folder.escaped)
        return (
            f"the path of its checkpoint, {folder.name}, has a space or another sign that a URL "
            f"does not have: Spark would look for its state in {there}"
        )
    return _why_not_these(folder, bound)


def _why_not_these(folder: Folder, bound: QuerySettings) -> str | None:
    for number, name in sorted(operator_names(folder).items()):
        if name == layout.JOIN and bound.join_format > _JOINS:
            # From one partition on, `measuring` would not tell: all keys are where they belong.
            return (
                f"it joins streams by state of format {bound.join_format}: Spark would write what "
                f"it can't read; up to {_JOINS} it can be changed. A checkpoint keeps its format"
            )
        if name == _LIMIT:
            return (
                f"operator {number} is a limit() of the stream: it keeps one count of all rows, "
                "which has no keys, and Spark can't change it, nor any other of its query"
            )
        if name == _REAL_TIME_AGGREGATION:
            return (
                f"operator {number} is an aggregation that was begun in real-time mode: Spark "
                "can't read or change its state, in any mode"
            )
        if name == _AGGREGATION and _is_keyless(folder, number):
            return keyless(number)
    return None


def keyless(operator: int) -> str:
    """Why the state of an operator without keys can't be changed."""
    return (
        f"operator {operator} keeps one state of all rows, which has no keys: more partitions than "
        "one are of no use to it"
    )


def _is_keyless(folder: Folder, operator: int) -> bool:
    """Whether state has no key, by what `StateSchemaCompatibilityChecker` writes for the first
    partition."""
    schema = folder.read(f"{layout.STATE}/{operator}/0/_metadata/schema") or b""
    return schema.partition(_KEY)[2].startswith(b"]")
