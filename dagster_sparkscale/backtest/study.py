"""What policies would have made of a stream's load, beside what ran and what was possible. Pure.

First what ran is replayed, which shows how far the rest can be believed; where it can't be, no
policy is tried. Each policy runs on all of the recorded load, and on its last part by an
application that was calibrated without it. The oracle knew the load: nobody can be cheaper.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from dagster_sparkscale.backtest.calibrate import Calibration, Uncalibrated, calibrate
from dagster_sparkscale.backtest.loads import Load
from dagster_sparkscale.backtest.measures import Measures, measures
from dagster_sparkscale.backtest.model import Application
from dagster_sparkscale.backtest.oracle import oracle
from dagster_sparkscale.backtest.reconstruct import Stretch, stretches
from dagster_sparkscale.backtest.replay import FITTED, Replay, replay, undecided
from dagster_sparkscale.backtest.simulate import Decider, Run, simulate
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.learner import Workload
from dagster_sparkscale.declare.policies import AutoscalePolicy
from dagster_sparkscale.observe.minutes import Minute

HELD_OUT = 1 - FITTED
"""Share of the time at its end that is looked at by itself, unless another is asked for."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy to be tried."""

    name: str
    """What it is, for people."""
    decider: Callable[[], AutoscalePolicy | Decider]
    """Makes what decides, and has seen nothing yet."""
    bounds: Bounds
    interval: float = 60.0
    """Seconds between two decisions."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What a candidate has come to."""

    name: str
    whole: Measures | None
    """On all of the load; None: it could not decide."""
    held_out: Measures | None
    """On its last part, by an application that was calibrated without it; None: it has none."""
    rejected: str | None
    """The limit that it broke, in words; None: none."""
    runs: tuple[Run, ...] = ()
    """One for each part of the load."""
    unseen: float | None = None
    """Percent of the time on more executors, or fewer, than any minute had that was recorded; None:
    none was recorded, or it could not decide."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What was recorded, over the known minutes."""

    minutes: int
    late: float
    """Percent of the minutes that were late."""
    longest_delay: float | None
    """Seconds from when a record came until its batch was done, at most; None: not measured."""
    executor_hours: float
    rescales: int
    """How often another number of executors was asked for."""
    doubtful: int
    """Minutes whose load may have been another: a limit kept records back, or no more executors
    could come and batches took too long."""


@dataclass(frozen=True, slots=True)
class Study:
    """What candidates have come to on one load."""

    replay: Replay | None
    """What ran, once more, on the recorded load; None: nothing was recorded."""
    application: Application
    parts: tuple[Stretch, ...]
    """The load, without its gaps."""
    oracle_hours: float | None
    """Executor-hours of whoever knew the load, with no batch late; None: it is not known, as a
    limit keeps records back, or there is no maximum."""
    outcomes: tuple[Tried, ...]
    """In the order of the candidates; empty: `refused` says why none was tried."""
    most_late: float
    """Percent of the time whose records may come too late."""
    ran: Ran | None = None
    """What was recorded; None: nothing was, or the policies are tried on another load."""
    refused: str | None = None
    """Why no advice is given, in words."""

    @property
    def declared(self) -> Tried | None:
        """What the first candidate has come to."""
        return self.outcomes[0] if self.outcomes else None

    @property
    def best(self) -> Tried | None:
        """The cheapest that broke no limit; None: all did."""
        fitting = [each for each in self.outcomes if each.rejected is None and each.whole]
        return min(fitting, key=_cost, default=None)

    @property
    def seconds(self) -> float:
        """Seconds of the load."""
        return sum(part.load.seconds for part in self.parts)


def study(
    minutes: Sequence[Minute],
    workload: Workload,
    candidates: Sequence[Candidate],
    *,
    most_late: float,
    load: Load | None = None,
    scale: float = 1.0,
    held_out: float = HELD_OUT,
    seed: int = 0,
) -> Study | Uncalibrated:
    """Try policies on what a stream's minutes say of its load.

    Args:
        minutes: of one stream, in order of time.
        candidates: the first is what ran.
        most_late: percent of the time whose records may come too late.
        load: to try them on in place of the recorded one.
        scale: times the recorded load.
        held_out: share of the recorded time at its end, which is looked at by itself.
        seed: decides the noise.
    """
    ran = candidates[0]
    try:
        policy = ran.decider()
    except (Exception, SystemExit) as error:  # a policy of the user's own
        return undecided(error)
    replayed = replay(
        *(minutes, workload),
        bounds=ran.bounds,
        policy=policy,
        window=ran.interval,
        seed=seed,
        fitted=1 - held_out,
    )
    if isinstance(replayed, Uncalibrated):
        return replayed
    known = replayed.calibration
    parts = _scaled(known.stretches, scale) if load is None else (_alone(load),)
    recorded = _ran(known.stretches, replayed) if load is None and scale == 1 else None
    of = (replayed, known.application, parts)
    found = Study(*of, None, (), most_late, recorded, replayed.refused)
    if found.refused is not None:
        return found
    last = None if load is not None else _last(minutes, workload, ran, scale, 1 - held_out)
    return _with_outcomes(found, candidates, last, seed)


def on_a_load(
    application: Application,
    load: Load,
    candidates: Sequence[Candidate],
    *,
    most_late: float,
    seed: int = 0,
) -> Study:
    """Try policies on a load by an application that is known, where nothing was recorded."""
    found = Study(None, application, (_alone(load),), None, (), most_late)
    return _with_outcomes(found, candidates, None, seed)


