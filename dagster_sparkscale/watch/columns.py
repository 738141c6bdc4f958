"""Many objects of one kind as columns, for JSON: a column that is the same in all is one value.

Rows repeat each key a thousand times, which compression does not take out again. Pure.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

_ALL, _OBJECTS, _FROM = "=", "/", "+"
_LARGE = 1e6


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns of `rows`. A value of None is one that is not there."""
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: _column([row.get(key) for row in rows]) for key in keys}


def rows(of: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """The `count` rows that have been made columns.

    Raises:
        ValueError: `columns` can't have made them.
    """
    made: list[dict[str, Any]] = [{} for _ in range(count)]
    for key, column in of.items():
        for row, value in zip(made, _values(column, count), strict=True):
            if value is not None:
                row[key] = value
    return made


def _column(values: list[Any]) -> Any:
    first = values[0]
    if all(value == first for value in values):
        return {_ALL: first}
    if all(isinstance(value, Mapping) for value in values):
        return {_OBJECTS: columns(values)}
    return _from_the_least(values) or values


def _from_the_least(values: list[Any]) -> dict[str, Any] | None:
    """Times and the like as what they are above the least of them; None: they are none."""
    if not all(type(value) in (int, float) and math.isfinite(value) for value in values):
        return None
    base = math.floor(min(values))
    if base < _LARGE or max(values) - base > _LARGE:
        return None
    above = [value - base if type(value) is int else round(value - base, 3) for value in values]
    if any(base + step != value for step, value in zip(above, values, strict=True)):
        return None
    return {_FROM: [base, above]}


def _values(column: Any, count: int) -> list[Any]:
    found = column
    if isinstance(column, Mapping):
        ((kind, what),) = column.items() if len(column) == 1 else ((None, None),)
        if kind == _ALL:
            return [what] * count
        if kind == _OBJECTS and isinstance(what, Mapping):
            return list(rows(what, count))
        if kind == _FROM and isinstance(what, list) and len(what) == 2:
            found = _added(*what)
    if not isinstance(found, list) or len(found) != count:
        raise ValueError(f"{str(column)[:80]}: must be a column of {count} values")
    return found


def _added(base: Any, above: Any) -> list[Any] | None:
    if not isinstance(above, list) or not {type(each) for each in (base, *above)} <= {int, float}:
        return None
    return [base + each for each in above]
