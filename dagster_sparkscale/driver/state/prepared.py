"""A new state that was made while its query ran."""

from typing import Protocol

from .fingerprint import Fingerprint
from .journal import Begun


class Prepared(Protocol):
    """One that is to be put into the checkpoint once the query has ended."""

    def write(self, noted: Begun) -> str | None:
        """Have it in the checkpoint, as the batch after the last one; why it is not, in words;
        None: it is."""

    @property
    def proved(self) -> Fingerprint | None:
        """The new state as it was when it was compared whole, if all that has changed since is
        known to be the same; None: it is to be compared whole again, now that it is written."""
