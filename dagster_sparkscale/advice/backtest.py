"""A backtest of a declared stream: its history, and the policies that are tried on it."""

import time
from collections.abc import Sequence
from functools import partial

import dagster as dg

from dagster_sparkscale.advice.decider import AsInSensor
from dagster_sparkscale.advice.specs import DECLARED, in_python, policy_of, with_policy
from dagster_sparkscale.backtest.calibrate import Uncalibrated
from dagster_sparkscale.backtest.loads import Load
from dagster_sparkscale.backtest.study import Candidate, Study, study
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.policies import AutoscalePolicy
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.observe.history import history
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.operations import asset_key

DAYS = 7.0
"""Days of history that are looked at, unless another number is asked for."""
MOST_LATE = 1.0
"""Percent of the time whose records may come too late, unless another number is asked for."""
DAY = 86400.0


class NoAdvice(LookupError):
    """A stream's history says too little for a backtest."""


def backtest(
    minutes: Sequence[Minute],
    stream: Stream,
    policies: Sequence[str | AutoscalePolicy] = (),
    *,
    most_late: float = MOST_LATE,
    load: Load | None = None,
    scale: float = 1.0,
    seed: int = 0,
) -> Study:
    """What the declared policy of a stream, and others, would have made of its load.

    Args:
        minutes: of the stream, in order of time, as `history()` has them.
        stream: as it is declared; its policy is the one that ran.
        policies: to be tried beside it; a text as `capacity:price_of_lateness=100` is that policy,
            with the numbers of executors and all else that every policy has as declared.
        most_late: percent of the time whose records may come too late: later than two batch
            intervals after they came.
        load: to be tried on in place of the recorded one.
        scale: times the recorded load.
        seed: decides the noise.

    Raises:
        NoAdvice: the minutes say too little.
        DeclarationError: the stream has no policy, or can't have one of these.
    """
    if stream.autoscale is None:
        raise DeclarationError(
            f"{stream.name}: autoscale = None: must be a policy, as there is nothing to compare"
        )
    candidates = [_candidate(DECLARED, stream)]
    for each in policies:
        policy = policy_of(each, stream.autoscale) if isinstance(each, str) else each
        candidates.append(_candidate(in_python(policy), with_policy(stream, policy)))
    found = study(
        *(minutes, stream.workload, candidates),
        most_late=most_late,
        load=load,
        scale=scale,
        seed=seed,
    )
    if isinstance(found, Uncalibrated):
        raise NoAdvice(f"{stream.name}: {found.reason}")
    return found


def minutes_of(
    instance: dg.DagsterInstance, stream: Stream, since: float, until: float | None = None
) -> list[Minute]:
    """The stored minutes of a stream.

    Args:
        since, until: seconds since the epoch; None: until now.

    Raises:
        NoAdvice: there are none.
    """
    until = time.time() if until is None else until
    try:
        found = history(instance, asset_key(stream), since, until)
    except LookupError as error:
        raise NoAdvice(str(error)) from None
    if not found:
        days = (until - since) / DAY
        raise NoAdvice(f"{stream.name}: nothing was stored of it in these {days:g} days")
    return found


def _candidate(name: str, stream: Stream) -> Candidate:
    policy = stream.autoscale
    assert policy is not None
    decider = partial(AsInSensor, policy, stream.workload)
    return Candidate(name, decider, stream.bounds, policy.interval)
