"""Reads the JSON of other processes into dataclasses.

Unknown fields are passed over, and absent ones have their defaults: the writer may be newer or
older than this side. Types are strict: "1" is no number, and 1 is no text. Pure.
"""

import json
import reprlib
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")

_LARGEST = 2**63
_TYPES = {
    "int_type": "int",
    "float_type": "float",
    "string_type": "str",
    "bool_type": "bool",
    "dict_type": "an object",
    "dataclass_type": "an object",
}


class Malformed(ValueError):
    """The JSON has another form than it should; the text names the field, and what would be
    right."""


def read(kind: TypeAdapter[T], text: bytes | str) -> T:
    """Read the JSON object in `text` into the dataclass of `kind`.

    Raises:
        Malformed: the text is no JSON, or a field is missing or has another type.
    """
    try:
        try:
            value = kind.validate_json(text, strict=True)
        except ValidationError as error:
            if (mended := _mended(text, error)) is None:
                raise
            value, text = kind.validate_json(mended, strict=True), mended
    except ValidationError as error:
        raise Malformed(_explain(error)) from None
    if _may_be_large(text):
        _check_numbers(value, "")
    return value


def _mended(text: bytes | str, error: ValidationError) -> bytes | None:
    """Turn JSON that only Python reads into JSON for pydantic: in another encoding, such as an
    editor leaves, or with half a character. None: `text` is no JSON."""
    if error.errors(include_url=False)[0]["type"] != "json_invalid":
        return None
    try:
        return json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return None


def _explain(error: ValidationError) -> str:
    fault = error.errors(include_url=False)[0]
    place, found = fault["loc"], fault["input"]
    if fault["type"] == "json_invalid":
        return f"it is not JSON: {fault['ctx']['error']}"
    if not place:
        return f"it must be a JSON object, not {type(found).__name__}"
    # Of `executors, 0, cores` the last; of `executors, 0` what it is an item of.
    name = next(step for step in reversed(place) if isinstance(step, str))
    if isinstance(place[-1], int) or fault["type"] == "tuple_type":
        return f"{name}: must be a list of objects"
    if fault["type"] == "missing" or found is None:
        return f"{name}: missing"
    right = _TYPES.get(fault["type"], fault["msg"].removeprefix("Input should be "))
    return f"{name} = {reprlib.repr(found)}: must be {right}"


def _may_be_large(text: bytes | str) -> bool:
    """Whether a number in JSON may be one that `_check_numbers` refuses, by how it is written.

    To look through what was read takes as long as to read it.
    """
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    kinds = data.translate(_KINDS)
    return b"0" * _DIGITS in kinds or b"0e" in kinds or b"NaN" in data or b"Infinity" in data


_KINDS = bytes(
    ord("0") if chr(byte).isdigit() and byte < 128 else ord("e") if byte in b"eE" else ord(" ")
    for byte in range(256)
)
"""What a byte is: of a number, what may begin an exponent, or neither."""
_DIGITS = len(str(_LARGEST))
"""A number with fewer before its point is smaller, if it has no exponent."""


def _check_numbers(value: Any, name: str) -> None:
    """Refuse numbers in JSON that no later arithmetic survives."""
    if type(value) in _NUMBERS:
        if not abs(value) < _LARGEST:  # NaN is not, either
            raise Malformed(f"{name} = {reprlib.repr(value)}: must be a number of 64 bits")
    elif isinstance(value, tuple):
        for item in value:
            if type(item) not in _WITHOUT_NUMBERS:
                _check_numbers(item, name)
    else:
        for each in _names(type(value)):  # type: ignore[arg-type]  # a class is hashable
            field = getattr(value, each)
            if type(field) not in _WITHOUT_NUMBERS:
                _check_numbers(field, each)


_NUMBERS = (int, float)
_WITHOUT_NUMBERS = (str, NoneType, bool)
"""Most fields, for which a tick of a thousand streams has no call."""


@cache
def _names(kind: type) -> tuple[str, ...]:
    """The names of a dataclass's fields, kept: a tick needs them for every executor of every
    stream. None of another type."""
    return tuple(each.name for each in fields(kind)) if is_dataclass(kind) else ()
