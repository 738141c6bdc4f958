"""One play of the ten streams: all is started, lives under load and faults, and is looked over."""

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from dagster_sparkscale import LocalCluster
from dagster_sparkscale.clusters.host import processes
from dagster_sparkscale.clusters.records.leases import is_held
from demo.load import OrderServer
from dev import kinesis
from dev.kafka import client as kafka
from dev.kafka.broker import Broker
from dev.processes import port_to_use
from dev.toxiproxy.proxy import Toxiproxy
from tests.e2e.ten import load, memory, ticks
from tests.e2e.ten.dagster_side import Dagster
from tests.e2e.ten.faults import Faults
from tests.e2e.ten.hands import Hands
from tests.e2e.ten.places import Places
from tests.faults.real.working import working
from tests.soaking import Soak
from tests.waiting import wait_for

FAULTS_APART = (45.0, 100.0)
DEEDS_APART = (100.0, 200.0)
"""Seconds from the end of one to the begin of the next, drawn between these."""
DAGSTER_DIES = (0.02, 0.05, 0.08)
"""When one of Dagster's processes is killed, as shares of the time: before memory is compared."""
QUIET = 30.0
"""Seconds without a fault at the end."""
STARTED_WITHIN = 600.0
RUNS_WITHIN = 600.0
READ_WITHIN = 600.0
ORDERS = ("receivers", "pressed")
DSTREAMS = (*ORDERS, "folders")
WRITES_WITHIN = 120.0
"""Seconds in which a DStream that runs has written something."""


