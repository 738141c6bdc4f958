"""Leaves the end report of a driver, for when it can't be asked any more."""

import contextlib
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from dagster_sparkscale.driver.begin.announce import announce
from dagster_sparkscale.driver.log import say, write_line

from .end_report import MARKER, EndReport, Slots, Stopped, raised

IN_THE_LOG = Path("-")
"""Stands for no file, but the log alone."""
WITHIN = 2.0
"""Seconds that the end of a driver waits for a disk that hangs, each time that it reports."""


class EndReporter:
    """Writes the end report of a driver anew each time that there is more to report: nobody knows
    when it is killed.

    Args:
        announced: the file of its announcement. Beside it each part has a file of its own.
        in_one: the file for the whole report, which goes to the log too.
    """

    def __init__(self, announced: Path | None = None, in_one: Path | None = None) -> None:
        self._announced, self._in_one = announced, in_one
        self._report = EndReport()
        self._changing = threading.Lock()
        self._logged: EndReport | None = None
        self._writing = threading.Lock()
        """Held while the file is written, which may hang: taken before `_changing`, never after."""
        self._written: EndReport | None = None

    def took(self) -> None:
        """The driver is about to mark its checkpoint as its own.

        Raises:
            OSError: the report can't be written.
        """
        self._beside(self._report, "took")
        # Not in the log first: where a mark can't be reported none is left, so nothing may say that
        # it was.
        with self._writing:
            self._write(replace(self._report, took=True))
            self._log(took=True)

    def fenced(self, reason: str) -> None:
        """Report that the driver may not have its checkpoint."""
        say(reason)
        self._end(fenced=reason)

    def stopped(self, how: Stopped) -> None:
        """Report that the driver has ended as it was asked to."""
        say(how.in_words())
        self._end(stopped=how)

    def raised(self, what: str | BaseException, slots: Slots | None = None) -> None:
        """Report the error that ended the driver or its program.

        Args:
            slots: the task slots that a real-time query lacked; None: none did.
        """
        more = {} if slots is None else {"slots": slots}
        self._end(raised=what if isinstance(what, str) else raised(what), **more)

    @property
    def has_raised(self) -> bool:
        """Whether an error was reported."""
        return self._report.raised is not None

    @property
    def report(self) -> EndReport:
        """What is reported so far."""
        return self._report

    def over(self, **more: Any) -> None:
        """Report that the driver has ended.

        Args:
            more: what there is to add, by the fields of `EndReport`.
        """
        self._end(**more)

    def _end(self, **more: Any) -> None:
        """Report what there is more of the end, in `WITHIN` seconds at most."""
        self._log(**more)

        def write() -> None:
            with _said("its last words"), self._writing:
                self._write(self._report)
            for part in more:
                with _said(f"{part}.json"):
                    self._beside(self._report, part)

        writing = threading.Thread(target=write, name="sparkscale-end-report", daemon=True)
        try:
            writing.start()
        except RuntimeError:  # no more threads: it may end of just that
            write()
            return
        writing.join(WITHIN)
        if writing.is_alive():
            say(f"what it leaves is not written after {WITHIN:g} s; it does not wait for that")

    def _log(self, **more: Any) -> None:
        """Say it in the log. Before all else: the disk of the file may be full, or hang."""
        with self._changing:
            self._report = replace(self._report, **more)
            if self._in_one is not None and self._report != self._logged:
                # Not to what the program may have put in its place.
                write_line(sys.__stdout__, f"{MARKER}{self._report.as_json()}")
                self._logged = self._report

    def _write(self, report: EndReport) -> None:
        if self._in_one in (None, IN_THE_LOG) or report == self._written:
            return
        # In place: nothing can be renamed to a file that is mounted.
        self._in_one.write_text(report.as_json() + "\n", encoding="ascii")
        self._written = report

    def _beside(self, report: EndReport, part: str) -> None:
        if self._announced is not None:
            announce(self._announced.with_name(f"{part}.json"), report.in_file(part))


@contextlib.contextmanager
def _said(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        say(f"{what} cannot be written: {error}")
