"""A plugin of pytest: says every minute which tests are running, and for how long.

A run in several processes prints nothing but dots, and a test that hangs is ended after half an
hour.
"""

import threading
import time

import pytest

_EVERY = 60.0


class Progress:
    """The tests that run now. Only in the process that hands them out to the others."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter
        self._since: dict[str, float] = {}
        self._over = threading.Event()
        threading.Thread(target=self._report, daemon=True).start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._since[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._since.pop(nodeid, None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "???":  # of xdist: the process that ran the test has crashed
            self._since.pop(report.nodeid, None)

    def pytest_sessionfinish(self) -> None:
        self._over.set()

    def line(self) -> str:
        now = time.monotonic()
        running = sorted(self._since.copy().items(), key=lambda each: each[1])
        return "running: " + ", ".join(f"{test} ({now - at:.0f} s)" for test, at in running)

    def _report(self) -> None:
        while not self._over.wait(_EVERY):
            if self._since:
                self._reporter.ensure_newline()
                self._reporter.write_line(self.line())


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and config.getoption("numprocesses", None):
        config.pluginmanager.register(Progress(reporter))
