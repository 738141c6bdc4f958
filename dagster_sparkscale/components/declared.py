"""From the fields in a YAML document to declarations, which say themselves what is wrong with them.

Each fault is passed on with the way to its field, so that whoever knows the document can name the
line.
"""

import inspect
import types
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.declare.declaration import Declaration, DeclarationError
from dagster_sparkscale.declare.faults import Line, did_you_mean, shown
from dagster_sparkscale.declare.policies import AutoscalePolicy
from dagster_sparkscale.declare.stream import Stream

TYPE = "type"
"""The field that names a class where there are several."""

Place = tuple[str | int, ...]

OF_SEVERAL: Mapping[type, str] = {
    Stream: "stream",
    AutoscalePolicy: "policy",
    ClusterManager: "cluster manager",
}
"""What is declared as one of several classes, and what one of them is called."""


class Shape(NamedTuple):
    """How a field holds declarations."""

    of: type[Declaration]
    many: type | None = None
    """`list` or `dict` where it holds several; None: one."""


def shape(annotation: Any) -> Shape | None:
    """How a field of this annotation holds declarations; None: it holds none."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if inspect.isclass(annotation) and issubclass(annotation, Declaration):
        return Shape(annotation)
    if origin is Annotated:
        return shape(inner[0])
    if origin in (Union, types.UnionType):
        return next((found for each in inner if (found := shape(each))), None)
    if inspect.isclass(origin) and issubclass(origin, Mapping | Sequence):
        values = next((found for each in reversed(inner) if (found := shape(each))), None)
        return values and Shape(values.of, dict if issubclass(origin, Mapping) else list)
    return None


def known(base: type) -> dict[str, type]:
    """The public classes that are a `base`, by name."""
    # By the public names, which a document has: what is made public is declared in YAML, too.
    package = import_module(__name__.partition(".")[0])
    things = {name: getattr(package, name) for name in package.__all__}
    return {
        name: thing
        for name, thing in sorted(things.items())
        if inspect.isclass(thing) and issubclass(thing, base) and thing is not base
        if not inspect.isabstract(thing)
    }


def declared(given: Any, base: type, place: Place = ()) -> Any:
    """What is declared by `given`: its fields, or the object itself, as a template may give it.

    Args:
        base: the class, or what the one that `type` names is a subclass of.
        place: the way to it in the document.

    Raises:
        DeclarationError: it can't be; the place of each line is the way from the document.
    """
    if not isinstance(given, Mapping):
        if base in OF_SEVERAL and not isinstance(given, base) and given is not None:
            raise _fault(place, f"must be the fields of a {OF_SEVERAL[base]}, not {_kind(given)}")
        return given
    fields = {str(name): value for name, value in given.items()}
    cls = _class(fields, base, place)
    wrong: dict[str, list[Line]] = {}
    for name in [*fields]:
        if lines := [*_nested(cls, fields, name, place)]:
            wrong[name] = lines
            del fields[name]
    faults = [line for lines in wrong.values() for line in lines]
    try:
        made = cls(**fields)
    except DeclarationError as error:
        # Without what is wrong in itself nothing is known of fields that do not go together.
        faults = [
            Line((*place, *at), text)
            for at, text in error.lines
            if not wrong or (at and at[0] not in wrong)
        ] + faults
    if faults:
        raise DeclarationError.of(faults)
    return made


def all_declared(given: Any, base: type, place: Place) -> list[Any]:
    """What is declared by each of a list, with the faults of all.

    Raises:
        DeclarationError: as of `declared`.
    """
    if not isinstance(given, list | tuple):
        raise _fault(place, f"must be a list, not {_kind(given)}")
    made: list[Any] = []
    faults: list[Line] = []
    for index, each in enumerate(given):
        try:
            made.append(declared(each, base, (*place, index)))
        except DeclarationError as error:
            faults += error.lines
    if faults:
        raise DeclarationError.of(faults)
    return made


def _nested(cls: type, fields: dict[str, Any], name: str, place: Place) -> Iterator[Line]:
    """Put declarations in place of what is given for a field of `cls`; the faults of it."""
    field = getattr(cls, "model_fields", {}).get(name)
    form = shape(field.annotation) if field is not None else None
    given, at = fields[name], (*place, name)
    if form is None:
        return
    try:
        if form.many is list and isinstance(given, list | tuple):
            fields[name] = tuple(all_declared(given, form.of, at))
        elif form.many is dict and isinstance(given, Mapping):
            fields[name] = {key: declared(each, form.of, (*at, key)) for key, each in given.items()}
        elif form.many is None:
            fields[name] = declared(given, form.of, at)
    except DeclarationError as error:
        yield from error.lines


def _class(fields: dict[str, Any], base: type, place: Place) -> type:
    """The class that the fields are of, by their `type`, which is taken out of them."""
    if base not in OF_SEVERAL and TYPE not in fields:
        return base
    at, names = (*place, TYPE), known(base)
    what = OF_SEVERAL.get(base, base.__name__)
    right = f"must be {_listed(names)}, or the import path of one of your own"
    if TYPE not in fields:
        raise _fault(place, f"{TYPE}: missing; {right}")
    name = fields.pop(TYPE)
    if isinstance(name, str) and name in names:
        return names[name]
    if not isinstance(name, str) or "." not in name:
        near = did_you_mean(name, names)
        raise _fault(at, f"{TYPE} = {shown(name)}: no such {what};{near} {right}")
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(import_module(module), attribute)
    except Exception as error:  # whatever a module does that is imported
        usual = isinstance(error, ImportError | AttributeError | ValueError | TypeError)
        why = str(error) if usual else f"{type(error).__name__}: {error}"
        raise _fault(at, f"{TYPE} = {shown(name)}: can't be imported: {why}") from None
    if not (inspect.isclass(found) and issubclass(found, base)):
        raise _fault(at, f"{TYPE} = {shown(name)}: must be a subclass of {base.__name__}")
    return found


def _listed(names: Mapping[str, type]) -> str:
    return ", ".join(names) if names else "left out"


def _kind(given: Any) -> str:
    # Not its value, which may be a secret.
    return "nothing" if given is None else f"a {type(given).__name__}"


def _fault(place: Place, text: str) -> DeclarationError:
    return DeclarationError.of([Line(place, text)])
