"""The base of everything a user declares: immutable, strict, and plain about what is wrong."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from dagster_sparkscale.durations import parse_duration

Seconds = Annotated[float, BeforeValidator(parse_duration), Field(gt=0, allow_inf_nan=False)]
"""A positive duration, held as seconds."""


class DeclarationError(ValueError):
    """A declaration that cannot work. One line per fault: the field, its value, what is right."""


class Declaration(BaseModel):
    """A frozen pydantic model whose validation errors are one readable line per fault.

    Values of fields named in `_secret_fields` are never repeated in an error: pydantic's own
    message would print them.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True
    )
    _secret_fields = frozenset({"spark_conf", "env"})

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise DeclarationError(_explain(type(self), data, error)) from None

    def __setattr__(self, name: str, value: Any) -> None:
        # Pydantic refuses as well, and repeats the value.
        raise DeclarationError(f"{type(self).__name__}: {name}: frozen; declare another one")


def _explain(model: type[Declaration], data: dict[str, Any], error: ValidationError) -> str:
    secret: frozenset[str] = model._secret_fields.default  # type: ignore[attr-defined]
    name = data.get("name")
    subject = model.__name__ + (f" {name!r}" if name else "")
    lines = []
    for fault in error.errors(include_url=False):
        path = ".".join(str(part) for part in fault["loc"])
        message = fault["msg"].removeprefix("Value error, ")
        top = str(fault["loc"][0]) if fault["loc"] else None
        if fault["type"] == "extra_forbidden":
            known = ", ".join(sorted(model.model_fields))
            lines.append(f"{subject}: {path}: no such field; the fields are {known}")
        elif fault["type"] == "missing":
            lines.append(f"{subject}: {path}: missing; it has no default")
        elif top is None:
            lines.append(f"{subject}: {message}")
        elif top in secret or isinstance(data.get(top), Declaration):
            lines.append(f"{subject}: {path}: {message}")
        else:
            lines.append(f"{subject}: {path} = {fault['input']!r}: {message}")
    return "\n".join(lines)
