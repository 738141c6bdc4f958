"""A plugin of pytest: ends what a run of tests has started, directly or not, and has not ended, and
tells of it (`dev.runs`). Where one process runs all tests, what is below it in its session is left
alone: PySpark's JVM and others end with it."""

from collections.abc import Iterator

import pytest

from dev import runs
from tests.waiting import patience

_PATIENCE = 10.0
"""Seconds that what is about to end by itself is given: Python workers end after their JVM."""
_RUN = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    runs.end_as_by_ctrl_c()
    if not hasattr(config, "workerinput"):  # one of several processes, which inherits the mark
        config.stash[_RUN] = runs.begin()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """When all processes of tests are done, and never before: they share one mark."""
    try:
        yield
    finally:
        name = session.config.stash.get(_RUN, None)
        if name and (left := runs.end(name, patience(_PATIENCE))):
            print("\nleft running by the tests, and ended now:", *left, sep="\n")
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
