"""An extension of Griffe, by which mkdocstrings reads the package, for the fields of declarations.

The `description` of a field is its docstring where it has none of its own: fields of resources and
components have a description, as Dagster shows that in its UI. What pydantic is told of a field
besides is left out: its type and its default are what a reader looks for.
"""

import ast
from typing import Any

import griffe

# A function of this package that makes a Field of its second argument, the description.
OURS = "_attribute"


def description(node: ast.AST) -> str | None:
    """The description that a declared field is given, in its value or in its annotation."""
    for call in ast.walk(node):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        texts = [each.value for each in call.keywords if each.arg == "description"]
        if call.func.id == OURS:
            texts += call.args[1:2]
        for text in texts:
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                return text.value
    return None


def default(value: Any) -> Any:
    """The default that a field has; None: none."""
    if not isinstance(value, griffe.ExprCall) or str(value.function) != "Field":
        return value
    given = {e.name: e.value for e in value.arguments if isinstance(e, griffe.ExprKeyword)}
    factory = given.get("default_factory")
    return f"{factory}()" if factory else given.get("default")


def plain(annotation: Any) -> Any:
    """The type that an `Annotated` is about."""
    if not isinstance(annotation, griffe.ExprSubscript) or str(annotation.left) != "Annotated":
        return annotation
    inside = annotation.slice
    return inside.elements[0] if isinstance(inside, griffe.ExprTuple) else annotation


class Fields(griffe.Extension):
    """Fields of classes as their readers know them."""

    def on_attribute_instance(self, *, node: Any, attr: griffe.Attribute, **_: object) -> None:
        if not isinstance(node, ast.AnnAssign):
            return
        if attr.docstring is None and (text := description(node)):
            attr.docstring = griffe.Docstring(text, parent=attr)
        attr.value, attr.annotation = default(attr.value), plain(attr.annotation)
