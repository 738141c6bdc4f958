"""The base of everything a user declares: immutable, strict, and plain about what is wrong.

Pure.
"""

from collections.abc import Iterable, Iterator
from operator import ge, gt, le
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticKnownError

from dagster_sparkscale.declare.faults import Line, explain, refuse, shown
from dagster_sparkscale.durations import parse_duration


def _not_a_truth(kind: Literal["int_type", "float_type"]) -> BeforeValidator:
    """Refuses True and False, which to Python are 1 and 0."""

    def refuse(value: Any) -> Any:
        if isinstance(value, bool):
            raise PydanticKnownError(kind)
        return value

    return BeforeValidator(refuse)


Whole = Annotated[int, _not_a_truth("int_type"), Field(le=2**31 - 1)]
"""A whole number that a JVM's int can hold."""
Count = Annotated[Whole, Field(ge=1)]
Records = Annotated[int, _not_a_truth("int_type"), Field(ge=1, le=2**63 - 1)]
"""A number of records, as a JVM's long holds it."""
Number = Annotated[float, _not_a_truth("float_type"), Field(allow_inf_nan=False)]
if TYPE_CHECKING:
    # A checker without pydantic's plugin takes a field's type for that of the argument too, and
    # would refuse "10s" for a float: there is no way to say that a field converts (PEP 712).
    Seconds = Any
else:
    Seconds = Annotated[float, BeforeValidator(parse_duration), Field(gt=0, allow_inf_nan=False)]
    """A positive duration, held as seconds."""


Order = tuple[tuple[str, Literal["at least", "at most", "above"], str], ...]
"""What a field must be, compared with another one, where both are given."""
_COMPARE = {"at least": ge, "at most": le, "above": gt}


def _plain(number: float) -> str:
    return f"{number:g}" if isinstance(number, float) else str(number)


class DeclarationError(ValueError):
    """A declaration that cannot work. One line per fault: the field, its value, what is right."""

    def __init__(self, text: str, lines: Iterable[Line] = ()) -> None:
        super().__init__(text)
        self.lines = tuple(lines) or (Line((), text),)
        """Each fault with its field."""

    @classmethod
    def of(cls, lines: Iterable[Line]) -> Self:
        """The error that says all of `lines`."""
        lines = tuple(lines)
        return cls("\n".join(line.text for line in lines), lines)


class Declaration(BaseModel):
    """A frozen pydantic model whose validation errors are one readable line per fault.

    Values of fields named in `_secret_fields` are never repeated in an error: pydantic's own
    message would print them.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True
    )
    _secret_fields: ClassVar[frozenset[str]] = frozenset({"spark_conf", "env"})

    _order: ClassVar[Order] = ()

    def __init__(self, *values: Any, **data: Any) -> None:
        name, subject = data.get("name"), type(self).__name__
        if name and isinstance(name, str):
            subject += f" {shown(name)}"
        fields = type(self).model_fields
        if values:
            first = "name" if "name" in fields else next(iter(fields))
            # Not the values: they may be secrets.
            raise DeclarationError(
                f"{subject}: {len(values)} value(s) without the name of a field: give each by its "
                f"name, such as {type(self).__name__}({first}=...)"
            )
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise DeclarationError.of(
                explain(*(subject, fields, error, self._secret_fields), elsewhere=self._elsewhere)
            ) from None

    @classmethod
    def _elsewhere(cls, name: str) -> str | None:
        """Say where a name that is no field here is declared instead; None: not known."""
        return None

    def _faults(self) -> Iterator[str]:
        """What is wrong with fields that do not go together, each by itself."""
        for field, how, other in self._order:
            value, limit = getattr(self, field), getattr(self, other)
            if value is not None and limit is not None and not _COMPARE[how](value, limit):
                yield f"{field} = {_plain(value)}: must be {how} {other} = {_plain(limit)}"

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        refuse(self._faults())
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        # Pydantic refuses as well, and repeats the value.
        raise DeclarationError(f"{type(self).__name__}: {name}: frozen; declare another one")
