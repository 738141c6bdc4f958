"""Follows receivers from one look to the next: which was away, why, and for how long. Pure."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from dagster_sparkscale.driver.wire import Receiver, Relaunch

MOST = 50
"""Relaunches that are remembered."""
MOVE, EVACUATION, LOST, RESTART = "move", "evacuation", "executor lost", "restart"
"""Causes, as `Relaunch.cause` has them."""


@dataclass(frozen=True, slots=True)
class TrackedReceiver:
    """A receiver as Spark's tracker has it (`ReceiverTrackingInfo`)."""

    stream_id: int
    executor: str | None = None
    """The executor where it runs, or ran last."""
    host: str | None = None
    active: bool = False
    """Whether it has registered there and not deregistered. It stays so where its executor dies,
    until Spark starts it again."""
    launch: str | None = None
    """The endpoint of its latest start: each start has another."""
    name: str | None = None
    error: str | None = None
    pauses_until: float | None = None
    """When it begins again by itself after a failure, seconds since the epoch; None: not known."""


@dataclass(frozen=True, slots=True)
class Order:
    """A receiver was sent to an executor, and has not come up anywhere since."""

    executor: str
    cause: str
    at: float
    operation: int | None
    launch: str | None
    """The one that was told to stop."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How it is with a receiver."""

    stream_id: int
    executor: str | None
    """The executor where it runs, or ran last; None: it has run nowhere."""
    away: float | None = None
    """Seconds for which it has been away, or has not run at all; None: it runs."""
    order: Order | None = None
    """The move that it has not completed."""
    pauses_until: float | None = None
    """When it begins again by itself, as it has said; None: it has not."""


@dataclass(slots=True)
class _Known:
    placement: TrackedReceiver
    """The receiver when it last ran, or, before it ever ran, when it was last listed."""
    first_seen: float
    pauses_until: float | None = None
    here: bool = False
    """Whether it runs, by the last look."""
    since: float | None = None
    order: Order | None = None
    away: Relaunch | None = None
    """Open while it is away."""
    name: str | None = None
    error: str | None = None

    def standing(self, now: float) -> Standing:
        """How it is with the receiver at that moment, seconds since the epoch."""
        gone_at = self.first_seen if self.since is None else None
        gone_at = self.away.began_at if self.away is not None else gone_at
        away = None if gone_at is None else max(0.0, now - gone_at)
        place = self.placement
        return Standing(place.stream_id, place.executor, away, self.order, self.pauses_until)


