"""Docstrings are sentences with a subject of their own (docs/contributing.md#words-to-avoid)."""

import ast
import re
from pathlib import Path

import pytest

import dagster_sparkscale

PACKAGE = Path(dagster_sparkscale.__file__).parent
MODULES = sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))
NO_SUBJECT = "As|By|For|It|Its|Of|So|That|The same|Them|They|Those|Where|Which|Who|Whose"


def docstrings(source: str) -> list[str]:
    """Collect the docstrings of the module, its classes, functions and fields."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    bodies = [node.body for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]
    values = [each.value for body in bodies for each in body if isinstance(each, ast.Expr)]
    texts = [each.value for each in values if isinstance(each, ast.Constant)]
    return [each for each in texts if isinstance(each, str)]


@pytest.mark.parametrize("module", MODULES)
def test_a_docstring_begins_with_what_it_speaks_of(module: str) -> None:
    found = docstrings((PACKAGE / module).read_text(encoding="utf-8"))
    assert [each for each in found if re.match(rf"({NO_SUBJECT})\b", each)] == []
