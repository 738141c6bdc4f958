"""A stream's life on a real local cluster, of which the calls are damaged on their way.

It is started, rescaled, its state reconfigured, restarted, stopped and started again, while its
driver dies and runs are killed; the sensor has what has failed restarted. Then the damage is over;
what is left must come to rest, and stop. What must hold, is told by processes, files and what the
query has counted, not by who has carried it out:

    two drivers         one driver at most works on the checkpoint
    done twice          no operation launches two drivers
    told, not done      what was told as done is so, where nothing else was asked for meanwhile
    without a word      every operation that was not killed ends, and says what it came to
    down                in the end the stream runs, or what people see of it says why not
    lost                every line was counted, and none twice
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import psutil

from dagster_sparkscale import LocalCluster, RatioPolicy, State, StructuredStream
from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.records.leases import is_held
from dagster_sparkscale.lifecycle.reconcile import Action
from dagster_sparkscale.lifecycle.recovery import Restart
from dagster_sparkscale.state.reconfigure import Reconfigured
from dagster_sparkscale.watch.assess import Assessment, assess_or_say_why
from dagster_sparkscale.watch.sighting import look
from tests.driver.state.counted import PROGRAM, Counting
from tests.e2e.soak_faults import drivers, kill
from tests.faults.checker import LAUNCHES, is_to_run
from tests.faults.deeds import Deed
from tests.faults.kinds import EVERYWHERE, RATES, Fault, Mode
from tests.faults.real.reached import Damage, Run
from tests.faults.real.watched import RESTARTED_AT_ONCE, Record, recovers
from tests.waiting import wait_for

LIFE = ("rescale", "reconfigure", "restart", "dies", "rescale", "stop", "killed", "reconfigure")
PARTITIONS = (2, 4, 8)
GROUPS = 16
TICK = 5.0
"""Seconds between two evaluations."""
FAULTS = {
    f"calls-{f.name.partition('-')[2]}": f
    for f in (*(Fault(EVERYWHERE, m) for m in Mode), Fault(EVERYWHERE))
}
"""By the names of the faults of real parts."""
SEEDS = (1, 2)
"""Of the lives that are played of each."""


def play(cluster: LocalCluster, folder: Path, name: str, record: Record) -> None:
    operations = damaged = 0
    for seed in SEEDS:
        (own := folder / str(seed)).mkdir()
        life = Life(cluster, own, f"{name.replace('-', '_')}_{seed}", FAULTS[name], seed)
        life.play(record)
        operations += len(life.runs)
        damaged += sum(life.met.values())
    told = f"{operations} operations in {len(SEEDS)} lives; {damaged} calls were damaged"
    record("seen", told)


class Life:
    def __init__(
        self, cluster: LocalCluster, folder: Path, name: str, fault: Fault, seed: int
    ) -> None:
        self.cluster, self.fault = cluster, fault
        self.chance = Random(seed)
        self.rate = self.chance.choice(RATES)
        self.counting = Counting(folder)
        self.stream = StructuredStream(
            name=name,
            program=str(PROGRAM),
            arguments=(str(folder),),
            batch_interval="1s",
            executor_memory="512m",
            driver_memory="512m",
            checkpoint_location=str(self.counting.checkpoint),
            autoscale=RatioPolicy(interval=10, max_executors=3),
            recovery=RESTARTED_AT_ONCE,
            state=State(key_groups=GROUPS, partitions=4),
        )
        self.runs: list[Run] = []
        self.found: list[str] = []
        """What must not be, in words."""
        self.seen: Assessment | None = None
        """What people see of it."""
        self.damaged = True
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    @property
    def met(self) -> Counter[str]:
        return sum((run.met for run in self.runs), Counter())

    @property
    def deeds(self) -> list[Deed]:
        return [run.deed for run in self.runs]

    def play(self, record: Record) -> None:
        try:
            with self._watched():
                self._live()
                self.damaged = False
                recovers(record, "everything to come to rest", self._rests, seconds=600)
                self._see_to_the_end()
            stop = self._begin("stop")
            stop.follow()
            assert not stop.deed.failed and not self._working(), stop.deed
            assert self.counting.right or not self.counting.put, "lost: not all was counted once"
        finally:
            for run in self.runs:
                run.kill()
                run.end()
            for thread in self._threads:
                thread.join()
            for pid in self._drivers():
                kill(pid)
        assert not self.found, "\n".join(map(str, (*self.found, *self.deeds)))

    def _live(self) -> None:
        self._begin_and_wait("start")
        life = list(LIFE)
        self.chance.shuffle(life)
        for what in life:
            self.counting.feed()
            if self.chance.random() < 0.7:  # most of it is refused of a stream that has just begun
                with suppress(AssertionError):
                    wait_for("the stream to run again", self._rests, 90)
            if what == "dies":
                for pid in self._drivers():
                    kill(pid)
            elif what == "killed":
                run = self._begin("restart")
                time.sleep(self.chance.uniform(0, 10))
                run.kill()
            elif what == "stop":
                self._begin_and_wait("stop")
                self._begin_and_wait("start")
            else:
                value = {"rescale": range(1, 4), "reconfigure": PARTITIONS}.get(what)
                run = self._begin(what, self.chance.choice(value) if value else None)
                if self.chance.random() < 0.5:  # or the next one begins beside it
                    self._wait(run)

    def _begin_and_wait(self, what: str) -> None:
        self._wait(self._begin(what))

    def _wait(self, run: Run) -> None:
        wait_for(f"{run.deed.name} to end", lambda: run.deed.ended or not run.lives, 600)

    def _begin(self, what: str, value: Any = None) -> Run:
        with self._lock:
            name = f"{what}-{len(self.runs) + 1}"
            deed = Deed(what, self.stream, name, time.monotonic(), value)
            rate = self.rate if self.damaged else 0.0
            run = Run(deed, self.cluster, Damage(self.fault, rate, self.chance.randrange(1 << 30)))
            self.runs.append(run)
        following = threading.Thread(target=self._followed, args=(run,))
        following.start()
        self._threads.append(following)
        return run

    def _followed(self, run: Run) -> None:
        run.follow()
        deed = run.deed
        print(f"{time.monotonic():.1f} {deed}", flush=True)
        if deed.failed and not str(deed.error).strip():
            self.found.append(f"without a word: {deed}")
        elif deed.ended is not None and not deed.failed and (why := self._not_done(deed)):
            self.found.append(f"told, not done: {why} ({deed})")

    # What is watched all the while.

    @contextmanager
    def _watched(self) -> Iterator[None]:
        over = threading.Event()

        def watch() -> None:
            ticked = 0.0
            while not over.wait(0.3):
                working = self._working()
                if len(working) > 1:
                    self.found.append(f"two drivers: {working}")
                if time.monotonic() - ticked > TICK:
                    self._tick()
                    ticked = time.monotonic()

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()

    def _tick(self) -> None:
        with suppress(ClusterError):
            self.cluster.prepare()
        self.seen = seen = assess_or_say_why(
            self.stream,
            look(self.cluster, self.stream, timeout=5.0),
            capabilities=CAPABILITIES,
            now=time.time(),
            operation=self._in_flight(),
        )
        if isinstance(seen.decision, Restart):
            self._begin("recover", seen.epoch)

    def _in_flight(self) -> str | None:
        """As `dagster_sparkscale.in_flight`: also that of a killed run whose lease is not over."""
        going_on = next((run for run in self.runs if run.deed.ended is None and run.lives), None)
        if going_on is not None:
            return going_on.deed.name
        held = is_held(self.cluster.store(), self.stream.name, time.time())
        return "a run that was killed" if held else None

    def _drivers(self) -> list[int]:
        """The processes of the stream's drivers."""
        folder = f"{self.cluster.state_path()}/streams/{self.stream.name}/"
        return [pid for pid in drivers(str(self.cluster.state_path())) if _names(pid, folder)]

    def _working(self) -> list[int]:
        """The epochs of drivers that are there and have taken the checkpoint."""
        streams = self.cluster.store().folder(self.stream.name)
        alive = self._drivers()
        epochs = {start.epoch for start in self.cluster.history(self.stream.name)}
        return [
            epoch
            for epoch in sorted(epochs)
            if any(_names(pid, f"{streams.submission(epoch).path}/") for pid in alive)
            and streams.submission(epoch).has_taken_its_checkpoint()
        ]

    # What must be so.

    def _not_done(self, deed: Deed) -> str | None:
        """What is not as an operation has told, where no other went on beside it."""
        beside = [e for e in self.deeds if e is not deed and (e.ended or 1e18) >= deed.begun]
        if beside:
            return None
        if deed.what == "stop":
            return f"there is {left}" if (left := self._working()) else None
        if deed.what in ("start", "restart", "recover"):
            if deed.came.action in (Action.HELD, Action.ATTACHED):
                return None
            launched = [start.epoch for start in self.cluster.history(self.stream.name)]
            return None if launched[-1] == deed.came.launched else f"the last start is {launched}"
        with suppress(ClusterError):
            driver = self.cluster.find(self.stream.name)
            status = self.cluster.status(driver) if driver is not None else None
            if status is None or status.epoch != deed.came.driver.epoch:
                return None
            if deed.what == "rescale" and deed.came.ending == "reached":
                return None if status.requested == deed.value else f"{status.requested} requested"
            if deed.what == "reconfigure" and isinstance(deed.came, Reconfigured):
                has = self.counting.partitions()
                return None if has == deed.value else f"the state has {has} partitions"
        return None

    def _rests(self) -> bool:
        if any(run.deed.ended is None and run.lives for run in self.runs) or self.seen is None:
            return False
        if self.seen.state != "running":
            return not isinstance(self.seen.decision, Restart) and self.seen.waits is None
        return bool(self.seen.sighting.status and self.seen.sighting.status.batches)

    def _see_to_the_end(self) -> None:
        seen = self.seen
        assert seen is not None
        if seen.state != "running":
            why = str(seen.decision.reason)
            print(f"down: {seen.state}: {why}", flush=True)
            if not why or is_to_run(self.deeds, self.stream.name):
                self.found.append(f"down: {seen.state}: {why}")
            self.damaged = False
            self._begin_and_wait("start")
        self.counting.feed()
        wait_for("all lines to be counted", lambda: self.counting.right, 300)
        assert len(self._working()) == 1, "a driver that works is not seen"
        causes = Counter(start.cause for start in self.cluster.history(self.stream.name))
        for deed in self.deeds:
            if causes[deed.name] > LAUNCHES.get(deed.what, 0):
                self.found.append(f"done twice: {deed}")
        for run in self.runs:
            if run.deed.ended is None and run.lives:
                self.found.append(f"without a word: {run.deed} has not ended")


def _names(pid: int, path: str) -> bool:
    with suppress(psutil.Error):
        return any(word.startswith(path) for word in psutil.Process(pid).cmdline())
    return False
