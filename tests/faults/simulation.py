"""Processes that take turns, on a clock of their own: by one seed in one order.

What is played are greenlets: whoever sleeps, or calls what lies behind a network, lets the others
go on. `time.sleep`, `time.monotonic` and `time.time` are the simulation's to these, and what
they were to everybody else. A process may be killed, after which nothing of it runs, not even what
cleans up; or held up, after which it goes on as if nothing had been.
"""

import heapq
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from greenlet import getcurrent, greenlet

from dagster_sparkscale.clusters.records import leases

EPOCH = 1_800_000_000.0
"""The wall's clock as a simulation begins, seconds since the epoch."""


class Killed(BaseException):
    """The process is dead: nothing of it runs any more, not even what cleans up."""


@dataclass(eq=False)
class Process:
    """A process of a host, and the threads of it."""

    name: str
    pid: int
    dead: bool = False
    held_up_until: float = 0.0
    ahead: float = 0.0
    """Seconds by which the clock of its host is ahead of the simulation's."""
    threads: list["Thread"] = field(default_factory=list)

    @property
    def lives(self) -> bool:
        return not self.dead and any(not thread.dead for thread in self.threads)


class Thread(greenlet):
    """One that takes its turn in a simulation."""

    def __init__(self, world: "Simulation", process: Process, act: Callable[[], Any]) -> None:
        super().__init__(self._act, world.hub)
        self.world, self.process, self._do = world, process, act

    def _act(self) -> None:
        try:
            self._do()
        except Killed:
            pass
        except Exception as error:
            self.world.faults.append(error)


class Simulation:
    """A clock, and who is awaited when."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 0.0
        self.ahead = 0.0
        """Seconds by which the clocks of all hosts are ahead, in `time.time` alone."""
        self.hub = getcurrent()
        """Who gives everybody a turn: who has made the simulation."""
        self.faults: list[Exception] = []
        """What nobody has caught: a fault of the library, or of what is played."""
        self._turns: list[tuple[float, int, Thread]] = []
        self._number = 0
        self._pids = 0

    @property
    def wall(self) -> float:
        """Seconds since the epoch."""
        return EPOCH + self.now

    def begin(self, name: str, act: Callable[[], Any], after: float = 0.0) -> Process:
        """A process that begins in so many seconds."""
        self._pids += 1
        process = Process(name, self._pids)
        self.begin_thread(process, act, after)
        return process

    def begin_thread(self, process: Process, act: Callable[[], Any], after: float = 0.0) -> None:
        thread = Thread(self, process, act)
        process.threads.append(thread)
        self._wake(thread, self.now + after)

    def kill(self, process: Process) -> None:
        process.dead = True
        for thread in process.threads:
            self._wake(thread, self.now)

    def sleep(self, seconds: float) -> None:
        """Let others go on; called by a thread of this simulation alone."""
        thread = getcurrent()
        assert isinstance(thread, Thread)
        if thread.process.dead:
            raise Killed
        self._wake(thread, self.now + max(0.0, seconds))
        self.hub.switch()
        if thread.process.dead:
            raise Killed

    def later(self, act: Callable[[], None], seconds: float) -> None:
        """Have something done in so many seconds, whatever becomes of who asks."""
        self.begin("network", act, seconds)

    def hold_up(self, seconds: float) -> None:
        """Have the process that asks stand still."""
        thread = getcurrent()
        assert isinstance(thread, Thread)
        thread.process.held_up_until = self.now + seconds
        self.sleep(0.0)

    def run(self, until: float) -> None:
        """Play until that moment of the simulation's clock, or until nobody waits any more."""
        while self._turns and self._turns[0][0] <= until:
            at, _, thread = heapq.heappop(self._turns)
            self.now = max(self.now, at)
            process = thread.process
            if thread.dead or (process.dead and not thread):  # it has not begun
                continue
            if not process.dead and process.held_up_until > self.now:
                self._wake(thread, process.held_up_until)
                continue
            thread.switch()
        self.now = max(self.now, until)

    def end(self) -> None:
        """Kill whoever is left."""
        for _, _, thread in list(self._turns):
            thread.process.dead = True
        self.run(float("inf"))

    def _wake(self, thread: Thread, at: float) -> None:
        self._number += 1
        heapq.heappush(self._turns, (at, self._number, thread))


class Lock:
    """What `threading.RLock` is to threads: one whose turn it is waits for who has it."""

    def __init__(self, world: Simulation) -> None:
        self._world, self._owner, self._depth = world, None, 0
        self._owner: greenlet | None

    def __enter__(self) -> None:
        me = getcurrent()
        while self._owner not in (None, me):
            self._world.sleep(0.05)
        self._owner, self._depth = me, self._depth + 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = None


def current() -> Thread | None:
    """Whose turn it is; None: whoever asks is of no simulation."""
    found = getcurrent()
    return found if isinstance(found, Thread) else None


@contextmanager
def clocks() -> Iterator[None]:
    """The clock of a simulation is that of its threads, while the context lasts."""
    sleep, monotonic, wall = time.sleep, time.monotonic, time.time

    def slept(seconds: float) -> None:
        thread = current()
        if thread is None:
            sleep(seconds)
        else:
            thread.world.sleep(seconds)

    def steady() -> float:
        thread = current()
        return monotonic() if thread is None else thread.world.now

    def since_the_epoch() -> float:
        thread = current()
        if thread is None:
            return wall()
        return thread.world.wall + thread.world.ahead + thread.process.ahead

    with ExitStack() as patches:
        for name, function in (
            ("sleep", slept),
            ("monotonic", steady),
            ("time", since_the_epoch),
        ):
            patches.enter_context(patch.object(time, name, function))
        patches.enter_context(patch.dict(leases.steer.__kwdefaults__, {"sleep": slept}))
        yield
