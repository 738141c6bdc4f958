"""How a stream is, in one word: the same on its page, the fleet's, in a terminal, in alerts and in
metrics. Pure.

What stands first decides: a stream that does not answer is not called slow, and one that is slow
not throttled. "healthy" is only what has been measured and has nothing against it.
"""

from dagster_sparkscale.durations import span
from dagster_sparkscale.observe.findings import Health
from dagster_sparkscale.watch.fleet.rows import ORPHAN, Row
from dagster_sparkscale.watch.health import NOT_STOPPED

GIVEN_UP = "given up"
"""A failed stream that nothing but a person starts again."""
CRASH_LOOPING = "crash-looping"
NOT_ANSWERING = "not answering"
IN_MAINTENANCE = "in maintenance"
"""The driver is in the middle of a change, and no batch is to complete meanwhile."""
STUCK = "stuck"
"""No batch completes, or nothing is heard of a query, or one has failed."""
FAILING = "failing"
"""Batches fail beside those that complete: what they were to write is not written."""
NOT_SCALED = "not scaled"
"""The policy can't decide."""
SLOW = "slow"
"""R is 1 or more, or it is further behind than `max_lag`."""
THROTTLED = "throttled"
"""A query takes all that its limit lets it: what waits is not known, or is more."""
AT_MAXIMUM = "at its maximum"
"""The stream keeps up, and has fewer executors than its policy wants."""
LOST_DATA = "lost data"
WARMING_UP = "warming up"
"""Nothing but its first batch since the start is known, which is no measure."""
IDLE = "idle"
"""The driver answers, and no batch has completed: no data comes, or the interval is not over."""
HEALTHY = "healthy"

OF_RUNNING = (
    *(
        IN_MAINTENANCE,
        STUCK,
        FAILING,
        NOT_SCALED,
        SLOW,
        THROTTLED,
        AT_MAXIMUM,
        LOST_DATA,
        WARMING_UP,
    ),
    *(IDLE, HEALTHY),
)
"""Verdicts on a stream that runs and answers: they come and go with its load."""
VERDICTS = (
    *(GIVEN_UP, CRASH_LOOPING, "failed", "unknown", NOT_ANSWERING, NOT_STOPPED, ORPHAN),
    *(*OF_RUNNING[:-1], "starting", HEALTHY, "stopped", "not started"),
)
"""All that there are, the worst first."""


def verdict(row: Row) -> str:
    """How the stream is, as one of `VERDICTS`."""
    if row.gave_up:
        return GIVEN_UP
    failing = {each.check: each for each in row.failing}
    if row.state == "running" and (running := failing.get(Health.RUNNING.value)) is not None:
        return NOT_STOPPED if running.mark == NOT_STOPPED else NOT_ANSWERING
    if row.looping:
        return CRASH_LOOPING
    return _of_running(row) if row.state == "running" else row.state


def headline(row: Row) -> str:
    """The verdict, without what comes and goes with the load of a stream that runs: another one is
    news at once."""
    found = verdict(row)
    return "running" if found in OF_RUNNING and found != IN_MAINTENANCE else found


def lasting(row: Row, space: str = " ") -> str:
    """The verdict, and how long it has lasted where that is known and says something.

    Args:
        space: within that time.
    """
    found = verdict(row)
    if found == STUCK:
        seconds = row.stuck_for
    elif found in _DATED and row.since is not None:
        seconds = row.seen_at - row.since
    else:
        seconds = None
    if seconds is None:
        return found
    return f"{found} for {span(max(0.0, seconds)).replace(' ', space)}"


_DATED = ("failed", GIVEN_UP, "starting", "stopped")


def _of_running(row: Row) -> str:
    failing = {each.check: each.urgent for each in row.failing}
    if row.busy:
        return IN_MAINTENANCE
    if failing.get(Health.BATCHES_COMPLETING.value):
        return STUCK
    if row.failed_batches:
        return FAILING
    if any(failing.values()):
        return NOT_SCALED
    if Health.RATIO_BELOW_ONE.value in failing or Health.LAG_WITHIN_LIMIT.value in failing:
        return SLOW
    if row.throttled:
        return THROTTLED
    if Health.BELOW_MAXIMUM.value in failing:
        return AT_MAXIMUM
    if Health.NO_DATA_LOST.value in failing:
        return LOST_DATA
    if row.warming:
        return WARMING_UP
    return IDLE if row.idle else HEALTHY
