"""Plays the whole life of a stream under a fault: one schedule for each seed.

A stream is started, rescaled, limited, its receivers moved or its state reconfigured, restarted,
stopped and started again, while its drivers die, runs are killed, a sensor restarts what has
failed, and now and then a second stream wants its checkpoint. All of it overlaps as chance has it.
Then the fault is over; what is left must come to rest, and stop.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.records.leases import is_held
from dagster_sparkscale.declare.decisions import ScaleTo
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.in_flight import TAKES_LEASE
from dagster_sparkscale.lifecycle.recovery import Restart
from dagster_sparkscale.watch.assess import Assessment, assess_or_say_why
from dagster_sparkscale.watch.sighting import look
from tests.faults.checker import Checker, is_to_run
from tests.faults.deeds import STREAMS, Deed
from tests.faults.kinds import OFF, Clocks, Fault
from tests.faults.manager import Place
from tests.faults.processes import Processes
from tests.faults.simulation import Process, Simulation, clocks
from tests.faults.wrapping import Network
from tests.in_memory.cluster import World

TICK = 30.0
"""Seconds between two ticks of the sensor."""
CALM = 1800.0
"""Seconds after the fault, within which everything has come to rest."""
QUIET = 240.0
"""Seconds without any operation, after which it has."""
TRIES = 4
BY_THE_SENSOR = ("recover", "autoscale")
"""What it decides anew with each tick."""
LIFE = ("rescale", "limit", "own", "restart", "dies", "own", "rescale", "stop", "start", "dies")
"""What happens to a stream after its start, in any order. `own`: what its kind can do."""


@dataclass
class Played:
    """What came of one schedule."""

    fault: str
    seed: int
    rate: float
    found: list[str]
    """What must not be."""
    two_drivers: bool
    met: Counter[tuple[str, Any]]
    """How often each method has met each fault."""
    deeds: Sequence[Deed]
    recovered: list[float]
    """Seconds from each death of a driver until the next one worked."""
    story: list[str] = field(default_factory=list)

    @property
    def held(self) -> bool:
        return not self.found


class Play:
    """One schedule."""

    def __init__(self, fault: Fault, seed: int, rate: float | None = None) -> None:
        self.clock = Simulation(seed)
        chance = self.clock.chance
        self.fault, self.seed = fault, seed
        self.rate = chance.choice(fault.rates) if rate is None else rate
        world = World()
        processes = Processes(world, self.clock)
        self.checker = Checker(processes)
        processes.begun = self._begun
        self.place = Place(self.clock, Network(self.clock, None, self.rate), world, processes)
        self.story: list[str] = []
        self._runs: dict[Deed, Process] = {}
        kind = chance.choice(sorted(STREAMS))
        self.streams = STREAMS[kind][: 2 if chance.random() < 0.3 else 1]
        self.seen: dict[str, Assessment] = {}
        """What people see of each stream."""

    def play(self) -> Played:
        with clocks():
            try:
                self._play()
            finally:
                self.clock.end()
                self.place.forget()
        for error in self.clock.faults:
            self.checker.found.append(f"it breaks: {type(error).__name__}: {error}")
        return Played(
            *(self.fault.name, self.seed, self.rate, self.checker.found),
            two_drivers=self.checker.two_drivers,
            met=self.place.network.met,
            deeds=self.checker.deeds,
            recovered=self.checker.recovered,
            story=self.story,
        )

    def _play(self) -> None:
        chance, at = self.clock.chance, 0.0
        self._at(chance.choice((0.0, 30.0)), self._fault_begins)
        for stream in self.streams:
            self._at(at, lambda stream=stream: self.begin("start", stream))
            at += chance.uniform(0, 120)
        life = [(each, stream) for stream in self.streams for each in LIFE]
        chance.shuffle(life)
        for what, stream in life:
            at += chance.choice((0.0, chance.uniform(0, 5), chance.uniform(0, 90)))
            self._at(at, lambda what=what, stream=stream: self._happens(what, stream))
        at += 60
        self.clock.begin("ticks", self._ticks)
        self.clock.run(at)
        self.place.network.fault, self.clock.ahead = None, 0.0
        self._say("the fault is over")
        self._rest()
        self._see_to_rest()
        if len(self.streams) == 1:  # of two, one may have the checkpoint
            self._see_that_all_works(self.streams[0])
        for stream in self.streams:
            self.begin("stop", stream)
        self._rest()
        left = self.place.processes.working()
        if left:
            self.checker.found.append(f"told, not done: after the last stop there is {left}")
        self.checker.at_the_end()

    def _rest(self) -> None:
        """Let everything come to rest, for so long as it may take."""
        until, quiet = self.clock.now + CALM, self.clock.now
        while self.clock.now < until and self.clock.now - quiet < QUIET:
            self.clock.run(self.clock.now + TICK)
            for deed in self.checker.deeds:
                going_on = self._goes_on(deed)
                quiet = max(quiet, self.clock.now if going_on else deed.ended or deed.begun)

    def _goes_on(self, deed: Deed) -> bool:
        return deed.ended is None and not self._runs[deed].dead

    def begin(self, what: str, stream: Stream, value: Any = None, tries: int = 1) -> Deed:
        """Begin a run of an operation. Who hears that it has failed asks for it again."""
        name = f"{what} {len(self.checker.deeds) + 1}"
        deed = Deed(what, stream, name, self.clock.now, value)
        self.checker.deeds.append(deed)
        self._say(f"{deed.name}{'' if value is None else f' {value}'} of {stream.name!r} begins")

        def act() -> None:
            deed.carry_out(self.place.cluster)
            self._say(repr(deed))
            self.checker.ended(deed)
            again = isinstance(deed.error, ClusterError) and what not in BY_THE_SENSOR
            if again and tries < TRIES:
                pause = self.clock.chance.uniform(1, 40)
                self._at(self.clock.now + pause, lambda: self._again(deed, tries))

        self._runs[deed] = self._on_a_host(name, act)
        return deed

    def _on_a_host(self, name: str, act: Callable[[], Any]) -> Process:
        """Begin a process of Dagster's, on a host whose clock may be wrong."""
        process, network = self.clock.begin(name, act), self.place.network
        mode = network.fault.mode if network.fault else None
        if mode is Clocks.APART and self.clock.chance.random() < self.rate:
            process.ahead = self.clock.chance.choice(OFF)
            network.met[name.partition(" ")[0], mode] += 1
            self._say(f"{name}: its clock is {process.ahead:+.0f} s off")
        return process

    def _clocks_jump(self) -> None:
        """Until the fault is over."""
        chance, network = self.clock.chance, self.place.network
        while network.fault is self.fault:
            if chance.random() < self.rate:
                self.clock.ahead = chance.choice((0.0, *OFF))
                network.met["clock", Clocks.JUMP] += 1
                self._say(f"clocks are {self.clock.ahead:+.0f} s off")
            self.clock.sleep(chance.uniform(10, 110))

    def _again(self, deed: Deed, tries: int) -> None:
        """Ask for what has failed again, unless something else was asked for since."""
        mine = [e for e in self.checker.deeds if (e.what, e.stream) == (deed.what, deed.stream)]
        if mine[-1] is deed:
            self.begin(deed.what, deed.stream, deed.value, tries + 1)

    def _fault_begins(self) -> None:
        self._say(f"from now on: {self.fault.in_words} (of {self.rate:.0%})")
        self.place.network.fault = self.fault
        if self.fault.mode is Clocks.JUMP:
            self.clock.begin("clocks", self._clocks_jump)

    def _happens(self, what: str, stream: Stream) -> None:
        chance = self.clock.chance
        if what == "dies":
            self._dies(stream)
        elif what == "own" and stream.kind == "structured":
            self.begin("reconfigure", stream, chance.choice((2, 4, 8, 16)))
        elif what == "own":
            self.begin("move", stream, (chance.randrange(3), chance.choice(("0", "1"))))
        elif what in ("rescale", "limit"):
            first, second = (float(chance.randint(1, 6)) for _ in range(2))
            self.begin(what, stream, _value(what, first))
            if chance.random() < 0.5:  # somebody changes their mind
                later = self.clock.now + chance.uniform(11, 40)
                self._at(later, lambda: self.begin(what, stream, _value(what, second)))
        else:
            deed = self.begin(what, stream)
            if chance.random() < 0.3:  # so does somebody else
                self.begin(chance.choice(("start", "restart", "stop")), stream)
            if what == "stop":  # for a while
                later = self.clock.now + chance.uniform(10, 60)
                self._at(later, lambda: self.begin("start", stream))
            if chance.random() < 0.2:
                self._at(self.clock.now + chance.uniform(0, 20), lambda: self._killed(deed))

    def _dies(self, stream: Stream) -> None:
        for it in self.place.processes.working():
            if it.stream == stream.name:
                self._say(f"{it} is killed")
                self.place.processes.end(it, "killed by signal 9")
                self.checker.died(it)

    def _killed(self, deed: Deed) -> None:
        if deed.ended is None:
            self._say(f"the run {deed.name} is killed")
            self.clock.kill(self._runs[deed])

    def _begun(self, it: Any) -> None:
        self._say(f"{it} begins to work")
        self.checker.begun(it)

    # The sensor.

    def _ticks(self) -> None:
        tick: Process | None = None
        while True:
            self.checker.watch()
            if tick is None or not tick.lives:
                tick = self._on_a_host("tick", self._look)
            self.clock.sleep(TICK)

    def _look(self) -> None:
        cluster = self.place.cluster
        with contextlib.suppress(ClusterError):  # of these a tick tells, and goes on
            cluster.store().streams()
            cluster.capacity()
        for stream in self.streams:
            seen = assess_or_say_why(
                stream,
                look(cluster, stream, timeout=5.0),
                capabilities=CAPABILITIES,
                now=time.time(),
                operation=self._in_flight(stream),
            )
            self.seen[stream.name] = seen
            self._say(f"the sensor: {seen}")
            if isinstance(seen.decision, Restart):
                self.begin("recover", stream, seen.epoch)
            elif isinstance(seen.decision, ScaleTo):
                self.begin("autoscale", stream, (seen.decision.target, seen.epoch))

    def _in_flight(self, stream: Stream) -> str | None:
        """As `dagster_sparkscale.in_flight`, to which the run of a killed process goes on."""
        now = self.clock.now
        for deed in reversed(self.checker.deeds):
            if deed.stream is not stream or deed.ended is not None:
                continue
            if now - deed.begun < TAKES_LEASE:
                return deed.name
            try:
                if is_held(self.place.cluster.store(), stream.name, time.time()):
                    return deed.name
            except ClusterError:
                return deed.name
        return None

    # The end.

    def _see_to_rest(self) -> None:
        for deed in self.checker.deeds:
            if self._goes_on(deed):
                self.checker.found.append(f"without a word: {deed.name} has not ended")
        for stream in self.streams:
            runs = [it for it in self.place.processes.working() if it.stream == stream.name]
            seen = self.seen.get(stream.name)
            if runs:
                self.checker.visible(runs[0], seen)
                continue
            why = str(seen.decision.reason) if seen is not None else ""
            wanted = is_to_run(self.checker.deeds, stream.name)
            self._say(f"{stream.name!r} is down: {why}")
            if not why or seen is None or seen.state not in ("stopped", "failed", "not started"):
                self.checker.found.append(f"down: {stream.name!r}, {seen and seen.state}: {why}")
            elif wanted and len(self.streams) == 1:
                self.checker.found.append(f"down: {stream.name!r} was to run; {why}")

    def _see_that_all_works(self, stream: Stream) -> None:
        asked: list[tuple[str, Any]] = [("start", None), ("rescale", 3), ("limit", 700.0)]
        own = ("reconfigure", 8) if stream.kind == "structured" else ("move", (0, "1"))
        for what, value in (*asked, ("restart", None), own):
            deed = self.begin(what, stream, value)
            self._rest()
            self.checker.all_is_well(deed)
        if not self.place.processes.working():
            self.checker.found.append(f"down: {stream.name!r}, which was started at the end")

    def _at(self, moment: float, act: Callable[[], Any]) -> None:
        self.clock.begin("what happens", act, moment - self.clock.now)

    def _say(self, line: str) -> None:
        self.story.append(f"{self.clock.now:8.1f}  {line}")


def _value(what: str, number: float) -> float:
    return int(number) if what == "rescale" else 100 * number


def play(fault: Fault, seed: int, rate: float | None = None) -> Played:
    """Play one schedule.

    Args:
        rate: the share of calls that meet the fault; None: the seed chooses.
    """
    return Play(fault, seed, rate).play()
