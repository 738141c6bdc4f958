"""Looks where receivers are, and moves them: those that somebody asks for, and those of executors
that are to go.

All on the thread that looks (`spark/looks.py`), as the tracker's locks may be held for long: who
asks for a move waits a while for it, and the keeper says which executors are to go and reads how
far it is.
"""

import functools
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dagster_sparkscale.driver.ending.drain import may_lose
from dagster_sparkscale.driver.executors.guard import Going
from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.request import NotReady
from dagster_sparkscale.driver.spark.features import DETAILS
from dagster_sparkscale.driver.spark.jvm import PerContext
from dagster_sparkscale.driver.spark.looks import SELDOM, first_line
from dagster_sparkscale.driver.spark.private import PrivateSpark
from dagster_sparkscale.driver.wire import Executor, Receiver, Relaunch

from .evacuation import (
    AGAIN_AFTER,
    SETTLE,
    TELL_AFTER,
    Host,
    counted,
    in_words,
    spread,
    stuck,
    to_be_sent,
)
from .move_request import CannotMove, MoveRequest
from .tracker import NO_RECEIVERS, ReceiverContext, Receivers, bind
from .watch import EVACUATION, MOVE, RESTART, ReceiverWatch, Standing, described

WATCHFUL, QUIET = 0.1, 1.0
"""Seconds between two looks: while a receiver is away, and while all of them run."""