@dataclass(slots=True)
class ReceiverWatch:
    """Makes of each look what is told of receivers. For one thread.

    A receiver is away while none is seen active for its stream on an executor that is there.
    Whether it was between two looks nobody knows: then it was for no time at all.
    """

    _known: dict[int, _Known] = field(default_factory=dict)
    _over: list[Relaunch] = field(default_factory=list)
    _left: dict[str, float] = field(default_factory=dict)

    def see(
        self, placements: Iterable[TrackedReceiver], present: Collection[str], now: float
    ) -> tuple[Relaunch, ...]:
        """Take note of a look; returns what is over since the one before.

        Args:
            present: the executors that are registered.
            now: seconds since the epoch.
        """
        told = {placement.stream_id: placement for placement in placements}
        # Those of a graph that has been stopped are not away.
        self._known = {id: known for id, known in self._known.items() if id in told}
        over: list[Relaunch] = []
        for id, placement in sorted(told.items()):
            known = self._known.setdefault(id, _Known(placement, now))
            known.name, known.error = placement.name or known.name, placement.error or known.error
            there = known.placement.executor in present  # it pauses where it ran, or not at all
            known.pauses_until = placement.pauses_until if there else None
            if placement.active and placement.executor in present:
                over += self._note_running(known, placement, present, now)
            else:
                self._note_away(known, present, now)
        self._left = {executor: at for executor, at in self._left.items() if executor in present}
        self._over = [*self._over, *over]
        del self._over[: max(0, len(self._over) - MOST)]
        return tuple(over)

    def _note_running(
        self, known: _Known, placement: TrackedReceiver, present: Collection[str], now: float
    ) -> list[Relaunch]:
        if known.order is not None and placement.launch == known.order.launch:
            return []  # it has not heard yet that it is to stop
        before, away = known.placement, known.away
        first = known.since is None
        if not first and away is None and before.launch != placement.launch:
            cause = RESTART if before.executor in present else LOST
            away = Relaunch(placement.stream_id, cause, before.executor, now)
        if not first and before.executor is not None and before.executor != placement.executor:
            self._left[before.executor] = now
        if first or away is not None:
            known.since = now
        known.placement, known.here = placement, True
        if known.order is not None:
            known.error = placement.error  # of one before it: being told to stop is no failure
        known.order = known.away = None
        if away is None:
            return []
        lasted = round(max(0.0, now - away.began_at), 3)
        return [replace(away, to_executor=placement.executor, away_seconds=lasted)]

    def _note_away(self, known: _Known, present: Collection[str], now: float) -> None:
        known.here = False
        if known.since is None:
            return  # it has never run yet
        executor = known.placement.executor
        lost = executor not in present
        if known.away is None:
            cause = LOST if lost else RESTART
            known.away = Relaunch(known.placement.stream_id, cause, executor, now)
        elif lost and known.away.cause == RESTART:
            known.away = replace(known.away, cause=LOST)

    def order(
        self, stream_id: int, executor: str, cause: str, now: float, operation: int | None = None
    ) -> None:
        """A receiver that was seen has been told to stop, and is to come up on `executor`."""
        known = self._known[stream_id]
        known.order = Order(executor, cause, now, operation, known.placement.launch)
        known.here = False
        began = known.away.began_at if known.away else now
        known.away = Relaunch(
            *(stream_id, cause, known.placement.executor, began),
            wanted=executor,
            operation=operation,
        )

    @property
    def ordered(self) -> dict[int, Order]:
        """The receivers on their way to another executor, by stream id."""
        return {id: known.order for id, known in self._known.items() if known.order is not None}

    @property
    def away(self) -> tuple[Relaunch, ...]:
        """The receivers that are away."""
        return tuple(known.away for known in self._known.values() if known.away is not None)

    @property
    def left(self) -> dict[str, float]:
        """When a receiver was last seen to have left an executor that is still there."""
        return dict(self._left)

    def settle(self, until: float | None) -> None:
        """What was received before that time has been processed: executors that receivers left
        earlier hold nothing of it any more. None: that is not told, and not waited for."""
        self._left = {
            executor: at for executor, at in self._left.items() if until is not None and at > until
        }

    def standings(self, now: float) -> dict[int, Standing]:
        """How it is with each receiver, by stream id."""
        return {id: known.standing(now) for id, known in sorted(self._known.items())}

    def receivers(self) -> tuple[Receiver, ...]:
        """What is told of each, without its rate."""
        return tuple(
            Receiver(
                stream_id=id,
                name=known.name,
                executor=known.placement.executor if known.here else None,
                host=known.placement.host if known.here else None,
                since=known.since if known.here else None,
                moving_to=known.order.executor if known.order else None,
                error=known.error,
            )
            for id, known in sorted(self._known.items())
        )

    def relaunches(self) -> tuple[Relaunch, ...]:
        """The latest, oldest first. Those that are away stay in it."""
        away = self.away[:MOST]
        over = self._over[max(0, len(self._over) + len(away) - MOST) :]
        return tuple(sorted([*over, *away], key=lambda each: each.began_at))


def described(relaunch: Relaunch) -> str:
    """Describe a receiver that was away or is."""
    words = f"receiver {relaunch.stream_id} left executor {relaunch.from_executor}"
    if relaunch.from_executor is None:
        words = f"receiver {relaunch.stream_id} had run nowhere yet"
    words += f" ({relaunch.cause})"
    if relaunch.wanted is not None and relaunch.wanted != relaunch.to_executor:
        words += f", was sent to executor {relaunch.wanted}"
    if relaunch.to_executor is not None:
        words += f" and runs on executor {relaunch.to_executor} after {relaunch.away_seconds:g} s"
    return words
