"""Follows a driver with another number of receivers until so many run. No Dagster here."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dagster_sparkscale.clusters.base import ClusterManager, Driver, DriverState
from dagster_sparkscale.clusters.requests import NotDone, end_of_log
from dagster_sparkscale.lifecycle import trial
from dagster_sparkscale.lifecycle.reconcile import Outcome
from dagster_sparkscale.observe.receivers import active
from dagster_sparkscale.observe.status import Status

BLIND = 5.0
"""Seconds that a driver may have gone without a look, to be known not to have run a query by then:
executors and a first batch take longer."""


class NeverRan(Exception):
    """The driver has ended before it ran a query; the text says how."""


@dataclass
class Recounted:
    """What happened, as it happens. The run's page is made of this."""

    before: int
    """How many there were."""
    wanted: int
    driver: Driver | None = None
    """The driver that runs now."""
    after: int | None = None
    """How many run; None: not known."""
    ending: str = "unchanged"
    """`unchanged`: there are so many; `remembered`: for the next start; `changed`; `short`: fewer
    or more run than were asked for; `not known`: whether they run can't be told."""
    ended: str | None = None
    """How the driver before has ended, as it has told."""
    generation: int | None = None
    """The generation of the checkpoint folder."""
    seconds: float | None = None
    still_seconds: float | None = None
    """Seconds from the end of the old driver until all receivers ran."""
    notes: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return self.ending == "short"


def follow(
    cluster: ClusterManager,
    story: Recounted,
    outcome: Outcome,
    deadline: float,
    tell: Callable[[str], None],
) -> None:
    """Wait until so many receivers run; sets `story.ending`.

    Raises:
        NeverRan: the driver has ended and certainly never ran a query.
        NotDone: the driver has ended, or another one has come after it.
    """
    began, new = time.monotonic(), outcome.driver
    last = outcome.status
    ran = last is not None and _has_run(last)

    def through(driver: Driver, status: Status | None) -> bool:
        nonlocal last, ran
        story.driver = driver
        if status is None:
            story.after = None
            return False
        ran, last = ran or _has_run(status), status
        story.after = active(status)
        started = len(status.receivers or ())
        if story.after != started or not started:
            return False
        # All that its graph has run, and a batch is through: it gets no others.
        return started == story.wanted or status.last_seq > 0

    came = trial.follow(cluster, new, deadline, through, fresh=True)
    if came.ending == "ended":
        raise _ended(cluster, story, new, came, ran)
    if came.ending == "through" and story.after == story.wanted:
        story.ending = "changed"
        story.still_seconds = time.monotonic() - began
        tell(f"{story.after} receivers run")
    else:
        _say_short(story, last)


def _ended(
    cluster: ClusterManager, story: Recounted, new: Driver, came: trial.Followed, ran: bool
) -> Exception:
    """What the end of a driver with another number means."""
    newest = came.driver
    if newest.epoch != new.epoch or newest.state is DriverState.STOPPED:
        return NotDone(
            f"driver {new.epoch}, with {story.wanted} receivers, has ended before all of them "
            f"ran: driver {newest.epoch} is {newest.state.value} now. The number stays set"
        )
    story.driver = newest
    said = (
        f"driver {newest.epoch}, with {story.wanted} receivers, has ended "
        f"({newest.exit_reason}). {end_of_log(cluster, newest)}"
    )
    if not ran and came.blind <= BLIND:
        return NeverRan(said)
    return NotDone(f"{said}\nThe number stays set: the stream's recovery starts it again")


def _has_run(status: Status) -> bool:
    return status.last_seq > 0 or any(q.active for q in status.queries)


def _say_short(story: Recounted, last: Status | None) -> None:
    """Note that not all receivers came up, and why."""
    if last is None or last.receivers is None:
        story.ending = "not known"
        story.notes.append("it can't be told how many receivers run")
        return
    story.ending, story.after = "short", active(last)
    there = len(last.receivers)
    if there > 0 and there != story.wanted:
        story.notes.append(
            f"the program has started {there} receivers: it has to take their number by "
            "receiver_count, and its checkpoint folder by receiver_checkpoint"
        )
        return
    story.notes.append(
        f"{story.after} of {story.wanted} receivers run; {last.registered} of {last.requested} "
        "executors have come"
    )
    story.notes += [
        f"receiver {each.stream_id} last failed of: {each.error}"
        for each in last.receivers
        if each.error and each.executor is None
    ]
