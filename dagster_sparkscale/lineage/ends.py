"""Tells OpenLineage servers of the ends that drivers did not tell themselves, once each.

The minute loop sees a driver that was killed. It must not wait for a server, so a thread posts, and
the next look finds what was taken: from then on the cursor knows that this end was told. Where the
process ends in between, or the cursor is lost, an end is told again, of the same run.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from dagster_sparkscale.capability import Running, Situation
from dagster_sparkscale.clusters.records.store import UntoldEnd
from dagster_sparkscale.declare.decisions import Decision
from dagster_sparkscale.driver.lineage.events import run_event, run_id
from dagster_sparkscale.driver.lineage.plan import LineagePlan, plan_of, with_version
from dagster_sparkscale.driver.lineage.post import NotTaken, post
from dagster_sparkscale.in_force.lineage import untold_end
from dagster_sparkscale.version import __version__

TOLD = "lineage_told"
"""The key of the cursor: the highest epoch of which the end was told."""
TIMEOUT = 5.0
"""Seconds that a server has for each step of a request."""
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
    told = situation.learned.get(TOLD, 0.0)
    return [
        ends[epoch] for epoch in sorted(ends) if epoch > told and now - ends[epoch].at < GIVEN_UP
    ]


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
        told = situation.learned.get(TOLD)
        record = situation.driver.record if situation.driver is not None else None
        still = False
        for end in owed(situation):
            assert record is not None
            run = run_id(record.id, end.epoch)
            if run in self._taken and not still:
                told = float(end.epoch)
            elif run not in self._taken:
                still = True
                self._put(run, end)
        return {} if told is None else {TOLD: told}

    def learn(self, situation: Running, decision: Decision) -> Mapping[str, float]:
        """`see`, for a stream that runs: a driver before may have been killed."""
        return self.see(situation)

    def _put(self, run: str, end: UntoldEnd) -> None:
        plan = plan_of(with_version(end.lineage, __version__))
        if plan is None:
            return
        with self._changed:
            if run in self._waiting or len(self._waiting) >= MOST:
                return
            self._waiting[run] = plan, run_event(plan, run, end.kind, end.at, error=end.why)
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
