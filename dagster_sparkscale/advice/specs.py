"""Policies in a line of text, as `capacity:price_of_lateness=100`, and as a declaration. Pure."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from dagster_sparkscale.autoscale.capacity.policy import CapacityPolicy
from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.policies import AutoscalePolicy
from dagster_sparkscale.declare.stream import Stream

DECLARED = "declared"
"""The policy that the stream has."""
KINDS: Mapping[str, type[AutoscalePolicy]] = {"ratio": RatioPolicy, "capacity": CapacityPolicy}
_COMMON = frozenset(AutoscalePolicy.model_fields)


def policy_of(text: str, declared: AutoscalePolicy) -> AutoscalePolicy:
    """The policy that a line of text means.

    `declared`, `ratio` or `capacity`, and behind a colon what is otherwise than declared:
    `ratio:scale_up_ratio=0.8,max_executors=12`. What every policy has, as the numbers of executors,
    stays as declared.

    Raises:
        DeclarationError: there is no such policy, or no such field, or it can't have that value.
    """
    kind, _, rest = text.partition(":")
    fields = dict(_field(text, each) for each in rest.split(",")) if rest else {}
    given = {name: getattr(declared, name) for name in declared.model_fields_set}
    if kind == DECLARED:
        return type(declared)(**given | fields)
    if kind not in KINDS:
        near = get_close_matches(kind, [DECLARED, *KINDS], n=1)
        mean = f"; did you mean {near[0]!r}?" if near else ""
        choices = ", ".join(map(repr, (DECLARED, *KINDS)))
        raise DeclarationError(f"policy = {text!r}: must begin with one of {choices}{mean}")
    of = KINDS[kind]
    if type(declared) is not of:
        given = {name: value for name, value in given.items() if name in _COMMON}
    return of(**given | fields)


def with_policy(stream: Stream, policy: AutoscalePolicy) -> Stream:
    """The stream with another policy.

    Raises:
        DeclarationError: it can't have this one.
    """
    given = {name: getattr(stream, name) for name in stream.model_fields_set}
    return type(stream)(**given | {"autoscale": policy})


def in_python(policy: AutoscalePolicy) -> str:
    """The policy as it is declared, with the fields that are given."""
    fields = [
        f"{name}={_plain(getattr(policy, name))!r}"
        for name in type(policy).model_fields
        if name in policy.model_fields_set
    ]
    return f"{type(policy).__name__}({', '.join(fields)})"


def _field(text: str, part: str) -> tuple[str, Any]:
    name, equals, value = part.partition("=")
    if not equals or not name.strip():
        raise DeclarationError(
            f"policy = {text!r}: {part.strip()!r} must be a field and its value, such as "
            "scale_up_ratio=0.8"
        )
    return name.strip(), _value(value.strip())


def _value(text: str) -> Any:
    if text.lower() == "none":
        return None
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
