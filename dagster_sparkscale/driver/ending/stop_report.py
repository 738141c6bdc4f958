"""How a driver that was asked to stop has ended, as it tells Dagster in a file. Pure.

A driver that has ended answers no more, so it leaves word beside its announcement. The rules of the
wire hold (`wire.py`): a field may be added, with a default, and none may change what it means.
"""

from dataclasses import asdict, dataclass
from typing import Any

FILE = "stopped.json"
"""The report's name in the folder of the announcement."""
NOT_CLEAN = 124
"""The exit code of a driver that was asked to stop and did not end in good order; as `timeout` has
it for what it had to end."""


@dataclass(frozen=True, slots=True)
class StoppedQuery:
    """How a Structured Streaming query, or the one graph of a DStreams application, was ended."""

    name: str
    drained: bool | None = None
    """True: between two batches. False: within one, or with data received that no batch had yet;
    the next start does it, or does it again. None: it can't be told."""
    batch_id: int | None = None
    """The last batch that its checkpoint has as done, by number. DStreams: by its time, epoch
    milliseconds. None where there is none, or it can't be told."""

    def in_words(self) -> str:
        how = {True: "drained", False: "cut", None: "unknown how"}[self.drained]
        last = "no batch" if self.batch_id is None else f"batch {self.batch_id}"
        return f"{self.name}: {how}, {last} done"


@dataclass(frozen=True, slots=True)
class Stopped:
    """How a driver has ended that was asked to stop."""

    at: float
    """Seconds since the epoch, by the driver's clock."""
    graceful: bool
    """Whether it was to end in good order, as it was asked last."""
    ended_itself: bool
    """Whether its program ended by itself, and did not have to be ended."""
    queries: tuple[StoppedQuery, ...] = ()
    """The queries that were active when the stop was requested."""
    sigterm: bool = False
    """Whether it was a SIGTERM that asked first, and no request."""

    @property
    def clean(self) -> bool:
        """Whether nothing was cut. What can't be told is no clean end."""
        return self.ended_itself and all(query.drained for query in self.queries)

    def in_words(self) -> str:
        """One line for a log or a report."""
        if self.ended_itself:
            text = "the program has ended by itself"
        elif self.graceful:
            text = "the program did not end in time and was ended"
        else:
            text = "the program was ended at once"
        return "; ".join([text, *(query.in_words() for query in self.queries)])

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
