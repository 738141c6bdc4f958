"""Functions that users call with many arguments: what is wrong with a call, in words. Pure."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.faults import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")


def called_right(hints: Mapping[str, str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function that refuses a call with arguments it does not have, or without some that it
    needs, as it refuses values.

    Args:
        hints: what is right, by the name of an argument: of one that must be given, or that
            belongs elsewhere.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if fault := _fault(signature, len(args), kwargs, hints):
                raise DeclarationError(f"{function.__name__}: {fault}")
            return function(*args, **kwargs)

        return call

    return decorate


def _fault(
    signature: inspect.Signature, given: int, named: Mapping[str, object], hints: Mapping[str, str]
) -> str | None:
    known = signature.parameters
    for name in named:
        if name not in known:
            right = hints.get(name, f"there is {', '.join(known)}")
            return f"{name}: no such argument;{did_you_mean(name, known)} {right}"
    in_order = [name for name, each in known.items() if each.kind is not each.KEYWORD_ONLY]
    if given > len(in_order):
        return f"{given} arguments without a name; give those after {in_order[-1]} by their names"
    for name in in_order[:given]:
        if name in named:
            return f"{name}: given twice"
    for name, each in known.items():
        if each.default is each.empty and name not in (*in_order[:given], *named):
            return f"{name}: missing; {hints[name]}"
    return None