class Mover:
    """Moves receivers of the program's current SparkContext. `look` and `pause` are for one thread.

    One class, though long: what is asked for, what is evacuated and what is stuck are weighed
    against one picture of one look, and no two of them may send one receiver.

    Args:
        registered: the executors that were last registered, with their cores.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        private: PrivateSpark,
        registered: Callable[[], Sequence[Executor]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._private, self._registered, self._clock = private, registered, clock
        self._per_context = PerContext(lambda context: bind(context, private))
        self._watch = ReceiverWatch()
        self._watched: ReceiverContext | None = None
        """The SparkContext that is watched."""
        self._lock = threading.Lock()
        self._requests: list[MoveRequest] = []
        self._missed: set[Relaunch] = set()
        """Relaunches that the log has warned of, as the receiver does not come back."""
        self._warned = False
        self.going = Going()
        """Set by who keeps the executors; replaced as a whole."""

    def request(self, stream_id: int, executor: str, operation: int | None) -> MoveRequest:
        """Have a receiver moved by the next look."""
        request = MoveRequest(stream_id, executor, operation)
        with self._lock:
            self._requests.append(request)
        return request

    def pause(self) -> float:
        """Seconds until the next look, if nobody asks for one before."""
        now = self._clock()
        if any(now - away.began_at < TELL_AFTER for away in self._watch.away):
            return WATCHFUL
        return QUIET if self._watch.receivers() else SELDOM

    def look(self) -> Receivers | None:
        """Move the receivers that are to be moved, and return where each is; None if this Spark
        does not say."""
        with self._lock:
            requests, self._requests = self._requests, []
        try:
            bound = self._per_context.get()
            if bound is not self._watched:  # receivers of another one are others
                self._watched = bound
                self._watch.see((), (), self._clock())
            seen = NO_RECEIVERS if bound is None else bound.tracker.look()
            if bound is None or seen is None or seen.placements is None:
                for request in requests:
                    request.carry_out(lambda: self._cannot(bound))
                places = sorted(seen.placed.items()) if seen else ()
                known = tuple(Receiver(id, executor=place) for id, place in places)
                return seen and replace(seen, told=known)
            return self._act(bound, seen, requests)
        except Exception as error:
            why = f"Spark: {type(error).__name__}: {first_line(error)}"
            for request in requests:
                request.carry_out(lambda: _raise(NotReady(why)))
            raise

    def _cannot(self, bound: ReceiverContext | None) -> None:
        if bound is None:
            raise NotReady("the program has stopped its SparkContext")
        raise CannotMove("receivers: this Spark lacks what moves them; see its log")

    def _act(
        self, bound: ReceiverContext, seen: Receivers, requests: Sequence[MoveRequest]
    ) -> Receivers:
        assert seen.placements is not None
        for over in self._watch.see(seen.placements, seen.hosts, self._clock()):
            say(described(over))
        for request in requests:
            request.carry_out(functools.partial(self._move, bound, seen, request))
        waiting = self._evacuate(bound, seen)
        self._send_again(bound, seen)
        self._rescue(bound, seen)
        self._log_missing()
        unsettled = frozenset[str]()
        if not bound.logged and self._watch.left:
            until = bound.tracker.processed_until()
            self._watch.settle(until)
            unsettled = frozenset(self._watch.left)
        standing = list(self._standings().values())
        return replace(
            seen,
            told=self._watch.receivers(),
            relaunches=self._watch.relaunches(),
            coming=Counter(order.executor for order in self._watch.ordered.values()),
            unsettled=unsettled,
            waiting=waiting or in_words(standing, self.going.evacuated, unsettled, self._clock()),
        )

    def _move(self, bound: ReceiverContext, seen: Receivers, request: MoveRequest) -> None:
        """Send a receiver to where somebody wants it.

        Raises:
            CannotMove: the receiver can't run there; says why.
            NotReady: not now.
        """
        stream, executor, going = request.stream_id, request.executor, self.going
        if bound.local:
            raise CannotMove("executor: a local master has no executors of its own")
        if not bound.tracker.streaming:
            raise NotReady("no StreamingContext is active: receivers can't be moved now")
        standings = self._standings()
        if stream not in standings:
            raise CannotMove(
                f"receiver: {stream}: there is none of that number; {_there_are(standings)}"
            )
        if executor not in seen.hosts:
            if any(each.id == executor for each in self._registered()):
                raise NotReady(f"executor {executor} is being started; ask again when it runs")
            raise CannotMove(
                f"executor: {executor}: none of that id is there; {_there_are(seen.hosts)}"
            )
        if executor in going.leaving | going.evacuated:
            raise CannotMove(f"executor: {executor}: it is about to leave; choose one that stays")
        standing = standings[stream]
        if standing.order is not None:
            if standing.order.executor == executor:
                return  # it is on its way
            if self._clock() - standing.order.at < AGAIN_AFTER:
                raise NotReady(
                    f"receiver {stream} is on its way to executor {standing.order.executor}; ask "
                    "again when it is there"
                )
        elif standing.away is None and standing.executor == executor:
            return  # it is there
        elif standing.away is not None and standing.away < SETTLE:
            raise NotReady(f"receiver {stream} is being started; ask again when it runs")
        tasks = self._tasks(bound).get(executor, 0)
        hosted = counted(standings, {stream}).get(executor, 0)
        if not tasks:
            unknown = f"how many tasks executor {executor} runs at once is not known"
            if self._private.has(DETAILS):
                raise NotReady(f"{unknown} yet; ask again in a moment")
            raise CannotMove(f"executor: {unknown}")
        if hosted >= tasks:
            raise CannotMove(
                f"executor: {executor}: it has no core free for receiver {stream}: it has or is "
                f"about to have {hosted} others, and it runs {tasks} tasks at once"
            )
        self._send(bound, seen, stream, executor, MOVE, request.operation)

    def _evacuate(self, bound: ReceiverContext, seen: Receivers) -> str | None:
        """Send receivers away from executors that are to go; returns why one can't be sent.

        Of those that have been told to leave, too: one may have been sent there just before.
        """
        going = self.going.evacuated | self.going.leaving
        if not going:
            return None
        standings, staying = list(self._standings().values()), self._staying(seen)
        sent = to_be_sent(standings, going, staying, self._clock())
        lacking = self._send_all(bound, seen, sent, EVACUATION)
        if not lacking:
            return None
        return (
            f"no executor that stays has a core free for receiver(s) "
            f"{', '.join(map(str, lacking))}: theirs wait for that"
        )

    def _rescue(self, bound: ReceiverContext, seen: Receivers) -> None:
        """Send those elsewhere that Spark does not get to run where it wants them."""
        if not bound.local and bound.tracker.streaming:
            standings = list(self._standings().values())
            streams = stuck(standings, self._staying(seen), self.going.leaving, self._clock())
            self._send_all(bound, seen, streams, None)

    def _send_all(
        self, bound: ReceiverContext, seen: Receivers, streams: Sequence[int], cause: str | None
    ) -> list[int]:
        """Send receivers to executors that stay, spread. Those for which none has a core.

        Args:
            cause: None: that for which each is away. An operation that had sent it elsewhere stays
                its own, which has to be told where it comes up.
        """
        counts, tasks = counted(self._standings(), streams), self._tasks(bound)
        staying = self._staying(seen)
        hosts = [Host(id, tasks.get(id, 0), counts.get(id, 0)) for id in staying]
        placed = spread(streams, hosts)
        away = {each.stream_id: each for each in self._watch.away}
        for stream, executor in placed.items():
            before = away.get(stream)
            why = cause or (before.cause if before is not None else RESTART)
            wanted_by = before.operation if before is not None else None
            self._send(bound, seen, stream, executor, why, wanted_by)
        return [stream for stream in streams if stream not in placed]

    def _staying(self, seen: Receivers) -> set[str]:
        return set(seen.hosts) - self.going.evacuated - self.going.leaving

    def _send_again(self, bound: ReceiverContext, seen: Receivers) -> None:
        """Send those again that have been on their way for long: what told them may be lost."""
        there = self._staying(seen)
        for stream, order in self._watch.ordered.items():
            if self._clock() - order.at >= AGAIN_AFTER and order.executor in there:
                self._send(bound, seen, stream, order.executor, order.cause, order.operation)

    def _send(
        self,
        bound: ReceiverContext,
        seen: Receivers,
        stream: int,
        executor: str,
        cause: str,
        operation: int | None,
    ) -> None:
        if not self._warned and (lost := may_lose(bound.scala, bound.logged)):
            self._warned = True
            say(lost)
        try:
            can = bound.tracker.send(stream, seen.hosts[executor], executor)
        except Exception as error:
            # Spark may have taken note of a half of it, and takes the receiver for one that does
            # not run: it is told again.
            self._watch.order(stream, executor, cause, self._clock(), operation)
            raise NotReady(
                f"Spark: {type(error).__name__}: {first_line(error)}; receiver {stream} may still "
                "be moved: look again"
            ) from error
        if not can:
            self._cannot(bound)
        place = self._standings()[stream].executor
        where = f"of executor {place}" if place is not None else "that has run nowhere yet"
        say(f"receiver {stream} {where} is sent to executor {executor} ({cause})")
        self._watch.order(stream, executor, cause, self._clock(), operation)

    def _log_missing(self) -> None:
        """Log the receivers that do not come back."""
        now = self._clock()
        for away in self._watch.away:
            first = replace(away, cause="", wanted=None, operation=None)
            if now - away.began_at >= TELL_AFTER and first not in self._missed:
                self._missed.add(first)
                say(f"{described(away)}, and it has not come back after {TELL_AFTER:.0f} s")

    def _standings(self) -> dict[int, Standing]:
        return self._watch.standings(self._clock())

    def _tasks(self, bound: ReceiverContext) -> dict[str, int]:
        """How many tasks each executor runs at once; those of which it is not known are missing."""
        return {each.id: each.cores // bound.task_cpus for each in self._registered()}


def _there_are(ids: Any) -> str:
    return f"there are {', '.join(map(str, sorted(ids)))}" if ids else "there are none"


def _raise(error: Exception) -> None:
    raise error
