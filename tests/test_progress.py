"""What is said of tests that run."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests import progress
from tests.progress import Progress
from tests.waiting import wait_for


def test_a_test_is_named_while_it_runs_the_longest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "_EVERY", 0.01)
    lines: list[str] = []
    reporter: Any = SimpleNamespace(ensure_newline=lambda: None, write_line=lines.append)
    running = Progress(reporter)
    try:
        for test in ("a", "b", "c"):
            running.pytest_runtest_logstart(test)
        running.pytest_runtest_logfinish("a")
        wait_for("both to be named", lambda: lines[-1:] == ["running: b (0 s), c (0 s)"])
        for test, when in (("c", "setup"), ("b", "???")):
            report: Any = SimpleNamespace(nodeid=test, when=when)
            running.pytest_runtest_logreport(report)
        wait_for("one to be named", lambda: lines[-1:] == ["running: c (0 s)"])
    finally:
        running.pytest_sessionfinish()