def _with_outcomes(
    found: Study,
    candidates: Sequence[Candidate],
    last: tuple[Application, Sequence[Stretch]] | None,
    seed: int,
) -> Study:
    of = (found.application, found.parts)
    outcomes = tuple(_tried(each, *of, last, found.most_late, seed) for each in candidates)
    return replace(found, outcomes=outcomes, oracle_hours=_oracle_hours(*of, candidates))


def _ran(parts: Sequence[Stretch], replayed: Replay) -> Ran:
    minutes = [each for part in parts for each in part.minutes]
    delays = [each.delay for each in minutes if each.delay is not None]
    asked = [
        (before.requested, after.requested)
        for part in parts
        for before, after in pairwise(part.minutes)
    ]
    return Ran(
        minutes=len(minutes),
        late=replayed.fixed.recorded_late,
        longest_delay=max(delays, default=None),
        executor_hours=replayed.executor_hours,
        rescales=sum(one != other for one, other in asked),
        doubtful=sum(len(part.doubtful) for part in parts),
    )


def _alone(load: Load) -> Stretch:
    """A load of which nothing was recorded."""
    return Stretch(0.0, load, (), frozenset())


def _scaled(parts: Sequence[Stretch], scale: float) -> tuple[Stretch, ...]:
    return tuple(replace(part, load=part.load.scaled(scale)) for part in parts)


def _last(
    minutes: Sequence[Minute], workload: Workload, ran: Candidate, scale: float, share: float
) -> tuple[Application, Sequence[Stretch]] | None:
    """The last part of the load, and the application as the first part alone has it."""
    split = int(share * len(minutes))
    fitted = calibrate(minutes[:split], workload, window=ran.interval, maximum=ran.bounds.maximum)
    rest = stretches(minutes[split:], workload, window=ran.interval, maximum=ran.bounds.maximum)
    if not isinstance(fitted, Calibration) or not rest:
        return None
    return fitted.application, _scaled(rest, scale)


def _tried(
    candidate: Candidate,
    application: Application,
    parts: Sequence[Stretch],
    last: tuple[Application, Sequence[Stretch]] | None,
    most_late: float,
    seed: int,
) -> Tried:
    try:
        runs = _runs(candidate, application, parts, seed)
        held_out = None if last is None else together(_runs(candidate, *last, seed))
    except (Exception, SystemExit) as error:  # a policy of the user's own
        why = f"it could not decide: {type(error).__name__}: {error}"
        return Tried(candidate.name, None, None, why)
    whole = together(runs)
    broken = _broken(whole, held_out, most_late)
    return Tried(candidate.name, whole, held_out, broken, runs, _unseen(runs, parts))


def _unseen(runs: Sequence[Run], parts: Sequence[Stretch]) -> float | None:
    """Percent of the time on more executors, or fewer, than any minute of these parts had."""
    seen = [each.registered or 0 for part in parts for each in part.minutes]
    if not seen:
        return None
    fewest, most = min(seen), max(seen)
    unseen = 0.0
    for run in runs:
        ends = [*(at for at, _ in run.changes[1:]), run.seconds]
        unseen += sum(
            end - at
            for (at, number), end in zip(run.changes, ends, strict=True)
            if not fewest <= number <= most
        )
    return 100 * unseen / sum(run.seconds for run in runs)


def _broken(whole: Measures, held_out: Measures | None, most_late: float) -> str | None:
    for what, each in (("", whole), (" in the last part", held_out)):
        if each is not None and each.late > most_late:
            return f"{each.late:.2g} % late{what}, and {most_late:g} % may be"
    return None


def _runs(
    candidate: Candidate, application: Application, parts: Sequence[Stretch], seed: int
) -> tuple[Run, ...]:
    decider = candidate.decider()  # goes on from one part to the next, as in the sensor
    return tuple(
        simulate(
            *(application, part.load, decider, candidate.bounds),
            interval=candidate.interval,
            seed=seed,
            initial=part.minutes[0].registered if part.minutes else None,
            began_at=part.began_at,
        )
        for part in parts
    )


def together(runs: Sequence[Run]) -> Measures:
    """What came of several runs, one after the other."""
    each = [measures(run) for run in runs]
    seconds = sum(run.seconds for run in runs)
    return Measures(
        late=sum(one.late * run.seconds for one, run in zip(each, runs, strict=True)) / seconds,
        longest_delay=max(one.longest_delay for one in each),
        executor_hours=sum(one.executor_hours for one in each),
        rescales=sum(one.rescales for one in each),
        scale_ups=sum(one.scale_ups for one in each),
        reversals=sum(one.reversals for one in each),
        most=max(one.most for one in each),
    )


def _oracle_hours(
    application: Application, parts: Sequence[Stretch], candidates: Sequence[Candidate]
) -> float | None:
    """Executor-hours of whoever knew the load, within the widest bounds that candidates have."""
    most = [each.bounds.maximum for each in candidates if each.bounds.maximum is not None]
    if application.max_records is not None or not most:
        return None
    bounds = replace(
        candidates[0].bounds,
        minimum=min(each.bounds.minimum for each in candidates),
        maximum=max(most),
    )
    interval = min(each.interval for each in candidates)
    return sum(
        oracle(application, part.load, bounds, interval=interval).executor_hours for part in parts
    )


def _cost(outcome: Tried) -> float:
    assert outcome.whole is not None
    return outcome.whole.executor_hours
