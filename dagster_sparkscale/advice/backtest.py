"""A backtest of a declared stream: its history, and the policies that are tried on it."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import dagster as dg

from dagster_sparkscale.advice.decider import AsInSensor
from dagster_sparkscale.advice.specs import DECLARED, Still, declaration, named, with_policy
from dagster_sparkscale.backtest.calibrate import Uncalibrated
from dagster_sparkscale.backtest.loads import Load
from dagster_sparkscale.backtest.model import Application
from dagster_sparkscale.backtest.study import HELD_OUT, Candidate, Study, on_a_load, study
from dagster_sparkscale.declare.policies import AutoscalePolicy
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.observe.history import history
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.operations import asset_key

DAYS = 7.0
"""Days of history that are looked at, unless another number is asked for."""
MOST_DAYS = 3650.0
"""Days of history that may be asked for."""
MOST_BATCHES = 5_000_000
"""Batches of a load that is tried: each takes memory."""
MOST_LATE = 1.0
"""Percent of the time whose records may come too late, unless another number is asked for."""
DAY = 86400.0


class NoAdvice(LookupError):
    """A stream's history says too little for a backtest."""


def run_backtest(
    minutes: Sequence[Minute],
    stream: Stream,
    policies: Sequence[str | AutoscalePolicy] = (),
    *,
    most_late: float = MOST_LATE,
    load: Load | None = None,
    scale: float = 1.0,
    application: Application | None = None,
    held_out: float = HELD_OUT,
    seed: int = 0,
) -> Study:
    """What the declared policy of a stream, and others, would have made of its load.

    Args:
        minutes: of the stream, in order of time, as `history()` has them.
        stream: as it is declared; its policy is the one that ran.
        policies: to be tried beside it; a text as `capacity:price_of_lateness=100` is that policy,
            with the numbers of executors and all else that every policy has as declared; and
            `fixed:executors=4` is none.
        most_late: percent of the time whose records may be in a late batch, one with Spark's total
            delay above two batch intervals.
        load: to be tried on in place of the recorded one.
        scale: times the recorded load.
        application: how long batches take, in place of what the minutes say; `load` must be given.
        held_out: share of the time at its end, which is looked at by itself.
        seed: decides the noise.

    Raises:
        NoAdvice: the minutes say too little.
        DeclarationError: the stream can't have one of these.
        ValueError: `held_out` is no share, the load is too long, or an application is given
            without a load.
    """
    if not 0 < held_out < 1:
        raise ValueError(f"held_out = {held_out!r}: must be above 0 and below 1")
    if load is not None:
        _refuse_endless(load, stream)
    candidates = [_candidate(DECLARED, stream)]
    for each in policies:
        tried = named(each, stream) if isinstance(each, str) else with_policy(stream, each)
        candidates.append(_candidate(declaration(tried), tried))
    if application is not None:
        if load is None:
            raise ValueError("load = None: must be given, where an application is")
        return on_a_load(application, load, candidates, most_late=most_late, seed=seed)
    found = study(
        *(minutes, stream.workload, candidates),
        most_late=most_late,
        load=load,
        scale=scale,
        held_out=held_out,
        seed=seed,
    )
    if isinstance(found, Uncalibrated):
        raise NoAdvice(f"{stream.name}: {found.reason}")
    return found


def _refuse_endless(load: Load, stream: Stream) -> None:
    batches = load.seconds / stream.batch_interval
    if batches > MOST_BATCHES:
        raise ValueError(
            f"load {load.name!r} of {load.seconds:g} s: must be at most {MOST_BATCHES:,} batches "
            f"of {stream.batch_interval:g} s, and is {batches:,.0f}; is its time in seconds?"
        )


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
    if policy is None:
        there = stream.bounds.initial
        bounds = replace(stream.bounds, minimum=there, maximum=there)
        return Candidate(name, Still, bounds, stream.window)
    decider = partial(AsInSensor, policy, stream.workload)
    return Candidate(name, decider, stream.bounds, policy.interval)
