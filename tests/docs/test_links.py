"""Links lead somewhere: those of the pages, and the pages that code, samples and errors name."""

import re
import subprocess
from functools import cache

import pytest

from tests.docs.pages import PAGES, ROOT, anchors, code, links

TOPS = ("benchmarks", "dagster_sparkscale", "demo", "deploy", "dev", "docs", "jobs", "tests")


@cache
def tracked() -> tuple[str, ...]:
    """The files of the repository."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("only a clone knows what belongs to the repository")
    return tuple(listed.stdout.splitlines())


@cache
def known() -> set[str]:
    """The files of the repository, and their folders."""
    return {"/".join(name.split("/")[:depth]) for name in tracked() for depth in range(1, 9)}


def leads_nowhere(page: str, target: str) -> str | None:
    """What is wrong with a link on `page`; None if nothing is."""
    path, _, anchor = target.partition("#")
    found = (ROOT / page).parent / path if path else ROOT / page
    try:
        name = str(found.resolve().relative_to(ROOT))
    except ValueError:
        return "leads out of the repository"
    if name not in known():
        return f"there is no {name} in the repository"
    if anchor and not name.endswith(".md"):
        return "only pages have anchors"
    if anchor and anchor not in anchors(name):
        return f"{name} has no heading for #{anchor}"
    return None


@pytest.mark.parametrize("page", PAGES)
def test_every_link_and_picture_is_there(page: str) -> None:
    inside = [target for target in links(page) if not target.startswith("https://")]
    wrong = {target: leads_nowhere(page, target) for target in inside}
    assert {target: why for target, why in wrong.items() if why} == {}


@pytest.mark.parametrize(
    ("page", "target", "why"),
    [
        ("docs/cli.md", "nowhere.md", "there is no docs/nowhere.md in the repository"),
        ("docs/cli.md", "#nowhere", "docs/cli.md has no heading for #nowhere"),
        ("README.md", "docs/cli.md#nowhere", "docs/cli.md has no heading for #nowhere"),
        ("README.md", "../elsewhere.md", "leads out of the repository"),
        ("README.md", "definitions.py#L3", "only pages have anchors"),
        ("docs/cli.md", "../README.md#two-commands", None),
    ],
)
def test_a_link_that_leads_nowhere_is_noticed(page: str, target: str, why: str | None) -> None:
    assert leads_nowhere(page, target) == why


@pytest.mark.parametrize("page", PAGES)
def test_paths_of_the_repository_in_backticks_are_there(page: str) -> None:
    named = {each for each in code(page) if re.fullmatch(rf"({'|'.join(TOPS)})/[\w./-]+", each)}
    assert {each for each in named if each.rstrip("/") not in known()} == set()


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_modules_in_backticks_are_there(page: str) -> None:
    """By their paths in the package, as `watch/sensor.py`; the X of `declare/X.py` is the
    reader's."""
    named = {each for each in code(page) if re.fullmatch(r"(\w+/)+\w+\.py", each)}
    there = known() | {name.removeprefix("dagster_sparkscale/") for name in known()}
    assert {each for each in named - there if not each.endswith("/X.py")} == set()


def test_every_page_is_listed_in_the_readme() -> None:
    listed = {target for target in links("README.md") if target.startswith("docs/")}
    assert {page for page in PAGES if page.startswith("docs/")} <= listed


def test_pages_that_are_named_outside_of_the_docs_are_there() -> None:
    named = {}
    for name in tracked():
        if name in PAGES or not name.endswith((".py", ".yaml", ".toml", ".cfg", "Makefile")):
            continue
        if name.startswith("tests/docs/"):
            continue
        for target in re.findall(r"\bdocs/[\w-]+\.md(?:#[\w-]+)?", (ROOT / name).read_text()):
            named[name, target] = leads_nowhere("README.md", target)
    assert named, "such as docs/kafka.md in definitions.py"
    assert {place: why for place, why in named.items() if why} == {}
