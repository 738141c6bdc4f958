"""What is remembered of streams between runs: records, claims on checkpoints, and their store.

A folder is one (`host/folder_store.py`). What must hold of each: a record or claim is replaced as a
whole, and only by who has seen the one it replaces (compare-and-swap): of two that have seen the
same, one gets `Conflict`. What can't be read is an error, never taken for a stream that was never
started, for that would put a second driver on its checkpoint.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.records.steering import Steered

Desired = Literal["running", "stopped", "restarting"]
"""`restarting`: stopped to be started again at once. Whoever finds it so may complete it."""


@dataclass(frozen=True)
class Submission:
    """One line of a stream's history of starts."""

    epoch: int
    at: float
    cause: str
    """`manual` (a materialization or a restart by hand), `recovery` (after a failure), or
    `recovery attempt`: one that has not come to a launch, `epoch` being of the driver that failed.
    """
    error: str = ""
    """Why a recovery attempt was refused; empty: not known."""


@dataclass(frozen=True)
class Process:
    """The identity of a process, by which others can prove later that it has ended."""

    host: str = ""
    """Name of the host, for people."""
    pid: int = 0
    birth: str | None = None
    """Tells the process from a later one with its pid."""
    machine: str = ""
    """Identity of the machine's installation; a clone of it has the same."""
    boot: str = ""
    """The id of the running kernel, which changes with every restart."""
    namespace: str = ""
    """The namespace of process ids: a container has its own."""


@dataclass(frozen=True)
class Holding:
    """A lease as it is recorded."""

    holder: str
    """The holder's name for people: `rescale run 1a2b3c4d`."""
    number: int
    """The operation's fencing number."""
    since: float
    """Seconds since the epoch, by the holder's clock."""
    process: Process = Process()
    beat: int = 0
    """Grows with every renewal: one that does not change for long enough has expired."""
    renewed_at: float = 0.0
    """When it was renewed last, as `since`: for who looks once. 0: it was not yet."""


@dataclass(frozen=True)
class DurableHold:
    """Bars every start of a stream, whoever's lease ends, until it is lifted."""

    by: str
    """The person or run that set the hold."""
    step: str
    """The step at which its change is."""
    undo: str
    """How the change is finished or undone."""
    since: float
    """Seconds since the epoch."""


@dataclass(frozen=True)
class Tuning:
    """Settings that stand for those declared, until the declaration of them changes."""

    settings: Mapping[str, str]
    """Spark settings of every start."""
    by: str
    """The person or run that tuned it: `retune_backpressure run 1a2b3c4d`."""
    at: float
    """Seconds since the epoch."""
    by_hand: bool = False
    """Whether a person has said the values."""
    declared: Mapping[str, str] = field(default_factory=dict)
    """What the declaration made of all limits then: where it makes something else of one, that is
    in force again (`in_force/tuned.py`)."""
    before: Mapping[str, str] = field(default_factory=dict)
    """What was in force before, to go back to."""
    baseline: Mapping[str, float] = field(default_factory=dict)
    """How the stream did before it, to compare with."""
    verify_at: float | None = None
    """When it is to be seen whether it did any good, seconds since the epoch; None: it was, or it
    is not to be."""
    outcome: str = ""
    """What came of it, for people; empty: nothing yet."""
    put_back: bool = False
    """Whether this is what was in force before another tuning, which has done harm."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Live limits that were set with it, in records per second, by source."""
    rates_before: Mapping[str, float] = field(default_factory=dict)
    """The tuned live limits of before, to go back to."""


@dataclass(frozen=True)
class Limited:
    """A live limit of a source that a person has set."""

    by: str
    """The person or run that set it: `set_limits run 1a2b3c4d`."""
    at: float
    """Seconds since the epoch."""


@dataclass(frozen=True)
class SlotsNeeded:
    """The task slots that a stream's real-time queries need at once, as Spark has said."""

    needed: int
    epoch: int
    """The driver that lacked them."""
    declared: int | None = None
    """The number that was declared then; with another one this stands no more."""


@dataclass(frozen=True)
class UntoldEnd:
    """The end of a driver that its lineage server was not told of by the driver itself."""

    epoch: int
    at: float
    """Seconds since the epoch."""
    kind: str
    """`COMPLETE`, `FAIL` or `ABORT`."""
    why: str | None = None
    """What it failed of, in words; None: of nothing, or that is not known."""
    lineage: Mapping[str, str] = field(default_factory=dict)
    """The plan of its lineage, as the driver was started with it (`driver.lineage.plan`)."""


