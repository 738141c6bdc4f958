"""The way back where a start with other limits has failed: those of before, and a driver with them.

No Dagster.
"""

import time
from dataclasses import replace
from typing import NoReturn

from dagster_sparkscale.backpressure.preflight import Preflight
from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.records.store import Record, Tuning
from dagster_sparkscale.clusters.requests import NotDone
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.in_force.tuned import with_tuning
from dagster_sparkscale.lifecycle import trial
from dagster_sparkscale.lifecycle.reconcile import Start
from dagster_sparkscale.remedy import WithRemedy

CAUSE = "retune"
"""The cause of a start in the history of submissions."""
AGAIN = 600.0
"""Seconds after which it is tried again, at the earliest, to put back what did harm."""


def is_set(cluster: ClusterManager, stream: str, tuning: Tuning, error: ClusterError) -> bool:
    """Whether it is remembered by now.

    Raises:
        NotDone: the cluster does not answer.
    """
    try:
        record = cluster.store().read(stream)
    except ClusterError as unknown:
        what = (
            f"{stream!r}: whether these limits are set can't be told ({unknown}); if so, they stay "
            "set. The start with them was not seen through: "
        )
        raise NotDone(WithRemedy(what, str(error))) from error
    return record is not None and _is_same(record.tuning, tuning)


def _is_same(found: Tuning | None, tuning: Tuning) -> bool:
    """Whether `found` is `tuning`, with or without the live limits that a person has set since."""
    return found is not None and tuning == replace(
        found, rates=tuning.rates, rates_before=tuning.rates_before
    )


def go_back(
    cluster: ClusterManager,
    stream: Stream,
    looked: Preflight,
    tuning: Tuning,
    error: ClusterError,
    requester: Requester,
) -> NoReturn:
    """Remember what was in force before a start that failed, and start a driver with it where none
    runs.

    Raises:
        NotDone: always; says which limits are in force now.
    """

    def back(record: Record) -> Record:
        if record.tuning is None or not _is_same(record.tuning, tuning):
            what = (
                f"{stream.name!r}: a start with these limits failed, and others were set in the "
                "meantime. It failed of: "
            )
            raise NotDone(WithRemedy(what, str(error)))
        why = " ".join(str(error).split())[:300]
        before = looked.record.tuning
        if before is not None:  # but for what a person has set since
            theirs = tuning.rates_before.keys() - record.tuning.rates_before.keys()
            rates = {name: rate for name, rate in before.rates.items() if name not in theirs}
            before = replace(before, rates=rates)
        return with_tuning(record, _back(before, requester.name, tuning, why, time.time()))

    came = trial.put_back(
        *(cluster, stream, requester, looked.driver.epoch, back),
        Start(cause=CAUSE, unless_stopped=True),
        seen_to_end=isinstance(error, NotDone),
    )
    raise NotDone(WithRemedy(f"{stream.name!r}: ", _said(came, tuning, error))) from error


_SAID = {
    "in force": "{tried}in force again. It failed of: {error}",
    "stopped": "{tried}remembered; it was stopped in the meantime. It failed of: {error}",
    "start failed": "{tried}remembered, but a start with them failed too: {why}. The first one "
    "failed of: {error}",
    "lives": "these limits stay set: driver {epoch} has them, though its start was not seen "
    "through: {error}",
    "not known": "these limits stay set: whether a driver runs with them can't be told ({why}). "
    "Its start was not seen through: {error}",
    "not remembered": "these limits stay set, as they could not be put back: {why}. A start with "
    "them failed of: {error}",
}
"""The limits in force, or remembered, by how the way back has ended."""


def _said(came: trial.PutBack, tuning: Tuning, error: ClusterError) -> str:
    tried = "a start with these limits failed, and those of before are "
    if tuning.put_back:
        tried = "a start with the limits of before failed, and those that were to be put back are "
    epoch = came.driver.epoch if came.driver is not None else None
    return WithRemedy.filled(
        _SAID[came.ending], tried=tried, epoch=epoch, why=came.error, error=error
    )


def _back(before: Tuning | None, by: str, tuning: Tuning, why: str, now: float) -> Tuning:
    """What is remembered once a start with `tuning` has failed of `why`."""
    back = before or Tuning({}, by="", at=0.0, declared=tuning.declared)
    if tuning.by_hand:  # what a person tries is gone
        return back
    if tuning.put_back:
        # What did harm is in force again: it is still to be put back, later and later.
        again = now + max(AGAIN, (now - back.at) / 4)
        said = f"to be put back, and a start with the limits of before failed: {why}"
        return replace(back, verify_at=again, outcome=said)
    # By itself it is not tried again soon.
    said = f"put back: a start failed: {why}"
    return replace(back, at=now, by=by, verify_at=None, put_back=True, outcome=said)
