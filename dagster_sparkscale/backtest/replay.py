"""How far a backtest can be believed: what ran is replayed, and compared with what was recorded.

The executors that were there are driven through the application that was calibrated, and so is the
policy that ran. The application is calibrated on the first part of the minutes alone, and the last
part, which it does not know, is compared as well. Above a bound no advice is given. Pure.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from dagster_sparkscale.backtest.calibrate import Calibration, Uncalibrated, calibrate
from dagster_sparkscale.backtest.machine import Machine
from dagster_sparkscale.backtest.measures import LATE
from dagster_sparkscale.backtest.model import Application
from dagster_sparkscale.backtest.reconstruct import Stretch
from dagster_sparkscale.backtest.simulate import Decider, look, simulate
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.learner import Workload
from dagster_sparkscale.declare.policies import AutoscalePolicy
from dagster_sparkscale.observe.minutes import Minute, minute

FITTED = 0.7
"""Share of the minutes, from the first one on, that the application is calibrated on."""
MOST_EXECUTORS = 0.15
"""Share of the executor-hours by which those of the policy that ran may differ."""
MOST_RATIO = 0.15
"""Share of R by which it may be wrong in a typical minute."""
MOST_DELAY = 0.5
"""Batch intervals by which the longest delay of a minute may be wrong on average, of the minutes
that were not late: how late the others were is a matter of the seconds in which executors came."""
MOST_LATE = 2.0
"""Percentage points by which the share of late minutes may differ, beside `MOST_OF_LATE`."""
MOST_OF_LATE = 0.25
"""Share of the late minutes by which these may differ."""
MOST_DOUBTFUL = 0.5
"""Share of the minutes whose load may have been another."""


@dataclass(frozen=True, slots=True)
class Errors:
    """What was simulated, compared with what was recorded, over the same minutes."""

    minutes: int
    executors: float
    """Share by which the simulated executor-hours are above those recorded; below 0: below them."""
    ratio: float
    """Mean difference of R, as a share of its mean."""
    delay: float | None
    """Mean difference of a minute's longest delay, in seconds, of minutes that were not late; None:
    it was not measured."""
    lag: float | None
    """Mean difference of the lag, in seconds; None: it was not measured."""
    late: float
    """Percent of the minutes that were late in the simulation, less those that were."""
    recorded_late: float
    """Percent of the minutes that were late."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What ran, once more."""

    calibration: Calibration
    """The application by all minutes."""
    executor_hours: float
    """Recorded, of the known minutes."""
    fixed: Errors
    """The recorded executors, simulated."""
    held_out: Errors
    """The recorded executors in the last part, by an application calibrated on the rest."""
    policy: Errors | None
    """The policy that ran, simulated; None: it is not known."""
    refused: str | None
    """Why no advice is to be given by this application, in words; None: it may be."""


def replay(
    minutes: Sequence[Minute],
    workload: Workload,
    *,
    bounds: Bounds,
    policy: AutoscalePolicy | Decider | None = None,
    window: float = 60.0,
    seed: int = 0,
    fitted: float = FITTED,
) -> Replay | Uncalibrated:
    """Replay what ran, and say whether a backtest can be believed.

    Args:
        minutes: of one stream, in order of time.
        bounds: of the stream, as its policy had them.
        policy: that ran; None: it is not known, and its executors alone are compared.
        window: seconds between its decisions, which each minute is about.
        seed: decides the noise.
        fitted: share of the minutes, from the first one on, that the application is calibrated on.
    """
    first = minutes[: int(fitted * len(minutes))]
    by_first = calibrate(first, workload, window=window, maximum=bounds.maximum)
    whole = calibrate(minutes, workload, window=window, maximum=bounds.maximum)
    if isinstance(whole, Uncalibrated):
        return whole
    if isinstance(by_first, Uncalibrated):
        return Uncalibrated(f"of the first {fitted:.0%} of the minutes: {by_first.reason}")
    if not whole.stretches:
        return Uncalibrated("no ten minutes follow each other without a gap")
    pairs = _pairs(whole.application, whole.stretches, window, seed)
    unknown = _pairs(by_first.application, whole.stretches, window, seed)
    unknown = [each for each in unknown if each.recorded.at > first[-1].at]
    interval = whole.application.interval
    fixed = _errors(pairs, interval)
    held_out = _errors(unknown or pairs[-1:], interval)
    ran = None
    if policy is not None:
        try:
            again = _by_policy(whole.application, whole.stretches, policy, bounds, window, seed)
        except (Exception, SystemExit) as error:  # a policy of the user's own
            return undecided(error)
        ran = _errors(again, interval)
    seconds = sum((each.recorded.registered or 0) * each.seconds for each in pairs)
    replayed = Replay(whole, seconds / 3600, fixed, held_out, ran, None)
    return replace(replayed, refused=_why_refused(replayed))


