"""Commands, options and settings that the docs name exist, and so do those of its shell blocks."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from dagster_sparkscale.cli.main import main
from tests.docs.commands import CLONE, fault, options, simple, typed
from tests.docs.kinds import kind
from tests.docs.pages import PAGES, ROOT, blocks, code, headings, tables

SHELL = [block for page in PAGES for block in blocks(page) if kind(block) == "shell"]
SOURCES = "".join(
    path.read_text()
    for top in ("benchmarks", "dagster_sparkscale", "demo", "dev", "tests")
    for path in sorted((ROOT / top).rglob("*.py"))
    if not path.is_relative_to(ROOT / "tests" / "docs")
)
# Options of programs that are not ours: of Spark, Docker, kubectl and Dagster's webserver.
THEIRS = {
    *("--build-arg", "--conf", "--delete-emptydir-data", "--ignore-daemonsets", "--path-prefix"),
    *("--platform", "--properties-file", "--target"),
}


@pytest.mark.parametrize("block", SHELL, ids=lambda block: block.place)
def test_what_a_block_of_commands_calls_is_there(block) -> None:
    wrong = {line: fault(words) for line in typed(block) for words in simple(line)}
    assert {line: why for line, why in wrong.items() if why} == {}


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_backticks_are_there(page: str) -> None:
    wrong = {}
    for text in code(page):
        if re.match(r"(make|sparkscale|python -m (dagster_sparkscale|dev)\S*)( |$)", text):
            wrong[text] = fault(shlex.split(text.replace("...", "7")))
    assert {text: why for text, why in wrong.items() if why} == {}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("make tests", "the Makefile has no target tests"),
        ("make demo HEADLES=1", "the Makefile has no HEADLES"),
        ("make bench ONLY=nothing", "there is no benchmark nothing"),
        ("sparkscale scales clicks 3", "sparkscale has no command scales"),
        ("sparkscale --versions", "sparkscale has no command --versions"),
        ("sparkscale scale clicks 3 --because x", "--because"),
        ("sparkscale scale clicks three", "is not a valid integer"),
        ("python -m dev.nothing", "there is no module dev.nothing"),
        ("python -m dagster_sparkscale.clusters.local status --folder x", "has no --folder"),
        ("pip install '/path/to/clone[sparks]'", "there are the extras"),
        ("cp /path/to/clone/nothing.py .", "there is no /path/to/clone/nothing.py"),
        ("podman run x", "nobody has said how this is checked"),
    ],
)
def test_a_command_that_does_not_exist_is_noticed(line: str, why: str) -> None:
    [words] = simple(line)
    assert why in str(fault(words))


def test_the_page_of_the_command_line_has_every_command_and_its_options() -> None:
    table, *_ = tables("docs/cli.md")
    named = {}
    for first, second in table.rows:
        [name] = re.findall(r"`([a-z]+)[^`]*`", first)
        named[name] = set(re.findall(r"(--[a-z-]+)", second))
    assert set(named) == set(main.commands)
    assert {
        name: told - options(name) for name, told in named.items() if told - options(name)
    } == {}
    titles = " ".join(headings("docs/cli.md")).lower()
    assert {name for name in named if name not in titles} == set()


@pytest.mark.parametrize("page", PAGES)
def test_options_in_backticks_are_options_of_something(page: str) -> None:
    ours = set().union(*map(options, main.commands))
    told = set()
    for text in code(page):
        if text.startswith(("-", "sparkscale ", "python ")):
            told |= set(re.findall(r"(?<!\S)--[a-z][a-z-]+", text))
    assert {name for name in told - ours - THEIRS if f'"{name}"' not in SOURCES} == set()


@pytest.mark.parametrize("page", PAGES)
def test_variables_and_settings_of_ours_are_read_or_set_somewhere(page: str) -> None:
    told = set()
    for text in code(page):
        told |= {f'"{name}"' for name in re.findall(r"SPARKSCALE_TEST_([A-Z_]+)", text)}
        told |= set(re.findall(r"SPARKSCALE_(?!TEST_)[A-Z_]+", text))
        told |= set(re.findall(r"spark\.sparkscale\.\w+(?:\.\w+)*", text))
    assert {name for name in told if name not in SOURCES} == set()


def test_what_the_readme_has_copied_is_a_code_location(tmp_path: Path) -> None:
    """Its commands are carried out, but for those that install and serve."""
    [block] = [each for each in SHELL if each.page == "README.md" and "definitions.py" in each.text]
    script = f"set -e; pip() {{ :; }}; dg() {{ :; }}\n{block.text.replace(CLONE, str(ROOT))}"
    subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
        check=True,
    )
    assert {path.name for path in tmp_path.iterdir()} == {
        *("definitions.py", "jobs", "sensors", "dagster"),
    }
    assert (tmp_path / "dagster" / "dagster.yaml").is_file()
    assert {"clicks.py", "orders.py"} <= {path.name for path in (tmp_path / "jobs").iterdir()}
