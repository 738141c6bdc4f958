"""A plugin of pytest: notes when the first hundred tests have told their result.

`FILE` in the environment names the file into which it writes the clock (`time.time`).
"""

import os
import time
from pathlib import Path

import pytest

FILE = "SPARKSCALE_FIRST_RESULTS"
RESULTS = 100

_told: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ and len(_told) < RESULTS:
        _told.add(report.nodeid)
        if len(_told) == RESULTS:
            Path(os.environ[FILE]).write_text(str(time.time()))
