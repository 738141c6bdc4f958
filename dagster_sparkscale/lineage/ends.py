"""Tells OpenLineage servers of the ends that drivers did not tell themselves, once each.

The minute loop sees a driver that was killed. It must not wait for a server, so a thread posts, and
the next look finds what was taken: from then on the cursor knows that this end was told. Where the
process ends in between, or the cursor is lost, an end is told again, of the same run.
"""

import logging
import threading
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from dagster_sparkscale.capability import Running, Situation
from dagster_sparkscale.clusters.records.store import Record, UntoldEnd
from dagster_sparkscale.declare.decisions import Decision
from dagster_sparkscale.driver.lineage.events import run_event, run_id
from dagster_sparkscale.driver.lineage.plan import LineagePlan, plan_of, with_version
from dagster_sparkscale.driver.lineage.post import NotTaken, post
from dagster_sparkscale.in_force.lineage import untold_end
from dagster_sparkscale.version import __version__

TOLD = "lineage_told"
"""The key of the cursor: the highest epoch of which the end was told."""
TOLD_OF = "lineage_told_of"
"""The key of the cursor: of which record that epoch is, as a number. A stream whose record was lost
begins with epoch 1 again."""
TIMEOUT = 5.0
"""Seconds that a server has to take an event."""
GIVEN_UP = 86400.0
"""Seconds for which an end is tried to be told."""
MOST = 10_000
"""Ends that are remembered as told, and that wait."""

Post = Callable[[LineagePlan, Mapping[str, Any], float], None]

log = logging.getLogger(__name__)


def owed(situation: Situation) -> list[UntoldEnd]:
    """The ends that have to be told of a stream, oldest first."""
    driver = situation.driver
    if driver is None or driver.record is None:
        return []
    now = situation.now
    own = untold_end(driver, now)
    ends = {end.epoch: end for end in (*driver.record.untold, own) if end is not None}
    told = _told(situation, driver.record) or 0.0
    return [
        ends[epoch] for epoch in sorted(ends) if epoch > told and now - ends[epoch].at < GIVEN_UP
    ]


def _told(situation: Situation, record: Record) -> float | None:
    """The highest epoch of a record of which the end was told; None: of none."""
    learned = situation.learned
    return learned.get(TOLD) if learned.get(TOLD_OF) == _number(record) else None


def _number(record: Record) -> float:
    return float(zlib.crc32(record.id.encode()))


class EndTeller:
    """Posts ends on a thread of its own, which ends when there are none. Safe for threads.

    Args:
        post: sends one event.
    """

    def __init__(self, post: Post = post) -> None:
        self._post = post
        self._changed = threading.Lock()
        self._waiting: dict[str, tuple[LineagePlan, Mapping[str, Any]]] = {}
        """Events by the id of their run."""
        self._taken: dict[str, None] = {}
        self._posting = False

    def see(self, situation: Situation) -> Mapping[str, float]:
        """Have the ends of a stream told that are owed; what the cursor is to know of them."""
        record = situation.driver.record if situation.driver is not None else None
        if record is None:
            keys = (TOLD, TOLD_OF)
            return {key: situation.learned[key] for key in keys if key in situation.learned}
        told, still = _told(situation, record), False
        for end in owed(situation):
            run = run_id(record.id, end.epoch)
            if run in self._taken and not still:
                told = float(end.epoch)
            elif run not in self._taken:
                still = True
                self._put(run, end)
        return {} if told is None else {TOLD: told, TOLD_OF: _number(record)}

    def learn(self, situation: Running, decision: Decision) -> Mapping[str, float]:
        """`see`, for a stream that runs: a driver before may have been killed."""
        return self.see(situation)

    def _put(self, run: str, end: UntoldEnd) -> None:
        try:
            plan = plan_of(with_version(end.lineage, __version__))
            if plan is None:
                return
            event = run_event(plan, run, end.kind, end.at, error=end.why)
        except (ValueError, OverflowError, OSError) as error:
            # A record that is damaged, or of another release, must not hide all other streams.
            log.warning("the end of run %s can't be told: %s", run, error)
            return
        with self._changed:
            if run in self._waiting or len(self._waiting) >= MOST:
                return
            self._waiting[run] = plan, event
            if self._posting:
                return
            self._posting = True
        threading.Thread(target=self._tell, name="sparkscale-lineage", daemon=True).start()

    def _tell(self) -> None:
        """Try each event that waits once: the next look has what was not taken wait again."""
        while True:
            with self._changed:
                run = next(iter(self._waiting), None)
                if run is None:
                    self._posting = False
                    return
                plan, event = self._waiting[run]
            taken = self._is_taken(plan, event)
            with self._changed:
                # Not before: a look meanwhile would have it wait, and be told, a second time.
                del self._waiting[run]
                if taken:
                    self._taken[run] = None
                while len(self._taken) > MOST:
                    del self._taken[next(iter(self._taken))]

    def _is_taken(self, plan: LineagePlan, event: Mapping[str, Any]) -> bool:
        try:
            self._post(plan, event, TIMEOUT)
        except NotTaken as error:
            log.warning("the end of run %s was not told: %s", event["run"]["runId"], error)
            return False
        return True
