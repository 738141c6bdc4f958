"""What is wrong with a field that was given, and what would be right, in words. Pure."""

import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from dagster_sparkscale.durations import in_units, parse_duration

_DICT = 'a dict, such as {"name": "value"}'
_RIGHT = {
    "string": "text",
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "True or False",
    "list": "a list",
    "tuple": "a list",
    "frozen": "a list or a set",
    "set": "a list or a set",
    "dict": _DICT,
    "mapping": _DICT,
    "callable": "a function",
}
"""What pydantic wants, by the beginning of its type of error."""
_LIMITS = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "below"),
    "less_than_equal": ("le", "at most"),
}
_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 200
_short.maxlist = _short.maxtuple = _short.maxdict = _short.maxset = _short.maxfrozenset = 20


class Line(NamedTuple):
    """What is said of one fault, and of which field it is."""

    place: tuple[str | int, ...]
    """The way to the field, from what was declared; empty: fields that do not go together."""
    text: str


class Faults(ValueError):
    """Several things that are wrong with one field, or with several that belong together."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


def refuse(faults: Iterable[str]) -> None:
    """Raise all faults that there are as one error."""
    if lines := tuple(faults):
        raise Faults(lines)


def shown(value: object) -> str:
    """`value` as it is repeated to whoever gave it."""
    return _short.repr(value)


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """` did you mean 'clicks'?`, or nothing where no name is near."""
    near = get_close_matches(str(given), known, n=1)
    return f" did you mean {near[0]!r}?" if near else ""


def explain(
    subject: str,
    fields: Mapping[str, FieldInfo],
    error: ValidationError,
    secret: Iterable[str] = (),
    lacking: Collection[str] = (),
    elsewhere: Callable[[str], str | None] = lambda name: None,
) -> list[Line]:
    """What `error` says, a line for each field, and for each of several faults of one.

    Args:
        subject: begins each line: what was declared.
        fields: the names of all fields.
        secret: fields whose values are never repeated.
        lacking: fields that were not given, where `error` may have it that they are None.
        elsewhere: where what such a name means is declared, if it is no field here.
    """
    lines: dict[str, list[Line]] = {}  # the first error of each field
    for fault in error.errors(include_url=False):
        at = fault["loc"]
        place = [str(part) for part in at]
        top, kind = (place[0] if place else ""), fault["type"]
        hidden = top in secret or isinstance(fault["input"], BaseModel)  # it says itself what it is
        given = "" if hidden else f" = {shown(fault['input'])}"
        path = ".".join(place)
        if not place:
            lines.setdefault(top, [Line(at, f"{subject}: {each}") for each in _each(fault)])
            continue
        elif place[-1] == "[key]":  # of a dict
            said = f"{top}{given}: must have names that are text"
        elif kind == "extra_forbidden":
            there = elsewhere(path)
            said = f"{path}: no such field; {there}" if there else unknown(path, fields)
        elif kind == "missing" or top in lacking:
            about = fields[top].description if top in fields else None
            said = f"{path}: missing; it has no default{f'. {about}' if about else ''}"
        elif kind in ("value_error", "assertion_error"):
            # One that names the field itself, or is of a policy, which names its own.
            begins = (f"{path} = ", f"{path}: ")
            texts = [
                text if text.startswith(begins) else f"{path}{given}: {text}"
                for text in _each(fault)
            ]
            lines.setdefault(top, [Line(at, f"{subject}: {each}") for each in texts])
            continue
        else:
            field = fields.get(top) if len(place) == 1 else None
            may_be_none = field is not None and type(None) in get_args(field.annotation)
            example = None if hidden else fault["input"]
            bounds = fault.get("ctx", {})
            if field is not None and _is_duration(field) and (limit := _limit(kind, bounds)):
                bounds = {_LIMITS[kind][0]: in_units(limit)}
            right = _right(kind, example, bounds, fault["msg"])
            said = f"{path}{given}: must be {right}{', or None' if may_be_none else ''}"
        lines.setdefault(top, [Line(at, f"{subject}: {said}")])
    return [line for of_one in lines.values() for line in of_one]


def unknown(name: str, fields: Iterable[str]) -> str:
    """What is said of a field that there is not."""
    known = sorted(fields)
    return f"{name}: no such field;{did_you_mean(name, known)} the fields are {', '.join(known)}"


def _right(kind: str, given: object, context: Mapping[str, Any], message: str) -> str:
    if kind in _LIMITS:
        if given != given:  # nan, which pydantic holds against a limit
            return "a finite number"
        limit, words = _LIMITS[kind]
        value = context[limit]
        return f"{words} {value if isinstance(value, str) else f'{value:g}'}"
    if kind == "too_short":
        return "one or more"
    if kind == "string_too_short":
        return "text that is not empty"
    right = _RIGHT.get(kind.partition("_")[0])
    if right is None:
        return message.removeprefix("Input should be ")
    if type(given).__name__ == "EnvVar" and right in ("a whole number", "True or False"):
        maker = "int" if right == "a whole number" else "bool"
        return f"{right}, as dg.EnvVar.{maker} gives one"
    if right.startswith("a list") and isinstance(given, str) and given:
        return f"a list, such as [{shown(given)}]"
    return right


def _is_duration(field: FieldInfo) -> bool:
    return any(getattr(each, "func", None) is parse_duration for each in field.metadata)


def _limit(kind: str, context: Mapping[str, Any]) -> float:
    """What a number had to be above, below or at; 0 where it is another fault."""
    return float(context[_LIMITS[kind][0]]) if kind in _LIMITS else 0.0


def _each(fault: Mapping[str, Any]) -> list[str]:
    """What a check of ours says, a text for each thing that it finds."""
    error = fault.get("ctx", {}).get("error")
    if isinstance(error, Faults):
        return list(error.lines)
    return [_words(fault["msg"])]


def _words(message: str) -> str:
    return message.removeprefix("Value error, ").replace("\n", "; ")
