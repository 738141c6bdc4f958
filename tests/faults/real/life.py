"""A stream's life on a real local cluster, of which the calls are damaged on their way.

It is started, rescaled, its state reconfigured, restarted, stopped and started again, while its
driver dies and runs are killed; the sensor has what has failed restarted. Then the damage is over;
what is left must come to rest, and stop. What must hold:

    two drivers         one driver at most works on the checkpoint, by the processes that there are
    done twice          no operation has launched a driver more than it may
    told, not done      what was told as done is so, where nothing else was asked for meanwhile
    without a word      every operation that was not killed ends, and says what it came to
    down                in the end the stream runs, or what people see of it says why not
    lost                every line was counted, and none twice
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import psutil

from dagster_sparkscale import LocalCluster, RatioPolicy, State, StructuredStream
from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host import processes
from dagster_sparkscale.clusters.records.leases import is_held
from dagster_sparkscale.lifecycle.reconcile import Action
from dagster_sparkscale.lifecycle.recovery import Restart
from dagster_sparkscale.state.plan import Settled
from dagster_sparkscale.state.reconfigure import CAUSE
from dagster_sparkscale.watch.assess import Assessment, assess_or_say_why
from dagster_sparkscale.watch.sighting import look
from tests.driver.state.counted import PROGRAM, Counting
from tests.faults.checker import LAUNCHES, is_to_run
from tests.faults.deeds import Deed
from tests.faults.kinds import EVERYWHERE, Fault, Mode
from tests.faults.real.reached import Damage, Run
from tests.faults.real.watched import RESTARTED_AT_ONCE, Record
from tests.faults.real.working import is_driver, processes_of, working
from tests.waiting import wait_for

LIFE = ("rescale", "reconfigure", "restart", "dies", "rescale", "stop", "killed", "reconfigure")
EXECUTORS = range(1, 4)
PARTITIONS = (2, 4, 8)
GROUPS = 16
TICK = 5.0
"""Seconds between two evaluations."""
AN_OPERATION = 900.0
"""Seconds that one has to end."""
FAULTS = {
    f"calls-{f.name.partition('-')[2]}": f
    for f in (*(Fault(EVERYWHERE, m) for m in Mode), Fault(EVERYWHERE))
}
"""By the names of the faults of real parts."""
RATES = {1: 0.05, 2: 0.15}
"""The share of calls that are damaged, by the seeds of the lives that are played of each."""
RATES_OF_LONG = {1: 0.02, 2: 0.04}
"""Of faults by which an operation stands still for a minute or two each time."""
LONG = (None, Mode.ANSWERS_AFTER_LEASE)
AT_REST = ("stopped", "failed", "not started")
"""Besides running."""
CHANGING = ("launching", "kill", "clear", "swap")
"""Calls that do something, by how their names begin."""


def play(cluster: LocalCluster, folder: Path, name: str, record: Record) -> None:
    met, operations, seconds, fault = Counter[str](), 0, 0.0, FAULTS[name]
    for seed, rate in (RATES_OF_LONG if fault.mode in LONG else RATES).items():
        (own := folder / str(seed)).mkdir()
        stream = f"{name.replace('-', '_')}_{seed}"
        life = Life(cluster, own, stream, fault, rate)
        seconds = max(seconds, life.play())
        operations += len(life.runs)
        met += life.met
    print(dict(met), flush=True)
    assert met, "no call was damaged"
    changing = sum(n for call, n in met.items() if call.partition(".")[2].startswith(CHANGING))
    record("seconds", round(seconds, 1))
    record(
        "seen",
        f"{operations} operations in {len(RATES)} lives; {sum(met.values())} calls were damaged, "
        f"{changing} of them to launch, kill, clear away or note something",
    )


@dataclass(frozen=True)
class Step:
    """One of `LIFE`, as it is drawn before anything happens."""

    what: str
    value: int | None
    after_rest: bool
    """Whether the stream is to run again first: of one that has just begun most is refused."""
    alone: bool
    """Whether its end is awaited; or the next one begins beside it."""
    killed_after: float
    """Seconds."""


def _drawn(chance: Random) -> Iterator[Step]:
    for what in chance.sample(LIFE, len(LIFE)):
        values = {"rescale": EXECUTORS, "reconfigure": PARTITIONS}.get(what)
        value = chance.choice(values) if values else None
        often, half = chance.random() < 0.7, chance.random() < 0.5
        yield Step(what, value, often, half, chance.uniform(0, 10))


class Life:
    def __init__(
        self, cluster: LocalCluster, folder: Path, name: str, fault: Fault, rate: float
    ) -> None:
        self.cluster, self.fault, self.rate = cluster, fault, rate
        self.counting = Counting(folder)
        checkpoints = self.counting.checkpoint
        self.counting.checkpoint = checkpoints / self.counting.place.name  # the query's name
        self.stream = StructuredStream(
            name=name,
            program=str(PROGRAM),
            arguments=(str(folder),),
            batch_interval="1s",
            executor_memory="512m",
            driver_memory="512m",
            checkpoint_location=str(checkpoints),
            autoscale=RatioPolicy(interval=10, max_executors=3),
            recovery=RESTARTED_AT_ONCE,
            state=State(key_groups=GROUPS, partitions=4),
        )
        self.runs: list[Run] = []
        self.found: list[str] = []
        """What must not be, in words."""
        self.seen: tuple[float, Assessment] | None = None
        """What people see of it, and since when."""
        self._touched = 0.0
        """When something was last done to it."""
        self._stopped = False
        """Whether it was stopped for good."""
        self._fed = 0
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    @property
    def met(self) -> Counter[str]:
        return sum((run.met for run in self.runs), Counter())

    @property
    def deeds(self) -> list[Deed]:
        return [run.deed for run in self.runs]

    def play(self) -> float:
        """Live; returns the seconds from the end of the damage until all was at rest."""
        try:
            with self._watched():
                self._live()
                self.rate = 0.0
                begun = time.monotonic()
                self._late_calls_are_over()
                wait_for("everything to come to rest", self._rests, 600)
                seconds = time.monotonic() - begun
                self._see_to_the_end()
                stop = self._begin_and_wait("stop")
                self._followed_to_the_end()
                assert stop.deed.ended and not stop.deed.failed, stop.deed
                self._stopped = True
                time.sleep(TICK)  # for whoever watches
            assert self.counting.right, "lost: not all was counted once"
        except AssertionError as error:
            self._find(str(error))
        finally:
            for run in self.runs:
                run.kill()
            self._followed_to_the_end()
            processes.kill_all(lambda: processes_of(self.stream.name), "")
        assert not self.found, "\n".join(map(str, (*self.found, *self.deeds)))
        return seconds

    def _live(self) -> None:
        self._begin_and_wait("start")
        for step in _drawn(Random(self.stream.name)):
            self._feed()
            if step.after_rest:
                with suppress(AssertionError):
                    wait_for("the stream to run again", self._rests, 90)
            if step.what == "dies":
                for process in filter(is_driver, processes_of(self.stream.name)):
                    with suppress(psutil.Error):
                        process.kill()
                self._touched = time.monotonic()
            elif step.what == "killed":
                run = self._begin("restart")
                run.begun.wait()
                time.sleep(step.killed_after)
                run.kill()
            elif step.what == "stop":
                self._begin_and_wait("stop")
                self._begin_and_wait("start")
            else:
                run = self._begin(step.what, step.value)
                if step.alone:
                    self._wait(run)

    def _feed(self) -> None:
        self._fed += 1
        self.counting.feed(keys=40 + self._fed)  # a file lost and another counted twice show

    def _begin_and_wait(self, what: str) -> Run:
        run = self._begin(what)
        self._wait(run)
        return run

    def _wait(self, run: Run) -> None:
        wait_for(f"{run.deed.name} to end", lambda: run.over, AN_OPERATION)

    def _begin(self, what: str, value: Any = None) -> Run:
        with self._lock:
            name = f"{what}-{len(self.runs) + 1}"
            deed = Deed(what, self.stream, name, time.monotonic(), value)
            damage = Damage(self.fault, self.rate, f"{self.stream.name} {name}")
            run = Run(deed, self.cluster, damage)
            self.runs.append(run)
            following = threading.Thread(target=self._noted, args=(lambda: self._followed(run),))
            self._threads.append(following)
        following.start()
        return run

    def _followed(self, run: Run) -> None:
        run.follow()
        deed, self._touched = run.deed, time.monotonic()
        print(f"{time.monotonic():.1f} {deed}", flush=True)
        if run.crashed or (deed.failed and not str(deed.error).strip()):
            self._find(f"without a word: {deed}")
            return
        why = None if deed.failed or deed.ended is None else self._not_done(deed)
        if why is not None and not self._beside(deed):  # still
            self._find(f"told, not done: {why} ({deed})")

    def _followed_to_the_end(self) -> None:
        for thread in [*self._threads]:
            thread.join()

    def _late_calls_are_over(self) -> None:
        """What operations have left to be carried out later has been."""
        for run in [*self.runs]:
            run.end()

    # What is watched all the while.

    @contextmanager
    def _watched(self) -> Iterator[None]:
        over = threading.Event()

        def again(do: Callable[[], None], every: float) -> None:
            while not over.wait(every):
                self._noted(do)

        watching = [
            threading.Thread(target=again, args=(self._tick, TICK)),
            threading.Thread(target=again, args=(self._look_for_two(), 0.3)),
        ]
        for each in watching:
            each.start()
        try:
            yield
        finally:
            over.set()
            for each in watching:
                each.join()

    def _noted(self, do: Callable[[], None]) -> None:
        """Do it; what it fails of is found, as nobody sees it else."""
        try:
            do()
        except Exception as error:
            self._find(f"not watched: {error!r}")

    def _look_for_two(self) -> Callable[[], None]:
        before: list[str] = []

        def once() -> None:
            nonlocal before
            now = working(self.cluster, self.stream.name)
            # One that is about to be refused has taken it for a moment, too.
            if len(now) > 1 and len(before) > 1:
                self._find(f"two drivers: {now}")
            if now and self._stopped:
                self._find(f"began after a stop: {now}")
            before = now

        return once

    def _find(self, what: str) -> None:
        if what not in self.found:
            self.found.append(what)

    def _tick(self) -> None:
        with suppress(ClusterError):
            self.cluster.prepare()
        began = time.monotonic()
        seen = assess_or_say_why(
            self.stream,
            look(self.cluster, self.stream, timeout=5.0),
            capabilities=CAPABILITIES,
            now=time.time(),
            operation=self._in_flight(),
        )
        self.seen = began, seen
        if isinstance(seen.decision, Restart) and not self._stopped:
            self._begin("recover", seen.epoch)

    def _in_flight(self) -> str | None:
        """The operation that goes on, or that of a killed run whose lease is not over."""
        going_on = next((run for run in self.runs if run.over is None), None)
        if going_on is not None:
            return going_on.deed.name
        held = is_held(self.cluster.store(), self.stream.name, time.time())
        return "a run that was killed" if held else None

    # What must be so.

    def _beside(self, deed: Deed) -> list[Deed]:
        """The operations that went on beside one, or have come since."""
        return [
            run.deed
            for run in self.runs
            if run.deed is not deed and (run.over is None or run.over >= deed.begun)
        ]

    def _not_done(self, deed: Deed) -> str | None:
        """What is not as an operation has told, where no other went on beside it."""
        if self._beside(deed):
            return None
        if deed.what == "stop":
            return f"there is {left}" if (left := working(self.cluster, self.stream.name)) else None
        if deed.what in ("start", "restart", "recover"):
            if deed.came.action is Action.HELD:
                return None if deed.came.reason else "it was held, and says not why"
            if deed.came.action is Action.ATTACHED:
                return None
            launched = [start.epoch for start in self.cluster.history(self.stream.name)]
            return None if launched[-1] == deed.came.launched else f"the last start is {launched}"
        if deed.what == "rescale" and deed.came.ending == "superseded":
            return "it was superseded by nobody"
        if isinstance(deed.came, Settled):
            return self._not_divided_into(deed.value)
        with suppress(ClusterError):
            driver = self.cluster.find(self.stream.name)
            status = self.cluster.status(driver) if driver is not None else None
            if status is None or status.epoch != deed.came.driver.epoch:
                return None
            if deed.what == "rescale" and deed.came.ending == "reached":
                return None if status.requested == deed.value else f"{status.requested} requested"
            if deed.what == "reconfigure":
                return self._not_divided_into(deed.value)
        return None

    def _not_divided_into(self, partitions: int) -> str | None:
        """How many partitions the state has, unless it is so many; None, too, while it has none."""
        if not (self.counting.checkpoint / "offsets").is_dir():
            return None

        def read() -> int | None:
            with suppress(FileNotFoundError, ValueError):  # its query deletes and renames files
                return self.counting.partitions()
            return None

        has = wait_for("a look at the whole checkpoint", read)
        return None if has == partitions else f"the state has {has} partitions"

    def _rests(self) -> bool:
        if self.seen is None or any(run.over is None for run in self.runs):
            return False
        at, seen = self.seen
        if at < self._touched:
            return False
        if seen.state != "running":
            waits = isinstance(seen.decision, Restart) or seen.waits is not None
            return seen.state in AT_REST and not waits
        return bool(seen.sighting.status and seen.sighting.status.batches)

    def _see_to_the_end(self) -> None:
        assert self.seen is not None
        _, seen = self.seen
        if seen.state != "running":
            why = str(seen.decision.reason)
            print(f"down: {seen.state}: {why}", flush=True)
            if not why or is_to_run(self.deeds, self.stream.name):
                self._find(f"down: {seen.state}: {why}")
            self._begin_and_wait("start")
        self._feed()
        wait_for("all lines to be counted", lambda: self.counting.right, 300)
        assert len(working(self.cluster, self.stream.name)) == 1, "a driver that works is not seen"
        causes = Counter(start.cause for start in self.cluster.history(self.stream.name))
        for deed in self.deeds:
            if deed.what in ("start", "restart") and causes[deed.name] > 1:
                self._find(f"done twice: {deed}")
        for cause, what in (("recovery", "recover"), (CAUSE, "reconfigure")):
            most = LAUNCHES[what] * sum(deed.what == what for deed in self.deeds)
            if causes[cause] > most:
                self._find(f"done twice: {causes[cause]} launches by {cause}, not {most}")
