"""Policies in a line of text, as `capacity:price_of_lateness=100`, and as a declaration. Pure."""

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from dagster_sparkscale.autoscale.capacity.policy import CapacityPolicy
from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.backtest.model import Application
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.learner import Workload
from dagster_sparkscale.declare.policies import AutoscalePolicy
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.observe.evaluation import Evaluation

DECLARED = "declared"
"""The policy that the stream has."""
FIXED = "fixed"
"""No policy: a number of executors."""
KINDS: Mapping[str, type[AutoscalePolicy]] = {"ratio": RatioPolicy, "capacity": CapacityPolicy}
_COMMON = frozenset(AutoscalePolicy.model_fields)


class Still:
    """What decides for a stream without a policy: it keeps its executors."""

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """The number that it is to have, where it has another."""
        if evaluation.requested is None or evaluation.requested == bounds.initial:
            return Hold("it has no policy")
        return ScaleTo(bounds.initial, f"{bounds.initial} are declared")


def named(text: str, stream: Stream) -> Stream:
    """The stream with the policy that a line of text means, or with `fixed:executors=4`.

    Raises:
        DeclarationError: the text means none, or the stream can't have it.
    """
    kind, _, rest = text.partition(":")
    if kind == DECLARED and not rest:
        return stream
    if kind == FIXED:
        name, _, count = rest.partition("=")
        if name.strip() != "executors" or not count:
            raise DeclarationError(f"policy = {text!r}: must be as fixed:executors=4")
        return _with(stream, autoscale=None, executors=_value(count.strip()))
    if stream.autoscale is None and kind == DECLARED:
        raise DeclarationError(f"policy = {text!r}: {stream.name} has no policy that has fields")
    return with_policy(stream, policy_of(text, stream.autoscale or AutoscalePolicy()))


def policy_of(text: str, declared: AutoscalePolicy) -> AutoscalePolicy:
    """The policy that a line of text means.

    `declared`, `ratio` or `capacity`, and behind a colon what is otherwise than declared:
    `ratio:scale_up_ratio=0.8,max_executors=12`. What every policy has, as the numbers of executors,
    stays as declared.

    Raises:
        DeclarationError: there is no such policy, or no such field, or it can't have that value.
    """
    kind, _, rest = text.partition(":")
    changed = dict(_field(f"policy = {text!r}", each) for each in rest.split(",")) if rest else {}
    given = {name: getattr(declared, name) for name in declared.model_fields_set}
    if kind == DECLARED:
        return type(declared)(**given | changed)
    if kind not in KINDS:
        near = get_close_matches(kind, [DECLARED, FIXED, *KINDS], n=1)
        mean = f"; did you mean {near[0]!r}?" if near else ""
        choices = ", ".join(map(repr, (DECLARED, FIXED, *KINDS)))
        raise DeclarationError(f"policy = {text!r}: must begin with one of {choices}{mean}")
    of = KINDS[kind]
    if type(declared) is not of:
        given = {name: value for name, value in given.items() if name in _COMMON}
    return of(**given | changed)


def with_policy(stream: Stream, policy: AutoscalePolicy) -> Stream:
    """The stream with another policy.

    Raises:
        DeclarationError: it can't have this one.
    """
    return _with(stream, autoscale=policy, executors=None)


def _with(stream: Stream, **changed: Any) -> Stream:
    given = {name: getattr(stream, name) for name in stream.model_fields_set}
    return type(stream)(**given | changed)


def declaration(stream: Stream) -> str:
    """How many executors the stream is to have, as it is declared: the policy, or the number."""
    if stream.autoscale is None:
        return f"executors={stream.bounds.initial}"
    return in_python(stream.autoscale)


def application_of(text: str, workload: Workload) -> Application:
    """The application that a line of text means, as `overhead=0.8,work=0.003,partitions=64`.

    Raises:
        ValueError: it has no such field, or not such a value; or a field lacks that it needs.
    """
    known = [each.name for each in fields(Application) if each.name not in ("workload", "costs")]
    given = dict(_field(f"application = {text!r}", each) for each in text.split(","))
    for name in given:
        if name not in known:
            raise ValueError(f"application: {name!r}: must be one of {', '.join(known)}")
    for name in ("overhead", "work"):
        if name not in given:
            raise ValueError(f"application = {text!r}: must have {name}, in seconds")
    for name, value in given.items():
        if value is None or isinstance(value, str):
            raise ValueError(f"application: {name} = {value!r}: must be a number, true or false")
    return Application(workload, **given)


def in_python(policy: AutoscalePolicy) -> str:
    """The policy as it is declared, with the fields that are given."""
    shown = [
        f"{name}={_plain(getattr(policy, name))!r}"
        for name in type(policy).model_fields
        # That there is none is the default of each field that may be None.
        if name in policy.model_fields_set and getattr(policy, name) is not None
    ]
    return f"{type(policy).__name__}({', '.join(shown)})"


def _field(where: str, part: str) -> tuple[str, Any]:
    name, equals, value = part.partition("=")
    if not equals or not name.strip():
        raise DeclarationError(
            f"{where}: {part.strip()!r} must be a field and its value, such as name=0.8"
        )
    return name.strip(), _value(value.strip())


_WORDS: Mapping[str, bool | None] = {"none": None, "true": True, "false": False}


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
