"""Follows the tasks of Spark's jobs, which may go on after their job has failed."""

import time
import uuid
from typing import Any

_GROUP = "spark.jobGroup.id"
_POLL = 0.2
_QUIET = 2
"""Looks in a row that find none: Spark tells of tasks a little late."""


class StillRunning(RuntimeError):
    """Tasks go on."""


class Tasks:
    """Those of the jobs that this thread starts in the context."""

    def __init__(self, session: Any) -> None:
        self._context = session._sc
        self._group = f"sparkscale-{uuid.uuid4().hex}"
        self._before: str | None = None

    def __enter__(self) -> "Tasks":
        self._before = self._context.getLocalProperty(_GROUP)
        self._context.setLocalProperty(_GROUP, self._group)
        return self

    def __exit__(self, *_: object) -> None:
        self._context.setLocalProperty(_GROUP, self._before)

    def running(self) -> int:
        """How many run now, also of jobs that have ended."""
        tracker = self._context._jsc.sc().statusTracker()
        count = 0
        for job in tracker.getJobIdsForGroup(self._group):
            told = tracker.getJobInfo(job)
            for stage in told.get().stageIds() if told.isDefined() else ():
                at = tracker.getStageInfo(stage)
                count += at.get().numActiveTasks() if at.isDefined() else 0
        return count

    def until_over(self, within: float) -> None:
        """Wait until none runs any more.

        Args:
            within: seconds.

        Raises:
            StillRunning: they do still.
        """
        deadline, quiet = time.monotonic() + within, 0
        while quiet < _QUIET:
            running = self.running()
            quiet = 0 if running else quiet + 1
            if running and time.monotonic() >= deadline:
                raise StillRunning(f"{running} tasks of it still run after {within:g} s")
            time.sleep(_POLL)
