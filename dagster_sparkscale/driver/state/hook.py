"""What is done for the state of a query each time that the program is about to start it."""

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from dagster_sparkscale.driver.batches.tracked import NewQuery
from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.settings import KEY_GROUPS, PLAIN_HASH, PLAN
from dagster_sparkscale.driver.spark.looks import first_line
from dagster_sparkscale.driver.spark.releases import is_before
from dagster_sparkscale.driver.wire import QueryState, Reconfiguration

from . import layout, plans, sink
from .beside.storage import storage
from .closing import resume
from .folder import Folder
from .journal import Journal
from .logs import read_format, read_id, read_logs
from .plans import StatePlan
from .reconfigure import LEAST, Attempt
from .reporting import Reporting
from .unchangeable import why_unchangeable
from .uncounted import COUNTED

CHECKPOINT = "checkpointLocation"
CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
MOST_TOLD = 1024
"""Numbers of a list that are told of the last change; there may be 32768 key groups."""


@dataclass(frozen=True)
class Declared:
    """What the stream's driver was started with about state."""

    key_groups: int | None = None
    plain_hash: bool = False
    plan: StatePlan | None = None


def declared(settings: Mapping[str, str]) -> Declared:
    """Read the declared plan from Spark's settings. A setting that can't be read is logged and
    passed over."""
    groups = settings.get(KEY_GROUPS, "")
    plan = None
    if text := settings.get(PLAN):
        try:
            plan = plans.plan_of(text)
        except plans.BadStatePlan as error:
            say(f"{PLAN}: {error}")
    return Declared(
        int(groups) if groups.isdecimal() and int(groups) else None,
        settings.get(PLAIN_HASH) == "true",
        plan,
    )