def undecided(error: Exception | SystemExit) -> Uncalibrated:
    """Why what ran can't be replayed by its policy, which has failed."""
    return Uncalibrated(f"the policy that ran could not decide: {type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True)
class _Pair:
    """A minute as it was recorded, and as it was simulated."""

    recorded: Minute
    simulated: Minute
    seconds: float
    """Since the minute before."""


def _pairs(
    application: Application, parts: Sequence[Stretch], window: float, seed: int
) -> list[_Pair]:
    """The minutes of the recorded executors."""
    found = []
    for part in parts:
        simulated = by_executors(application, part, window=window, seed=seed)
        found += _paired(part, simulated)
    return found


def _by_policy(
    application: Application,
    parts: Sequence[Stretch],
    policy: AutoscalePolicy | Decider,
    bounds: Bounds,
    window: float,
    seed: int,
) -> list[_Pair]:
    """The minutes of the policy that ran."""
    found = []
    for part in parts:
        run = simulate(
            *(application, part.load, policy, bounds),
            interval=window,
            ticks=part.ticks,
            seed=seed,
            initial=part.minutes[0].registered,
            began_at=part.began_at,
        )
        found += _paired(part, run.minutes)
    return found


def by_executors(
    application: Application, part: Stretch, *, window: float = 60.0, seed: int = 0
) -> list[Minute]:
    """The minutes of a stretch, simulated on the executors that were there.

    Those that came did so some time before the minute that has them, as long after the minute
    before as they take to start; those that left did so after the decision of the minute before.
    """
    ticks, numbers = part.ticks, [each.registered or 0 for each in part.minutes]
    machine = Machine(application, part.load, numbers[0], seed)
    found, last = [], 0.0
    for at, before, number in zip(ticks, [numbers[0], *numbers], numbers, strict=False):
        if number > before:
            machine.advance(last + application.start_delay % max(1.0, at - last))
        machine.have(number)
        machine.advance(at)
        evaluation = look(machine, application.interval, max(window, at - last))
        found.append(minute(part.began_at + at, "running", 1, evaluation))
        last = at
    return found


def _paired(part: Stretch, simulated: Sequence[Minute]) -> list[_Pair]:
    # The first minute began before the load that is known.
    return [
        _Pair(after, again, after.at - before.at)
        for (before, after), again in zip(pairwise(part.minutes), simulated[1:], strict=True)
    ]


def is_late(minute: Minute, interval: float) -> bool:
    """Whether a batch of a minute was late, or the one in progress will be."""
    if minute.delay is not None and minute.delay > LATE * interval:
        return True
    return minute.overdue is not None and minute.overdue > LATE - 1


def _errors(pairs: Sequence[_Pair], interval: float) -> Errors:
    recorded = sum((each.recorded.registered or 0) * each.seconds for each in pairs)
    simulated = sum((each.simulated.registered or 0) * each.seconds for each in pairs)
    late = [is_late(each.recorded, interval) for each in pairs]
    late_again = [is_late(each.simulated, interval) for each in pairs]
    in_time = [
        each
        for each, one, other in zip(pairs, late, late_again, strict=True)
        if not one and not other
    ]
    ratio, mean = _difference(pairs, lambda each: each.ratio)
    share = 100 / len(pairs)
    return Errors(
        minutes=len(pairs),
        executors=simulated / recorded - 1 if recorded else 0.0,
        ratio=ratio / mean if ratio is not None and mean else 0.0,
        delay=_difference(in_time, lambda each: each.delay)[0],
        lag=_difference(pairs, lambda each: each.lag)[0],
        late=share * (sum(late_again) - sum(late)),
        recorded_late=share * sum(late),
    )


def _difference(
    pairs: Sequence[_Pair], value: Callable[[Minute], float | None]
) -> tuple[float | None, float | None]:
    """The mean difference of a value, and its mean; None where it was never measured."""
    both = [(value(each.recorded), value(each.simulated)) for each in pairs]
    known = [(one, other) for one, other in both if one is not None and other is not None]
    if not known:
        return None, None
    difference = sum(abs(other - one) for one, other in known) / len(known)
    return difference, sum(one for one, _ in known) / len(known)


def _why_refused(replayed: Replay) -> str | None:
    interval = replayed.calibration.application.interval
    doubtful = replayed.calibration.doubtful
    if doubtful > MOST_DOUBTFUL:
        return (
            f"in {doubtful:.0%} of the minutes a limit kept records back, or there were no more "
            f"executors to be had: what came is not known; at most {MOST_DOUBTFUL:.0%} may be so"
        )
    for name, errors in (
        ("the recorded executors", replayed.fixed),
        ("the recorded executors in the last part, which it had not seen", replayed.held_out),
        ("the policy that ran", replayed.policy),
    ):
        if errors is None:
            continue
        fault = _fault(errors, interval, by_policy=errors is replayed.policy)
        if fault is not None:
            return f"simulated on {name}, {fault}"
    return None


def _fault(errors: Errors, interval: float, by_policy: bool) -> str | None:
    """The error that is above its bound, in words; None: none is."""
    most_late = MOST_LATE + MOST_OF_LATE * errors.recorded_late
    if abs(errors.late) > most_late:
        late = errors.recorded_late + errors.late
        return (
            f"{late:.1f} % of the minutes are late, of which {errors.recorded_late:.1f} % were: a "
            f"difference of at most {most_late:.1f} may be"
        )
    if by_policy:
        if abs(errors.executors) > MOST_EXECUTORS:
            return (
                f"executor-hours differ by {errors.executors:+.0%}: at most {MOST_EXECUTORS:.0%} "
                "may be"
            )
        return None
    if errors.ratio > MOST_RATIO:
        return f"R is wrong by {errors.ratio:.0%} on average: at most {MOST_RATIO:.0%} may be"
    if errors.delay is not None and errors.delay > MOST_DELAY * interval:
        return (
            f"the longest delay of a minute is wrong by {errors.delay:.1f} s on average: at most "
            f"{MOST_DELAY * interval:g} s may be"
        )
    return None
