"""The state as it was before a change: read before it begins, or once it is rewritten."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .fingerprint import Fingerprint


class Before(Protocol):
    """The state as it was before the change."""

    def begin(self) -> None:
        """From now on it may be read."""

    def state(self) -> Fingerprint:
        """The state; waits for it. Asked once more after a failure, reads it once more.

        Raises:
            Exception: it can't be read, or is no state that can be verified.
        """

    @property
    def known(self) -> Fingerprint | None:
        """The state, if it was read."""


@dataclass(frozen=True)
class Measured:
    """A state that was read before anything was touched."""

    fingerprint: Fingerprint

    def begin(self) -> None: ...

    def state(self) -> Fingerprint:
        return self.fingerprint

    @property
    def known(self) -> Fingerprint | None:
        return self.fingerprint


class Beside:
    """A state that is read on a thread of its own, while it is rewritten or after that: the
    rewriting leaves the files of what was."""

    def __init__(self, read: Callable[[], Fingerprint]) -> None:
        self._read = read
        self._came: Fingerprint | Exception | None = None
        self._told = False
        """Whether it was asked for."""
        self._thread = threading.Thread(target=self._run, name="sparkscale-measure", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            self._came = self._read()
        except Exception as error:
            self._came = error

    def state(self) -> Fingerprint:
        self._thread.join()
        if self._told and self.known is None:
            self._run()
        self._told = True
        if isinstance(self._came, Fingerprint):
            return self._came
        raise self._came or RuntimeError("nothing was read")

    @property
    def known(self) -> Fingerprint | None:
        return self._came if isinstance(self._came, Fingerprint) else None
