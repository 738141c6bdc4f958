"""Leaves word of a driver, for when it can't be asked any more."""

import contextlib
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dagster_sparkscale.driver.begin.announce import announce
from dagster_sparkscale.driver.begin.fence import TOOK, WORD
from dagster_sparkscale.driver.log import say

from . import end_report, stop_report
from .end_report import MARKER, LastWords
from .stop_report import Stopped

IN_THE_LOG = Path("-")
"""Stands for no file, but the log alone."""
WITHIN = 2.0
"""Seconds that the end of a driver waits for a disk that hangs, each time that it tells of it."""


class Word:
    """What a driver has to tell of its end, told each time that there is more of it: nobody knows
    when it is killed.

    Args:
        announced: the file of its announcement. Beside it each thing has a file of its own.
        in_one: the file for all of it in one, as `last_words` has it, which goes to the log too.
    """

    def __init__(self, announced: Path | None = None, in_one: Path | None = None) -> None:
        self._announced, self._in_one = announced, in_one
        self._words = LastWords()
        self._changing = threading.Lock()
        self._logged: LastWords | None = None
        self._writing = threading.Lock()
        """Held while the file is written, which may hang: taken before `_changing`, never after."""
        self._written: LastWords | None = None

    def took(self) -> None:
        """The driver is about to mark its checkpoint as its own.

        Raises:
            OSError: the report can't be written.
        """
        self._beside(TOOK, {})
        # Not in the log first: where a mark can't be told of none is left, so nothing may say that
        # it was.
        with self._writing:
            self._write(replace(self._words, took=True))
            self._leave(took=True)

    def fenced(self, reason: str) -> None:
        """Report that the driver may not have its checkpoint."""
        say(reason)
        self._end(WORD, {"reason": reason}, fenced=reason)

    def stopped(self, how: Stopped) -> None:
        """Report that the driver has ended as it was asked to."""
        say(how.in_words())
        self._end(stop_report.FILE, how.as_json(), stopped=how)

    def raised(self, what: str | BaseException) -> None:
        """Report the error that ended the driver or its program."""
        text = what if isinstance(what, str) else end_report.raised(what)
        self._end(end_report.FILE, {"raised": text}, raised=text)

    def over(self) -> None:
        """Report that the driver has ended, with nothing to add."""
        self._end()

    def _end(self, name: str = "", content: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Tell of the end, in `WITHIN` seconds at most.

        Args:
            name: of the file beside the announcement that has `content`; empty: none has.
        """
        self._leave(**more)

        def write() -> None:
            with _said("its last words"), self._writing:
                self._write(self._words)
            if name:
                with _said(name):
                    self._beside(name, content or {})

        writing = threading.Thread(target=write, name="sparkscale-word", daemon=True)
        try:
            writing.start()
        except RuntimeError:  # no more threads: it may end of just that
            write()
            return
        writing.join(WITHIN)
        if writing.is_alive():
            say(f"what it leaves is not written after {WITHIN:g} s; it does not wait for that")

    def _leave(self, **more: Any) -> None:
        """Say it in the log. Before all else: the disk of the file may be full, or hang."""
        with self._changing:
            self._words = replace(self._words, **more)
            output = sys.__stdout__
            if self._in_one is not None and self._words != self._logged and output is not None:
                # Where the output is gone or closed, the stream matters more than its log. Not what
                # the program may have put in its place.
                with contextlib.suppress(OSError, ValueError):
                    line = f"{MARKER}{self._words.as_json()}\n"
                    output.write(line)  # in one piece, as `say` does
                    output.flush()
                self._logged = self._words

    def _write(self, words: LastWords) -> None:
        if self._in_one in (None, IN_THE_LOG) or words == self._written:
            return
        # In place: nothing can be renamed to a file that is mounted.
        self._in_one.write_text(words.as_json() + "\n", encoding="ascii")
        self._written = words

    def _beside(self, name: str, content: Mapping[str, Any]) -> None:
        if self._announced is not None:
            announce(self._announced.with_name(name), content)


@contextlib.contextmanager
def _said(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        say(f"{what} cannot be written: {error}")
