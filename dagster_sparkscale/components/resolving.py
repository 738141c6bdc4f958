"""The attributes of a document as declarations; an error names its file and line."""

from collections.abc import Callable
from typing import Any

import dagster as dg

from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.components.declared import Place, all_declared, declared
from dagster_sparkscale.components.templates import rendered
from dagster_sparkscale.declare.backtest import Backtest
from dagster_sparkscale.declare.budget import Budget
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.faults import Line
from dagster_sparkscale.declare.stream import Stream

PROGRAM = "program"


def streams(context: dg.ResolutionContext, given: Any) -> Any:
    def declare(value: Any, place: Place) -> list[Any]:
        for stream in value if isinstance(value, list | tuple) else ():
            if isinstance(stream, dict) and isinstance(stream.get(PROGRAM), str):
                stream[PROGRAM] = _beside(context, stream[PROGRAM])
        return all_declared(value, Stream, place)

    return _resolved(context, given, declare)


def cluster(context: dg.ResolutionContext, given: Any) -> Any:
    return _resolved(context, given, lambda value, place: declared(value, ClusterManager, place))


def budget(context: dg.ResolutionContext, given: Any) -> Any:
    return _resolved(context, given, lambda value, place: declared(value, Budget, place))


def backtest(context: dg.ResolutionContext, given: Any) -> Any:
    return _resolved(context, given, lambda value, place: declared(value, Backtest, place))


def plain(context: dg.ResolutionContext, given: Any) -> Any:
    return _resolved(context, given, lambda value, place: value)


def _resolved(
    context: dg.ResolutionContext, given: Any, declare: Callable[[Any, Place], Any]
) -> Any:
    place = tuple(context.path)
    try:
        return declare(rendered(given, context.scope, place), place)
    except DeclarationError as error:
        # As they follow one another in the document.
        lines = sorted(error.lines, key=lambda line: _at(context, line)[1])
        raise _refusal("\n".join(_where(context, line) for line in lines)) from None
    except Exception as error:
        # Dagster shows any other error with what stands around it in the document.
        text = f"{type(error).__name__}: {error}"
        raise _refusal(_where(context, Line(place, text))) from None


def _where(context: dg.ResolutionContext, line: Line) -> str:
    """What is said, behind the file and the line that it is said of. Without the text of that
    line, which may hold a secret."""
    name, number = _at(context, line)
    return f"{name}:{number}: {line.text}" if name else line.text


def _at(context: dg.ResolutionContext, line: Line) -> tuple[str, int]:
    """File and line; empty and 0: the attributes are of no file."""
    tree = context.source_position_tree
    if tree is None:
        return "", 0
    position, _ = tree.lookup_closest_and_path(line.place, None)
    return position.filename, position.start.line


def _beside(context: dg.ResolutionContext, program: str) -> str:
    """The program beside the document, where there is one of that name; else as it is."""
    beside = context.resolve_source_relative_path(program)
    try:
        return str(beside) if beside.is_file() else program
    except OSError:  # such as of a name that is too long for a file
        return program


def _refusal(text: str) -> Exception:
    """The error that Dagster passes on as it is; any other it shows with all that it did."""
    from dagster.components.resolved.errors import ResolutionException

    return ResolutionException(text)