class Ten:
    """Args:
    folder: takes all that is written.
    """

    def __init__(self, folder: Path, soak: Soak) -> None:
        self.folder, self.seconds, self.chance = folder, 60 * soak.minutes, soak.chance
        self.seed = soak.seed
        self.found: list[str] = []
        """What must not be, in words."""
        self.report: dict[str, Any] = {"seed": soak.seed, "seconds": self.seconds}
        self._loads: list[list[Any]] = []

    def play(self) -> None:
        with ExitStack() as stack:
            try:
                self._bring_up(stack)
                self._start_streams()
                with self._measured(), self._watched():
                    self._live()
                self._see_that_all_runs()
                self._see_that_all_was_read()
                self._stop_streams()
                self._look_over_dagster()
            finally:
                self._report_of_memory()
        self._see_that_nothing_is_left()

    # What runs.

    def _bring_up(self, stack: ExitStack) -> None:
        temporary = self.folder / "tmp"
        temporary.mkdir()
        os.environ["TMPDIR"] = str(temporary)
        given = os.environ.get("JDK_JAVA_OPTIONS", "")
        os.environ["JDK_JAVA_OPTIONS"] = f"{given} -Djava.io.tmpdir={temporary}".strip()
        kinesis.stay_away_from_aws(os.environ)
        toxiproxy = stack.enter_context(Toxiproxy(self.folder))
        behind = port_to_use(0)
        link = toxiproxy.link("kafka", f"127.0.0.1:{behind}")
        through = behind, int(link.address.rpartition(":")[2])
        broker = stack.enter_context(Broker(self.folder / "broker", through))
        emulator = stack.enter_context(kinesis.start("kinesis-mock", self.folder / "kinesis.log"))
        to_kinesis = toxiproxy.link("kinesis", emulator.url.removeprefix("http://"))
        servers = {name: OrderServer() for name in ORDERS}
        for server in servers.values():
            stack.callback(server.close)
        self.places = Places(
            folder=str(self.folder),
            kafka=link.address,
            kinesis=f"http://{to_kinesis.address}",
            ports={name: server.port for name, server in servers.items()},
        )
        os.environ[Places.VARIABLE] = json.dumps(asdict(self.places))
        os.environ["PYTHONPATH"] = os.pathsep.join(
            filter(None, [os.environ.get("PYTHONPATH"), str(Path(__file__).parents[3])])
        )
        # Only now: it reads the environment.
        from tests.e2e.ten import location

        self.cluster: LocalCluster = location.cluster
        self.names = list(location.NAMES)
        for topic in location.TOPICS:
            kafka.create_topic(broker.address, topic, location.PARTITIONS)
        kinesis.create_stream(emulator.client(), "kinesis", location.PARTITIONS)
        self.load = load.Load(self.places, broker.address, emulator.url, servers)
        self.load.start()
        stack.callback(self.load.end)
        stack.callback(self.cluster.shutdown, force=True)
        self.dagster = Dagster(self.folder)
        stack.callback(self.dagster.end)
        self.dagster.start()
        self.cluster.prepare()
        links = {"kafka": link, "limited": link, "kinesis": to_kinesis}
        seed = self.seed
        self.faults = Faults(
            self.cluster, self.dagster, links, self.names, random.Random(f"faults {seed}")
        )
        self.hands = Hands(self.dagster, self.names, random.Random(f"hands {seed}"))

    def _start_streams(self) -> None:
        """Two at a time: on two processors all at once would keep each other from starting."""
        waiting = [*self.names]
        while waiting:
            pair, waiting = waiting[:2], waiting[2:]
            for name, run_id in [(each, self.dagster.materialize(each)) for each in pair]:
                run = self.dagster.ended(run_id, STARTED_WITHIN)
                print(f"{time.strftime('%H:%M:%S')} started {name}: {run.status.value}", flush=True)
                assert run.is_success, f"{name} did not start: {run_id}"

    # The hour.

    def _live(self) -> None:
        begun = time.monotonic()
        over = threading.Event()
        deeds = threading.Thread(target=self._noted, args=(lambda: self._by_hand(over),))
        deeds.start()
        dies = [self.seconds * share for share in DAGSTER_DIES]
        try:
            while True:
                pause = self.chance.uniform(*FAULTS_APART)
                if dies and time.monotonic() - begun + pause > dies[0]:
                    pause = max(0.0, dies[0] - (time.monotonic() - begun))
                longest = 75.0 + QUIET
                if time.monotonic() - begun + pause + longest > self.seconds:
                    break
                time.sleep(pause)
                self.dagster.check()
                if dies and time.monotonic() - begun >= dies[0]:
                    dies.pop(0)
                    self.faults.next_of_dagster()
                else:
                    self.faults.next()
        finally:
            time.sleep(max(0.0, self.seconds - (time.monotonic() - begun)))
            over.set()
            deeds.join()

    def _by_hand(self, over: threading.Event) -> None:
        last = time.monotonic() + self.seconds - 120.0
        while not over.wait(self.chance.uniform(*DEEDS_APART)) and time.monotonic() < last:
            self.hands.next()

    @contextmanager
    def _measured(self) -> Iterator[None]:
        pids = {"daemon": "daemon", "code server": "code server", "web server": "web server"}
        self.memory = memory.Memory(
            lambda: {kind: self.dagster.pid(name) for kind, name in pids.items()}, self.folder
        )
        self.memory.start()
        self.begun = time.time()
        self.report["begun"] = self.begun
        stored = self.dagster.stored()
        try:
            yield
        finally:
            self.memory.end()
            self.until = time.time()
            self.report["stored bytes"] = self.dagster.stored() - stored

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """No two drivers work on one checkpoint meanwhile."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(3.0):
                self._noted(self._look)

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()

    def _look(self) -> None:
        for name in self.names:
            # One that is about to be refused has taken it for a moment, too.
            if len(working(self.cluster, name)) > 1:
                time.sleep(1.0)
                if len(two := working(self.cluster, name)) > 1:
                    self._find(f"two drivers of {name}: {two}")
        at = round(time.time() - self.begun, 1)
        if not self._loads or at - self._loads[-1][0] > 14:
            self._loads.append([at, *(round(self.load.level(name), 2) for name in self.names)])

    def _noted(self, do: Callable[[], None]) -> None:
        """Do it; what it fails of is found, as nobody sees it else."""
        try:
            do()
        except Exception as error:
            self._find(f"not watched: {error!r}")

    def _find(self, what: str) -> None:
        if what not in self.found:
            print(f"{time.strftime('%H:%M:%S')} FOUND: {what}", flush=True)
            self.found.append(what)

    # What must be so in the end.

    def _see_that_all_runs(self) -> None:
        last: dict[str, dict[str, Any]] = {}

        def all_run() -> bool:
            nonlocal last
            last = self.dagster.status()
            return all(self._runs(last[name]) for name in self.names)

        with suppress(AssertionError):
            wait_for("all streams to run", all_run, RUNS_WITHIN, every=10)
        self.report["in the end"] = {
            name: {key: last[name][key] for key in ("state", "health", "reason", "gave_up")}
            for name in self.names
        }
        for name in self.names:
            if not self._runs(last[name]):
                told = last[name]["failure"] or last[name]["waits"] or last[name]["failing"]
                self._find(f"{name} does not run: {told or 'and nothing says why'}")
        for name in DSTREAMS:
            age = load.age(self.places.of(name) / "out")
            if age > WRITES_WITHIN:
                self._find(f"{name} has written nothing for {age:.0f} s")

    def _runs(self, seen: dict[str, Any]) -> bool:
        return seen["state"] == "running" and bool(seen["registered"]) and not seen["stuck_for"]

    def _see_that_all_was_read(self) -> None:
        self.load.end()
        self.load.calm()
        if self.load.unheard:
            self._find(f"not all could be put: {self.load.unheard[:3]}")
        self.report["sent"] = dict(self.load.sent)
        for name in load.COUNTED:
            with suppress(AssertionError):
                wait_for(f"{name} to be read", partial(self._is_read, name), READ_WITHIN, every=2)
            if why := self._unread(name):
                self._find(f"{name}: {why}")
        with suppress(AssertionError):
            wait_for("keys to be counted", lambda: self.load.keys.right, READ_WITHIN, every=2)
        if not self.load.keys.right:
            self._find("keys: not all were counted, each once")
        for name in load.PACED:
            values = load.written(self.places, name)
            if set(values) != set(map(str, range(len(values)))) or max(values.values()) > 1:
                self._find(f"{name}: a value of its source is missing, or there twice")

    def _is_read(self, name: str) -> bool:
        return not self._unread(name)

    def _unread(self, name: str) -> str:
        """What is wrong with the records that a stream has read; empty: each is there once."""
        there = load.written(self.places, name)
        wanted = {f"{name} {number}" for number in range(self.load.sent[name])}
        twice = sum(count > 1 for count in there.values())
        wrong = {
            "are missing": len(wanted - set(there)),
            "are there twice": twice,
            "were never put": len(set(there) - wanted),
        }
        return ", ".join(f"{count} records {what}" for what, count in wrong.items() if count)

    def _stop_streams(self) -> None:
        waiting = [*self.names]
        for _ in range(3):  # one is refused as long as another operation is in progress
            runs = {name: self.dagster.launch("stop", name) for name in waiting}
            ended = {name: self.dagster.ended(run, RUNS_WITHIN) for name, run in runs.items()}
            waiting = [name for name, run in ended.items() if not run.is_success]
        for name in waiting:
            self._find(f"{name} did not stop: run {ended[name].run_id}")
        store = self.cluster.store()
        for name in self.names:
            if left := processes.marked(f"{name}::"):
                self._find(f"{name} was stopped, and has processes: {left}")
            if is_held(store, name, time.time()):
                self._find(f"the lease of {name} is held")

    def _look_over_dagster(self) -> None:
        instance, until = self.dagster.instance, self.until
        made = ticks.ticks(instance, self.begun, until, self.faults.played)
        self.report["ticks"] = asdict(made)
        for lost in made.lost:
            self._find(f"a tick was lost: {lost}")
        all_ticks = ticks.between(instance, self.begun, until)
        good = [each.timestamp for each in all_ticks if ticks.ended_well(each)]
        begun = [each.timestamp for each in all_ticks]
        told = {
            name: ticks.told(instance, name, self.begun, until, good, begun, self.faults.played)
            for name in self.names
        }
        self.report["told"] = {name: asdict(each) for name, each in told.items()}
        for name, each in told.items():
            for what in each.found:
                self._find(f"{name}: {what}")

    def _report_of_memory(self) -> None:
        """Keep what was measured, whatever has happened."""
        if not hasattr(self, "memory"):
            return
        samples = self.memory.samples
        kinds = memory.compared(samples, self.begun, self.seconds) if samples else {}
        self.report |= {
            "kinds": memory.kinds_as_json(kinds),
            "samples": memory.as_json(samples),
            "heaps": memory.heaps(self.folder),
            "faults": [
                [
                    *(round(at - self.begun, 1) for at in (each.began, each.ended)),
                    each.what,
                    each.of,
                ]
                for each in self.faults.played
            ],
            "deeds": [
                [round(d.at - self.begun, 1), d.what, d.stream, d.came] for d in self.hands.done
            ],
            "loads": self._loads,
            "streams": self.names,
            "found": self.found,
        }

    def _see_that_nothing_is_left(self) -> None:
        def left() -> list[str]:
            found = []
            for process in psutil.process_iter():
                with suppress(psutil.Error):
                    line = " ".join(process.cmdline())
                    is_ours = str(self.folder) in line + process.environ().get("TMPDIR", "")
                    if is_ours and process.pid != os.getpid():
                        found.append(f"{process.pid}: {line[:200]}")
            return found

        with suppress(AssertionError):
            wait_for("all processes to end", lambda: not left(), 60, every=1)
        for each in left():
            self._find(f"left behind: {each}")
        temporary = sorted(each.name for each in (self.folder / "tmp").iterdir())
        self.report["temporary"] = temporary
        self.report["found"] = self.found
