"""Leaves word of a driver, for when it can't be asked any more."""

import contextlib
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import last_words, stopped
from .announce import announce
from .fence import TOOK, WORD
from .last_words import MARKER, LastWords
from .log import say
from .stopped import Stopped

IN_THE_LOG = Path("-")
"""Stands for no file, but the log alone."""


class Word:
    """What a driver has to tell of its end, told each time that there is more of it: nobody knows
    when it is killed.

    Args:
        announced: the file of its announcement. Beside it each thing has a file of its own.
        in_one: the file for all of it in one, as `last_words` has it, which goes to the log too.
    """

    def __init__(self, announced: Path | None = None, in_one: Path | None = None) -> None:
        self._announced, self._in_one = announced, in_one
        self._lock = threading.Lock()
        self._words = LastWords()
        self._told: LastWords | None = None
        """What stands in both, the file and the log; None: nothing yet."""

    def took(self) -> None:
        """The driver is about to mark its checkpoint as its own.

        Raises:
            OSError: that can't be told.
        """
        self._beside(TOOK, {})
        self._leave(took=True)

    def fenced(self, reason: str) -> None:
        """It may not have its checkpoint."""
        say(reason)
        self._try(WORD, {"reason": reason}, fenced=reason)

    def stopped(self, how: Stopped) -> None:
        """It was asked to end, and has."""
        say(how.in_words())
        self._try(stopped.FILE, how.as_json(), stopped=how)

    def raised(self, what: str | BaseException) -> None:
        """It, or its program, died of that."""
        text = what if isinstance(what, str) else last_words.raised(what)
        self._try(last_words.FILE, {"raised": text}, raised=text)

    def over(self) -> None:
        """There is no more."""
        with self._said("its last words"):
            self._leave()

    def _try(self, name: str, content: dict[str, Any], **more: Any) -> None:
        with self._said("its last words"):
            self._leave(**more)
        with self._said(name):
            self._beside(name, content)

    @contextlib.contextmanager
    def _said(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            say(f"{what} cannot be written: {error}")

    def _beside(self, name: str, content: dict[str, Any]) -> None:
        if self._announced is not None:
            announce(self._announced.with_name(name), content)

    def _leave(self, **more: Any) -> None:
        if self._in_one is None:
            return
        with self._lock:
            words = replace(self._words, **more)
            if words == self._told:
                return
            text = words.as_json()
            # The log first: the disk of the file may be full, or hang. But where a mark can't be
            # told of none is left, so nothing may say that it was.
            first, then = self._in_log, self._in_file
            if "took" in more:
                first, then = then, first
            first(text)
            self._words = words
            then(text)
            self._told = words

    def _in_file(self, text: str) -> None:
        if self._in_one is not None and self._in_one != IN_THE_LOG:
            # In place: nothing can be renamed to a file that is mounted.
            self._in_one.write_text(text + "\n", encoding="ascii")

    def _in_log(self, text: str) -> None:
        # Where the output is gone or closed, the stream matters more than its log. Not what the
        # program may have put in its place.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            print(f"{MARKER}{text}", file=sys.__stdout__, flush=True)
