"""Whether a writer still is as the query was started by it: what starts the query again is the
writer, as it is then.
"""

import functools
from typing import Any

_CHANGES = "_sparkscale_changes"
"""Attribute of a DataStreamWriter: how often the program has called what changes it."""
_CHANGERS = (
    "clusterBy",
    "foreach",
    "foreachBatch",
    "format",
    "option",
    "options",
    "outputMode",
    "partitionBy",
    "queryName",
    "trigger",
)


def watch(writer_type: Any) -> None:
    """Have changes of writers counted."""
    for name in _CHANGERS:
        if (original := getattr(writer_type, name, None)) is not None:
            setattr(writer_type, name, _counting(original))


def _counting(original: Any) -> Any:
    @functools.wraps(original)
    def change(writer: Any, *args: Any, **more: Any) -> Any:
        setattr(writer, _CHANGES, changes(writer) + 1)
        return original(writer, *args, **more)

    return change


def changes(writer: Any) -> int:
    """How often a writer was changed."""
    return int(getattr(writer, _CHANGES, 0))
