"""The JSON schema of the attributes of a component: what editors complete and `dg check yaml`
checks.

It is made of the declarations, and laxer than these: what no schema can say, such as fields that
do not go together, is said when they are loaded. Any value may be a template.
"""

import ast
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticOmit

from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.components.declared import OF_SEVERAL, TYPE, known, shape
from dagster_sparkscale.declare.backtest import Backtest
from dagster_sparkscale.declare.budget import Budget
from dagster_sparkscale.declare.fields import MOST_SHARDS
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.durations import parse_duration

Schema = dict[str, Any]

_TEMPLATE = {"type": "string", "pattern": r"\{[{%]"}
_NULL = {"type": "null"}
_IMPORT_PATH = r"\."
_LIMITS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}
"""Pydantic's words for what JSON schema calls otherwise: it leaves them behind a check of ours."""
_NOT_WRITTEN = frozenset({"kind"})
"""Fields that a class sets itself."""


class _Generator(GenerateJsonSchema):
    """The schema of what a field takes, which may be more than what it holds."""

    def callable_schema(self, schema: Any) -> JsonSchemaValue:
        raise PydanticOmit  # by a template only

    def function_before_schema(self, schema: Any) -> JsonSchemaValue:
        if schema["function"]["function"] is parse_duration:
            return {"type": ["number", "string"]}
        return super().function_before_schema(schema)

    def dict_schema(self, schema: Any) -> JsonSchemaValue:
        made = super().dict_schema(schema)
        if made.get("additionalProperties") == {"type": "string"}:
            # Settings may be numbers and switches; what must be text says so itself.
            made["additionalProperties"] = {"type": ["string", "number", "boolean"]}
        return made


@cache
def attributes() -> dict[str, Schema]:
    """The schema of each attribute of the component that is a declaration, or one of several."""
    return {
        "streams": _or_template({"type": "array", "items": schema_of(Stream), "minItems": 1}),
        "cluster": schema_of(ClusterManager),
        "cluster_key": {"type": "string"},
        "autoscaler_running": _or_template({"type": "boolean"}),
        "run_tags": _or_template({"type": ["object", "null"]}),
        "budget": _or_null(schema_of(Budget)),
        "backtest": _or_null(schema_of(Backtest)),
        "shards": _or_template({"type": "integer", "minimum": 1, "maximum": MOST_SHARDS}),
    }


def schema_of(base: type) -> Schema:
    """The schema of the fields by which a `base` is declared."""
    if base not in OF_SEVERAL:
        return _or_template(_fields(base))
    by_name = known(base)
    return _or_template(
        {
            "type": "object",
            "required": [TYPE],
            "properties": {
                TYPE: {
                    "description": f"The {OF_SEVERAL[base]}, or the import path of one of your own",
                    "if": {"type": "string", "pattern": _IMPORT_PATH},
                    "else": {"enum": [*by_name]},
                }
            },
            "allOf": [
                {
                    "if": {"required": [TYPE], "properties": {TYPE: {"const": name}}},
                    "then": _fields(cls, {TYPE: {"const": name}}),
                }
                for name, cls in by_name.items()
            ],
        }
    )


def _fields(cls: type, properties: Mapping[str, Any] | None = None) -> Schema:
    assert issubclass(cls, BaseModel)
    made = cls.model_json_schema(schema_generator=_Generator)
    about = _descriptions(cls)
    fields = {
        name: _field(cls, name, given, about)
        for name, given in made["properties"].items()
        if name not in _NOT_WRITTEN
    }
    return {
        "type": "object",
        "description": (inspect.getdoc(cls) or "").partition("\n\n")[0],
        "properties": {**(properties or {}), **fields},
        "required": [name for name in made.get("required", ()) if name not in _NOT_WRITTEN],
        "additionalProperties": False,
    }


def _field(cls: type[BaseModel], name: str, given: Schema, about: Mapping[str, str]) -> Schema:
    form = shape(cls.model_fields[name].annotation)
    if form is None:
        made = {
            key: value
            for key, value in _standard(given).items()
            if key not in ("title", "description")
        }
    else:
        inner = schema_of(form.of)
        one = {"type": "array", "items": inner} if form.many is list else inner
        made = {"type": "object", "additionalProperties": inner} if form.many is dict else one
        if _NULL in given.get("anyOf", ()):
            made = _or_null(made)
    text = given.get("description") or about.get(name)
    return {**({"description": text} if text else {}), **_or_template(made)}


def _standard(schema: Any) -> Any:
    """A schema of Pydantic's in the words of JSON schema, and one alternative at a time."""
    if isinstance(schema, list):
        return [_standard(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    names = _LIMITS if isinstance(schema.get("type"), str | list) else {}
    made = {names.get(key, key): _standard(value) for key, value in schema.items()}
    alternatives = made.get("anyOf", ())
    if len(alternatives) == 2 and alternatives[1] == _NULL:
        return {**{k: v for k, v in made.items() if k != "anyOf"}, **_or_null(alternatives[0])}
    return made


# By `if`, so that what is wrong is said of the value, and not that no alternative fits.


def _or_null(schema: Schema) -> Schema:
    return {"if": _NULL, "else": schema}


def _or_template(schema: Schema) -> Schema:
    return {"if": _TEMPLATE, "else": schema}


def _descriptions(cls: type) -> dict[str, str]:
    """The texts that stand below the fields of a class and of those that it is made of."""
    found: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        if each.__module__.partition(".")[0] == __name__.partition(".")[0]:
            found |= _written_in(each)
    return found


@cache
def _written_in(cls: type) -> dict[str, str]:
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        ):
            found[field.target.id] = inspect.cleandoc(text.value.value)
    return found