class StateHook:
    """Looks after the state of the queries of one driver. Safe for threads.

    Args:
        version: of Spark.
        stopping: whether the driver was asked to stop.
    """

    def __init__(
        self, version: str, declared: Declared, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self._version, self._declared, self._stopping = version, declared, stopping
        self._lock = threading.Lock()
        self._locks: dict[str, threading.RLock] = {}
        """Locks by checkpoints, each held while its checkpoint is worked on."""
        self._reports: Mapping[tuple[str, str], Reporting] = {}
        """Reports by checkpoint and the plan's id, as a program may try for ever to start a
        query."""
        self._started: set[str] = set()
        """Checkpoints of the queries that were started: a plan is for the first start of each.
        Later, an earlier run of the query may still be active, until Spark stops it for the new."""

    @property
    def reconfigurations(self) -> tuple[Reconfiguration, ...]:
        return tuple(report.change for report in self._reports.values())

    def before_start(self, query: NewQuery) -> "Known | None":
        """Have the checkpoint of a query that is about to start in order, and changed as planned.

        Returns:
            What is known of its state; None where it has no checkpoint of its own, or nothing can
            be known of it.

        Raises:
            Exception: it must not be started: what an earlier driver has begun of its state can't
                be put back now, or it can't be told whether one has.
        """
        found = _checkpoint(query)
        if found is None:
            return None
        query, checkpoint, name = found
        session = query.session
        try:
            folder = Folder(session, checkpoint)
        except Exception as error:
            self._not_looked_at(name, error)
            return None
        with self.holding(folder):
            return self._prepare(query, folder, name)

    def starting(self, query: NewQuery) -> AbstractContextManager[Any]:
        """What keeps a checkpoint from being worked on by another thread until its query has
        started: what `before_start` has found may not be so any more."""
        try:
            found = _checkpoint(query)
            return nullcontext() if found is None else self.holding(Folder(query.session, found[1]))
        except Exception:  # `before_start` tells of it
            return nullcontext()

    def holding(self, folder: Folder) -> threading.RLock:
        """The lock of a checkpoint: its query does not start while another thread holds it."""
        with self._lock:
            return self._locks.setdefault(folder.path, threading.RLock())

    def _not_looked_at(self, name: str | None, error: Exception) -> None:
        """Raise an error, unless the stream declares no state."""
        if self._declared.key_groups is not None:
            raise error
        say(f"the checkpoint of query {name!r} can't be looked at: {first_line(error)}")

    def format(self, query: NewQuery) -> str | None:
        """The version of the format of state stores in the checkpoint of a query; None: it has none
        of its own, or no batch is done yet.

        Raises:
            Exception: it can't be read.
        """
        found = _checkpoint(query)
        if found is None:
            return None
        query, checkpoint, _ = found
        return read_format(Folder(query.session, checkpoint))

    def attempt(
        self, query: NewQuery, plan: StatePlan, report: Reporting, slots: Callable[[], int | None]
    ) -> Attempt | None:
        """A try to carry `plan` out on the checkpoint of a query that was started in this driver;
        None: it has no checkpoint of its own.

        Args:
            slots: how many tasks Spark can run at a time; None: not known.
        """
        found = _checkpoint(query)
        if found is None:
            return None
        query, checkpoint, _ = found
        folder = Folder(query.session, checkpoint)
        return Attempt(
            *(query.session, folder, Journal(folder), plan, report, self._version),
            stopping=self._stopping,
            pass_over=lambda batch: _pass_over(query, batch),
            slots=slots,
        )

    def show(self, report: Reporting, checkpoint: str) -> None:
        """Have a report among those that are told, in place of the last one of the checkpoint."""
        with self._lock:
            others = {
                known: each
                for known, each in self._reports.items()
                if known[0] != checkpoint or each.change.outcome is None
            }
            # The agent's threads read it.
            self._reports = {**others, (checkpoint, report.change.id): report}

    def _prepare(self, query: NewQuery, folder: Folder, name: str | None) -> "Known | None":
        session = query.session
        try:
            journal = Journal(folder)
            # A new one has no id yet; there is nothing to be changed of it.
            id = read_id(folder) or ""
            called = query.label(name or id or folder.path.rpartition("/")[2], id)
            there = journal.there
        except Exception as error:
            self._not_looked_at(name, error)
            return None
        reports: list[Reporting] = []

        def report(id: str, before: int | None, after: int) -> Reporting:
            begun = Reporting(id, called, before=before, after=after)
            reports.append(begun)
            key = (folder.path, id)
            with self._lock:
                others = {known: each for known, each in self._reports.items() if known != key}
                self._reports = {**others, key: begun}  # the agent's threads read it
            return begun

        def pass_over(batch: int) -> None:
            _pass_over(query, batch)

        if there:
            resume(folder, journal, report, pass_over)
            for resumed in reports:
                note_outcome(journal, resumed.change)
            _clear(folder)
        plan, is_first = self._declared.plan, folder.path not in self._started
        self._started.add(folder.path)
        if plan is not None and is_first and called in plan.queries:
            self._known(session, folder, journal)  # its key groups are remembered before it
            begun = report(plan.id, None, plan.partitions)
            attempt = Attempt(
                *(session, folder, journal, plan, begun, self._version),
                stopping=self._stopping,
                pass_over=pass_over,
            )
            if attempt.carry_out():
                note_outcome(journal, begun.change)
        return self._known(session, folder, journal)

    def _known(self, session: Any, folder: Folder, journal: Journal) -> "Known | None":
        """What is known; None where it can't be looked up, which keeps no query from starting."""
        try:
            return self._look_up(session, folder, journal)
        except Exception as error:
            say(f"of the state in {folder.name} nothing can be known: {first_line(error)}")
            return None

    def _remedy(self) -> str:
        """What to do about a number of partitions that does not fit."""
        if is_before(LEAST, self._version):
            return f"Another number needs Spark {LEAST} or newer; this is Spark {self._version}"
        return "Reconfigure it to a number that fits"

    def _look_up(self, session: Any, folder: Folder, journal: Journal) -> "Known":
        logs = read_logs(folder)
        bound = logs.bound if logs else None
        remembered = journal.key_groups() if journal.there else None
        asked = self._declared.key_groups
        provider = bound.provider if bound else session.conf.get(layout.PROVIDER, layout.HDFS)
        note = None
        if asked is not None and remembered not in (None, asked):
            note = (
                f"{asked} key groups are declared, and its checkpoint has {remembered}: their "
                f"number is fixed once the query has run. Declare {remembered}, or begin with a "
                "new checkpoint"
            )
        elif asked is not None and bound is not None and bound.partitions is not None:
            why = plans.misfit(bound.partitions, asked, self._declared.plain_hash)
            note = why and f"{why}. {self._remedy()}"
        keeps_state = bool(bound and folder.names(layout.STATE))
        known = Known(
            folder,
            journal,
            provider,
            partitions=bound.partitions if bound and keeps_state else None,
            stateless=logs is not None and logs.committed is not None and not keeps_state,
            key_groups=remembered,
            last=_in_short(journal.last()) if journal.there else None,
            note=note,
            asked=asked,
            counted=session.conf.get(COUNTED, "true").lower() == "true",
        )
        return known.remember() if keeps_state else known


def _in_short(change: Reconfiguration | None) -> Reconfiguration | None:
    """Without the lists that are too long to be in every status of every driver to come."""
    if change is None:
        return None
    return replace(
        change,
        group_rows=_shortened(change.group_rows),
        partition_rows=_shortened(change.partition_rows),
        partition_rows_after=_shortened(change.partition_rows_after),
    )


def _shortened(numbers: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return numbers if numbers is None or len(numbers) <= MOST_TOLD else None


def _checkpoint(query: NewQuery) -> tuple[NewQuery, str, str | None] | None:
    """A query with the names of its options in lower case, as Spark takes them in any; its
    checkpoint; and its name. None: it has no checkpoint that lasts."""
    query = replace(query, options={name.lower(): it for name, it in query.options.items()})
    name = query.options.get("queryname")
    checkpoint = query.options.get(CHECKPOINT.lower())
    if checkpoint is None:
        common = query.session.conf.get(CHECKPOINTS, None)
        if not common or not name:
            return None  # a temporary one, or an unnamed query's, which is a new one each time
        checkpoint = f"{common.rstrip('/')}/{name}"
    return query, checkpoint, name


def _clear(folder: Folder) -> None:
    """Delete the copies that drivers which were killed have left."""
    try:
        storage(folder).clear(layout.COPIES)
    except Exception as error:  # it harms nobody, and takes room
        say(f"a copy of the state in {folder.name} can't be deleted: {first_line(error)}")


def _pass_over(query: NewQuery, batch: int) -> None:
    """Have the query's sink know that a batch writes nothing."""
    into = query.options.get("path")
    if query.table is not None:
        into = sink.location(query.session, query.table)
    if into is not None:
        sink.pass_over(query.session, into, batch)


def note_outcome(journal: Journal, change: Reconfiguration) -> None:
    """Note the outcome of a change for later drivers."""
    try:
        journal.note(change)
    except Exception as error:  # for people, and for windows, alone
        say(f"what the change came to can't be noted: {first_line(error)}")


@dataclass(frozen=True)
class Known:
    """What is known of a query's state when it starts."""

    folder: Folder
    journal: Journal
    provider: str
    partitions: int | None
    """The partitions of its state when it starts; None: it has no state, or none is noted."""
    key_groups: int | None
    """The remembered key groups."""
    last: Reconfiguration | None
    note: str | None
    asked: int | None
    """Key groups that are declared."""
    counted: bool
    """Whether RocksDB counts rows; where it does not, Spark tells a number that means nothing."""
    stateless: bool
    """Whether it has completed a batch, and keeps no state."""
    unchangeable: str | None = None
    """Why its partitions can't be changed, in words."""

    def remember(self) -> "Known":
        """Remember the key groups of the query, once: they are fixed as soon as it keeps state.
        Whether its partitions can be changed is looked up though no state is declared: it may be
        before the next start, and a restart for a change that is refused would be for nothing."""
        return self._remember_key_groups()._look_at_operators()

    def _remember_key_groups(self) -> "Known":
        if self.key_groups is not None or self.asked is None:
            return self
        try:
            self.journal.remember(self.asked)
        except Exception as error:
            say(f"key groups of {self.folder.name} can't be remembered: {first_line(error)}")
            return self
        return replace(self, key_groups=self.asked)

    def _look_at_operators(self) -> "Known":
        try:
            logs = read_logs(self.folder)
            why = None if logs is None else why_unchangeable(self.folder, logs.bound)
        except Exception as error:  # the change itself looks again
            name = self.folder.name
            say(f"whether the state in {name} can be changed is not known: {first_line(error)}")
            return self
        return replace(self, unchangeable=why)

    def completed(self, state: QueryState) -> QueryState:
        """`state`, with what is known of it."""
        rocksdb = self.provider == layout.ROCKSDB
        return replace(
            state,
            rows=state.rows if self.counted or not rocksdb else None,
            provider=layout.short(self.provider),
            key_groups=self.key_groups,
            note=self.note,
            unchangeable=self.unchangeable,
            last=self.last,
        )

    def begun_with(self) -> QueryState | None:
        """The state that it starts with, as far as that is known before a batch tells more."""
        if self.partitions is None:
            return None
        return self.completed(QueryState(partitions=self.partitions))
