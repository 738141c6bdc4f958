"""What is remembered of streams between runs, and who may change it: the protocol of a store.

A folder is one (`host/folder_store.py`). What must hold of each: an epoch never goes back; what
can't be read is an error, never taken for a stream that was never started, for that would put a
second driver on its checkpoint; the lease of a holder that dies is free again.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, Self

Desired = Literal["running", "stopped"]


@dataclass(frozen=True)
class Submission:
    """One line of a stream's history of starts."""

    epoch: int
    at: float
    cause: str
    """`manual` (a materialization or a restart by hand) or `recovery` (after a failure)."""


@dataclass(frozen=True)
class Lease:
    """The right to change one stream, held by one operation at a time."""

    stream: str
    holder: str
    """Who holds it, for people: `rescale run 1a2b3c4d`."""


@dataclass(frozen=True)
class Record:
    """What is remembered of one stream. What it is without is an error, and no default."""

    id: str
    """Random, made with the record: tells this stream's processes from those of a stream of the
    same name in another store."""
    epoch: int
    """Of the newest driver; 0: none was ever started."""
    desired: Desired
    desired_since: float
    """Seconds since the epoch."""
    host: str
    """The host that the newest driver was started on."""
    submitter_pid: int
    history: tuple[Submission, ...]
    submitter_birth: str | None = None

    @classmethod
    def new(cls, id: str) -> Self:
        """Of a stream that was never started."""
        return cls(id, 0, "stopped", 0.0, "", 0, ())

    @property
    def submitted_at(self) -> float:
        return self.history[-1].at if self.history else 0.0


class Store(Protocol):
    """Keeps a record of each stream, and one lease."""

    def streams(self) -> Sequence[str]:
        """Names of the streams it knows."""

    def read(self, stream: str) -> Record | None:
        """The stream's record; None if it was never started.

        Raises:
            ClusterError: it can't be read; says what to do about it.
        """

    def write(self, stream: str, record: Record) -> None:
        """Replace the stream's record.

        Raises:
            ClusterError: it can't be written, or its epoch is lower than the one it replaces.
        """

    def lease(self, stream: str, holder: str, wait: float) -> AbstractContextManager[Lease]:
        """Hold the right to change `stream` while the context lasts.

        Raises:
            OperationInProgress: somebody else still holds it after `wait` seconds; names them.
        """

    def check(self, stream: str, lease: Lease) -> None:
        """Make sure that `lease` is the one this process holds on the stream now.

        Raises:
            ClusterError: it belongs to another stream, or is over.
        """
