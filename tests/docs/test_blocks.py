"""Every block of code of the documentation is something that a test looks at; its Python runs."""

import ast
import builtins
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_sparkscale import LocalCluster
from tests.docs.kinds import COMPILED, ON_SPARK, PROSE, YOURS, kind, named
from tests.docs.pages import PAGES, Block, blocks
from tests.fakes import structured
from tests.sources.kinesis.structured import local_session
from tests.watch.deployment import Deployment

BLOCKS = [block for page in PAGES for block in blocks(page)]
OF_PYTHON = sorted({block.page for block in BLOCKS if kind(block) == "run"})


def test_every_block_is_looked_at() -> None:
    unknown = [f"{block.place}: {block.first}" for block in BLOCKS if kind(block) is None]
    assert unknown == [], (
        "nothing tests these blocks. Python, JSON and YAML belong into a fence that names the "
        "language; commands begin with a program that tests/docs/kinds.py lists in _SHELL; what no "
        "program reads is listed in PROSE there, with the reason"
    )


@pytest.mark.parametrize("table", [COMPILED, ON_SPARK, PROSE])
def test_each_exception_is_about_one_block(table: Any) -> None:
    found = [entry for block in BLOCKS if (entry := named(block, table))]
    assert sorted(found) == sorted(table), "a block is gone, or begins otherwise now"


def carried_out(block: Block, namespace: dict[str, Any]) -> None:
    """Runs it; an error names the page and the line."""
    exec(compile("\n" * block.line + block.text, block.page, "exec"), namespace)


class Module(dict[str, Any]):
    """The names of a page, as those of a module that pickling and decorators can find."""

    def __init__(self, **names: Any) -> None:
        super().__init__(__name__="docs", **names)


@pytest.mark.parametrize("page", OF_PYTHON)
def test_the_python_of_a_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its blocks one after the other; later ones know what those before have defined."""
    monkeypatch.chdir(tmp_path)
    deployed = Deployment([structured("clicks")])  # Dagster has seen it for a minute
    deployed.tick()
    monkeypatch.setattr(dg.DagsterInstance, "get", lambda: deployed.instance)
    namespace = Module(streams=deployed.streams, cluster=LocalCluster())
    for block in blocks(page):
        if kind(block) == "run":
            carried_out(block, namespace)
            if "defs" in namespace:
                dg.Definitions.validate_loadable(namespace["defs"])


@pytest.mark.spark
def test_python_that_needs_a_session_runs() -> None:
    with local_session(registered=False) as spark:
        for block in BLOCKS:
            if kind(block) == "spark":
                carried_out(block, Module(spark=spark))


def imported(tree: ast.Module) -> Iterator[Any]:
    """All that the code imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (importlib.import_module(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = importlib.import_module(str(node.module))
            yield from (getattr(module, alias.name) for alias in node.names)


def names(tree: ast.Module) -> tuple[set[str], set[str]]:
    """The names that the code uses, and those that it defines."""
    used, defined = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else defined).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.arg):
            defined.add(node.arg)
        elif isinstance(node, ast.alias):
            defined.add(node.asname or node.name)
    return used, defined


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if kind(block) == "compiled"], ids=lambda block: block.place
)
def test_python_that_does_not_run_here_compiles_and_imports_what_there_is(block: Block) -> None:
    tree = ast.parse(block.text)
    compile(tree, block.page, "exec")
    assert all(imported(tree)) is True
    used, defined = names(tree)
    assert used - defined - YOURS - set(dir(builtins)) == set()