@dataclass(frozen=True)
class Record:
    """What is remembered of one stream. A field without a default is an error where it lacks."""

    id: str
    """Random, made with the record: tells this stream's processes from those of a stream of the
    same name in another store."""
    epoch: int
    """The epoch of the newest driver; 0: none was ever started."""
    desired: Desired
    desired_since: float
    """Seconds since the epoch."""
    host: str
    """The host that the newest driver was started on."""
    history: tuple[Submission, ...]
    submitter: Process = Process()
    """The process that launched the newest driver."""
    revision: int = 0
    """Grows by one with every change."""
    operations: int = 0
    """How many leases were ever given: the newest operation's fencing number."""
    lease: Holding | None = None
    hold: DurableHold | None = None
    checkpoint: str | None = None
    """The newest driver's checkpoint, normalized; None where none was declared."""
    gone: int = 0
    """The driver of this epoch was declared gone: by a person, or as it never came to take its
    checkpoint, which another stream has now; 0: none."""
    gone_by: str = ""
    asked: Mapping[str, float] = field(default_factory=dict)
    """When each change that was carried out was last asked for, seconds since the epoch, by
    operation (`clusters/records/overtaking.py`)."""
    declared: Mapping[str, str] | None = None
    """What the newest driver was started with, as `declare.drift` tells it."""
    owner: str = ""
    """Code location and cluster that declared it when it was last started; empty: not known."""
    asset: tuple[str, ...] = ()
    """The key of the stream's asset; empty: not known."""
    identity: Mapping[str, str] | None = None
    """What its owner declares that tells it from others of that name (`owners.py`); None: an
    older release did not remember it."""
    executors: int | None = None
    """Last requested of the newest driver; None where there was none."""
    rates: Mapping[str, Mapping[str, float]] | None = None
    """Live limits of sources that were set last, by source and limit, for the next driver to begin
    with; None: none ever were."""
    limited_at: float | None = None
    """When a person last set or took away a live limit, seconds since the epoch."""
    limited: Mapping[str, Limited] = field(default_factory=dict)
    """Live limits that a person has set, by source."""
    receivers: int | None = None
    """How many receivers its next driver is to start; None: as declared."""
    receivers_declared: int | None = None
    """What was declared when that was set: a declaration that was changed since is in force."""
    receivers_generation: int = 0
    """The generation of the checkpoint folder in use: each change of the number begins another."""
    receivers_generations: int = 0
    """The highest that there ever was: a folder that a failed start may have begun is not taken
    again."""
    tuning: Tuning | None = None
    """What was tuned last; None: nothing ever was. Of a stream that is retuned there is one from
    its first start on, without settings: it has what was declared then."""
    steering: Mapping[str, Steered] = field(default_factory=dict)
    """How far the stream may be changed by itself, by kind (`clusters/records/steering.py`). It
    alone changes without the lease (`leases.steer`)."""
    slots: SlotsNeeded | None = None
    """Task slots that its real-time queries need beyond what is declared; None: Spark has said
    nothing of it."""
    failure: str = ""
    """What the latest driver that recovery has replaced had failed of, in words; empty: none, or
    not known."""
    untold: tuple[UntoldEnd, ...] = ()
    """The latest ends of drivers before the newest that were not told by themselves, oldest first.
    Whether anybody has told them since is not known here."""

    @classmethod
    def new(cls, id: str) -> Self:
        """The record of a stream that was never started."""
        return cls(id, 0, "stopped", 0.0, "", ())

    @property
    def whose(self) -> str:
        """The code location that declared the stream at its last start; empty: not known."""
        location, _, key = self.owner.rpartition("/")
        return f"code location {location!r}, cluster {key!r}" if self.owner else ""

    @property
    def submitted_at(self) -> float:
        starts = [each.at for each in self.history if each.epoch == self.epoch]
        return starts[0] if starts else 0.0

    @property
    def cause(self) -> str | None:
        """Why the newest driver was started; None: not known."""
        causes = [each.cause for each in self.history if each.epoch == self.epoch]
        return causes[0] if causes else None

    @property
    def asked_to_stop_at(self) -> float | None:
        """When the stream was asked to stop; None: it is to run."""
        return self.desired_since if self.desired == "stopped" else None

    @property
    def restarted_at(self) -> tuple[float, ...]:
        """When recovery started it anew; an attempt that came to no launch is none."""
        return tuple(each.at for each in self.history if each.cause == "recovery")


@dataclass(frozen=True)
class Claim:
    """A stream's claim on a checkpoint: the stream that had it last."""

    checkpoint: str
    """Normalized."""
    stream: str
    id: str
    """The id of the stream's record."""
    revision: int = 0
    """Grows by one with every change."""
    epoch: int = 0
    """The epoch of the stream that it was claimed for: its drivers before that say nothing of who
    took the checkpoint last. 0: an older release did not note it."""
    taken_by: tuple[str, int] | None = None
    """Record id and epoch of the last driver that has left word of taking it, of this stream or of
    one that had it before; it has ended. Kept until the next one takes it: a start may end before
    its driver does. None: nobody is known to have."""


class Conflict(ClusterError):
    """Somebody else has changed it meanwhile: what was read is not true any more."""


class Store(Protocol):
    """Keeps a record of each stream and a claim on each checkpoint."""

    def streams(self) -> Sequence[str]:
        """Names of the streams it knows."""

    def read(self, stream: str) -> Record | None:
        """The stream's record; None if nothing is remembered of it.

        Raises:
            ClusterError: it can't be read; says what to do about it.
        """

    def swap(self, stream: str, record: Record) -> None:
        """Put `record` in the place of the one of the revision before, or, of revision 1, make it.

        Raises:
            Conflict: the stored record has another revision.
            ClusterError: it can't be written, or its epoch is lower than the one it replaces.
        """

    def claim(self, checkpoint: str) -> Claim | None:
        """The claim on a checkpoint; None: nobody has ever had one.

        Raises:
            ClusterError: it can't be read; says what to do about it.
        """

    def swap_claim(self, claim: Claim) -> None:
        """Put `claim` in the place of the one of the revision before, or, of revision 1, make
        it."""

    def new_id(self) -> str:
        """A random id for a record."""

    def process(self) -> Process:
        """This process, as records remember holders of leases."""

    def has_ended(self, process: Process) -> bool:
        """Whether a process is known to have ended. What can't be told is False."""
