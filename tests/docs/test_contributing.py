"""The map of the tests' helpers in Contributing."""

import re

import pytest

from tests.docs.pages import ROOT, tables

(MAP,) = (each for each in tables("docs/contributing.md") if "begin with" in each.header)


@pytest.mark.parametrize(("subject", "helpers", "example"), MAP.rows)
def test_an_example_uses_a_helper_of_its_row(subject: str, helpers: str, example: str) -> None:
    modules = [each.replace("/", ".") for each in re.findall(r"`(tests/[\w/]+)\.py`", helpers)]
    code = (ROOT / example.strip("`")).read_text(encoding="utf-8")
    used = [
        each
        for each in modules
        for room, _, module in [each.rpartition(".")]
        if each in code or re.search(rf"from {room} import .*\b{module}\b", code)
    ]
    assert used, f"{subject}: {example} uses none of {modules}"
