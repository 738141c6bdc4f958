"""What a part of the agent is: what it looks at, which requests it takes, and what it reports.

The agent names no capability. `main.py` puts its parts together.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from .batches.history import History
from .batches.reports import DoneBatch
from .batches.tracked import KnownState, Lag, NewQuery, StartedQuery
from .begin.options import Options
from .executors.control import ExecutorControl
from .operation_order import Admission
from .request import Route
from .spark.looks import SELDOM, Look
from .spark.private import PrivateSpark
from .wire import Batch


class Core:
    """What the agent and its parts share.

    Args:
        executors: None: made anew, with the initial target and the maximum of `options`.
    """

    def __init__(self, options: Options, executors: ExecutorControl | None = None) -> None:
        self.options = options
        self.history, self.private = History(), PrivateSpark()
        self.admission = Admission()
        self.executors = executors or ExecutorControl(options, self.private, self.admission)


class Part:
    """A part of the agent. What it leaves out, it does not need."""

    looks: tuple[Look[Any], ...] = ()
    """Each has a thread of its own, and its age in the answer: one that hangs costs its own numbers
    alone."""
    routes: Mapping[tuple[str, str], Route] = {}
    """Requests that it takes, by method and path; a name in braces stands for any text."""
    missing: tuple[str, ...] = ()
    """What was declared and can't be done, for people."""

    def properties(self, settings: Mapping[str, str]) -> Mapping[str, str]:
        """The system properties that the JVM has to have before the SparkContext is made.

        Args:
            settings: Spark's.
        """
        return {}

    def begin(self, context: Any) -> None:
        """Take a SparkContext up that has just been created, before the program runs."""

    def start(self) -> None:
        """Start the threads beside those of `looks`."""

    def pace(self, interval_ms: int | None) -> float:
        """Seconds after which completed batches of DStreams have to be looked for at the latest.

        Args:
            interval_ms: of the batches; None: not known yet.
        """
        return SELDOM

    def completed(self, done: DoneBatch) -> Batch:
        """A batch has completed; returns it with what this part adds."""
        return done.batch

    def starting(self, query: NewQuery) -> AbstractContextManager[Any]:
        """What is held while the program starts a query: from before `before_query` until it has
        started, or can't be."""
        return nullcontext()

    def before_query(self, query: NewQuery) -> KnownState | None:
        """Prepare a query that the program is about to start; returns what is known of its state.
        What it raises keeps the query from starting."""
        return None

    def query_started(self, started: StartedQuery) -> None:
        """The program has started a query. For the thread that has started it."""

    @property
    def busy(self) -> bool:
        """Whether it is in the middle of what a graceful stop has to wait for."""
        return False

    def died(self, error: BaseException | str) -> Mapping[str, Any]:
        """What this part knows of an error that has ended the program or a query, as fields of
        `EndReport`."""
        return {}

    def ended(self, outcome: str, why: str | None) -> Mapping[str, Any]:
        """The driver is about to end. It waits for this, which takes a few seconds at most; returns
        what the end report says of it, as fields of `EndReport`.

        Args:
            outcome, why: as `EndReport.outcome` has them.
        """
        return {}

    def lag(self) -> Lag | None:
        """A measure of how far behind a query is, for one that starts now; None: this part has
        none."""
        return None

    def answer(self) -> Mapping[str, Any]:
        """The part's fields of the `Answer`."""
        return {}

    def close(self) -> None:
        """Clear away what the driver leaves behind."""
