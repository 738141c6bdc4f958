"""The demo itself: what it starts, what it waits for, and how all of it is ended.

`run.py` is its command. What must not change: every process that is started here is ended by
`Demo.end`, whatever has happened.
"""

import contextlib
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from dagster_sparkscale.clusters.errors import ClusterError
from demo.acts import RECEIVING, RUNS, Acts
from demo.load import PAYMENTS
from demo.report import Report, Run, Tick, run_line, tick_line
from dev import runs
from dev.kinesis import stay_away_from_aws
from dev.processes import Children, port_to_use, read_notes, still_running

ROOT = Path(__file__).resolve().parent.parent
STREAMS = ("clicks", "orders", "visits")
WITH_KAFKA = (*STREAMS, PAYMENTS)
INTERVAL = "15s"
REPORT_EVERY = "15s"
"""So that what is printed here is no older than that."""
POLL_SECONDS = 1.0
T = TypeVar("T")
LOADED_WITHIN = 120.0
# The first time, the emulator of Kinesis is installed, and Kafka.
EMULATED_WITHIN = 660.0
STARTED_WITHIN = 360.0
SETTLED_WITHIN = 180.0


class DemoFailed(Exception):
    """The demo can't go on, or what should have happened has not; the text says what."""


def say(text: str) -> None:
    """Print the time and `text`. Nobody reading any more must not keep the demo from ending what
    it started."""
    lines = text.splitlines() or [""]
    with contextlib.suppress(OSError):
        print(f"{time.strftime('%H:%M:%S')}  {lines[0]}", flush=True)
        for line in lines[1:]:
            print(f"          {line}", flush=True)


class Demo:
    """One play of the demo.

    Args:
        kafka: whether there is a fourth stream, which reads from a Kafka broker.
        go_on: called again and again while something is waited for; raises to end it.
    """

    def __init__(
        self,
        state: Path,
        *,
        headless: bool,
        kafka: bool = False,
        deadline: float,
        patience: float,
        port: int,
        go_on: Callable[[], None] = lambda: None,
    ) -> None:
        self.state = state
        self._go_on = go_on
        self.headless = headless
        self.streams = WITH_KAFKA if kafka else STREAMS
        self.deadline = deadline * patience
        self.patience = patience
        self.port = port
        self.report = Report()
        self.begun = math.inf
        """When the load began, seconds since the epoch."""
        self._load_report = state / "load.json"
        self._go = state / "go"
        self._phase = "waiting"
        self._started: list[str] = []
        """The runs by which this has started streams."""
        self._cluster: Any = None
        state.mkdir()
        self._children = Children(state / "processes.json", state / "logs")
        # The notes begin with this process: a second demo must not start beside it.
        self._children.note("demo", os.getpid())

    def play(self) -> None:
        say(f"State and logs are in {self.state}")
        home = self.state / "dagster"
        home.mkdir()
        shutil.copy(ROOT / "dagster.yaml", home)
        runs.begin(str(self.state))
        os.environ.update(
            DAGSTER_HOME=str(home),
            SPARKSCALE_DATA=str(self.state / "spark"),
            SPARKSCALE_DEMO_INTERVAL=INTERVAL,
            SPARKSCALE_DEMO_REPORT_EVERY=REPORT_EVERY,
        )
        self._start_kinesis()
        if PAYMENTS in self.streams:
            self._start_kafka()
        self._start_load()
        self._start_dagster()

        # Only now: definitions.py reads the environment, and importing takes a while.
        import definitions

        self._cluster = definitions.cluster
        say("Starting the Spark cluster ...")
        self._cluster.prepare()
        say(f"The cluster runs:\n{self._cluster_status()}")
        self._connect()
        self._follow()

    def _start_kinesis(self) -> None:
        """Start an emulator of Kinesis, and have all that is started later use it, not AWS."""
        say("Starting an emulator of Kinesis (the first time, it is installed) ...")
        emulator = [sys.executable, "-m", "dev.kinesis", "--kind", "kinesis-mock"]
        emulator += ["--log", str(self.state / "logs" / "kinesis-mock.log")]
        self._children.start("kinesis", emulator, os.environ, ROOT)
        url = self._wait_for("Kinesis", "kinesis", self._kinesis_url, EMULATED_WITHIN)
        stay_away_from_aws(os.environ)
        os.environ["VISITS_ENDPOINT"] = url

    def _kinesis_url(self) -> str | None:
        lines = self._children.log_tail("kinesis").splitlines()
        return next((line for line in lines if line.startswith("http://")), None)

    def _start_kafka(self) -> None:
        """Start a Kafka broker, and have `definitions.py` declare the stream that reads from it."""
        from dev.kafka.connector import connector

        say("Starting a Kafka broker (the first time, it is installed) ...")
        broker = [sys.executable, "-m", "dev.kafka", "--folder", str(self.state / "kafka")]
        self._children.start("kafka", broker, os.environ, ROOT)
        address = self._wait_for("Kafka", "kafka", self._kafka_address, EMULATED_WITHIN)
        os.environ.update(PAYMENTS_BROKERS=address, KAFKA_CONNECTOR=connector())

    def _kafka_address(self) -> str | None:
        lines = self._children.log_tail("kafka").splitlines()
        return next((line for line in lines if line.startswith("127.0.0.1:")), None)

    def _start_load(self) -> None:
        load = [sys.executable, "-m", "demo.load", "--start-when", str(self._go)]
        load += ["--clicks", str(self.state / "spark" / "clicks")]
        load += ["--kinesis", os.environ["VISITS_ENDPOINT"], "--report", str(self._load_report)]
        if PAYMENTS in self.streams:
            load += ["--kafka", os.environ["PAYMENTS_BROKERS"]]
        self._children.start("load", load, os.environ, ROOT)
        self._wait_for("the load", "load", self._load_report.exists, 60.0)
        os.environ["ORDER_FEED_PORT"] = str(self._load()["port"])

    def _wait_for(self, what: str, child: str, look: Callable[[], T | None], seconds: float) -> T:
        """What `look` returns once that is true."""
        until = time.monotonic() + seconds * self.patience
        while not (found := look()):
            self._check_children()
            if time.monotonic() > until:
                raise DemoFailed(f"{what} did not start:\n{self._children.log_tail(child)}")
            time.sleep(0.1)
        return found

    def _start_dagster(self) -> None:
        import dagster as dg

        # Makes the databases. The webserver and the daemon would both do that, at the same time.
        with dg.DagsterInstance.get():
            pass
        port = port_to_use(self.port)
        self.url = f"http://127.0.0.1:{port}"
        say("Starting Dagster ...")
        workspace = ["-w", str(ROOT / "workspace.yaml")]
        python = [sys.executable, "-m"]
        webserver = [*python, "dagster_webserver", "-h", "127.0.0.1", "-p", str(port), *workspace]
        self._children.start("webserver", webserver, os.environ, ROOT)
        daemon = [*python, "dagster._daemon", "run", *workspace]
        self._children.start("daemon", daemon, os.environ, ROOT)

    def _connect(self) -> None:
        from dev.dagster_ui import DagsterUI

        self._ui = DagsterUI(self.url)
        self._location = self._ui.wait_until_loaded(
            LOADED_WITHIN * self.patience, self._check_children
        )
        say(
            f"Dagster runs. Look at  {self.url}\n"
            f"  {self.url}/assets      the streams as assets: open one, and its events, for R\n"
            f"  {self.url}/runs        every start and rescale, as a run\n"
            f"  {self.url}/automation  the sensor that decides: its ticks say why"
            + ("" if self.headless else "\nCtrl-C ends everything.")
        )

    def _materialize(self, stream: str) -> None:
        run_id = self._ui.materialize(self._location, stream)
        self._started.append(run_id)
        say(f"{stream}: materializing the asset, which starts the stream: run {run_id[:8]}")

    def _cluster_status(self) -> str:
        from dagster_sparkscale.clusters import local

        with contextlib.redirect_stdout(StringIO()) as out:
            local.main(["status", "--state-dir", self._cluster.state_dir])
        return out.getvalue().strip()

    def _follow(self) -> None:
        import dagster as dg

        from demo.follow import Follower

        # One after the other: on two cores, all at once would keep each other's first batches from
        # completing, and the autoscaler would add executors to them.
        starting = list(self.streams)
        self._materialize(starting[0])
        started_until = time.monotonic() + STARTED_WITHIN * self.patience
        settled_until: float | None = None
        with dg.DagsterInstance.get() as instance:
            follower = Follower(instance, self.streams)
            self.report = follower.report
            self._acts = Acts(
                self._cluster,
                partial(self._ui.launch, self._location),
                dict(self._minimums())[RECEIVING],
                lambda: runs.running(str(self.state)),
                self.patience,
            )
            while True:
                self._check_children()
                for news in follower.news():
                    say(tick_line(news) if isinstance(news, Tick) else run_line(news))
                    if isinstance(news, Run):
                        self._check_run(news, starting)
                now = time.monotonic()
                if starting and now > started_until:
                    raise DemoFailed(f"not started in time: {', '.join(starting)}")
                if not starting and settled_until is None:
                    settled_until = now + SETTLED_WITHIN * self.patience
                    say(
                        "All streams run and warm up on a trickle of data. By what it learns "
                        f"(CapacityPolicy) is scaled: {self._learning()}. The others are by R."
                    )
                if settled_until is not None and not self._go.exists():
                    settled = all(self.report.settled(*each) for each in self._minimums())
                    if settled or now > settled_until:
                        say("The load begins, calm at first.")
                        self.begun = time.time()
                        self._go.touch()
                for line in self._acts.next(self.report, self.begun):
                    say(line)
                self._say_phase()
                if self.headless and self._verdict():
                    return
                time.sleep(POLL_SECONDS)

    def _minimums(self) -> list[tuple[str, int]]:
        import definitions

        return [(stream.name, stream.bounds.minimum) for stream in definitions.STREAMS]

    def _learning(self) -> str:
        """The streams whose policy learns."""
        import definitions
        from dagster_sparkscale import CapacityPolicy

        streams = definitions.STREAMS
        return ", ".join(
            each.name for each in streams if isinstance(each.autoscale, CapacityPolicy)
        )

    def _verdict(self) -> bool:
        """Whether all that should happen has happened."""
        missing = self.report.missing(self.streams, self.begun, RUNS)
        if not missing:
            say(
                "Every stream was scaled up and down by tracked runs, and state and receivers were "
                "changed by others."
            )
            return True
        if time.time() > self.begun + self.deadline:
            raise DemoFailed(
                f"within {self.deadline:.0f} s of the load, by runs requested since it began, "
                "this did not happen:\n"
                + "\n".join(missing)
                + "\nOn a machine that is busy with other things it takes longer."
            )
        return False

    def _check_run(self, run: Run, starting: list[str]) -> None:
        # Only the demo's own: what somebody tries in the UI may fail, and the demo goes on.
        if run.run_id not in self._started:
            return
        if run.status != "SUCCESS":
            raise DemoFailed(f"{run.stream} did not start; see {self.url}/runs/{run.run_id}")
        starting.remove(run.stream)
        if starting:
            self._materialize(starting[0])

    def _check_children(self) -> None:
        self._go_on()
        ended = self._children.ended()
        if ended is None:
            return
        name, code = ended
        if name == "load" and code == 0:
            say("The load has ended, as it does after some hours. Ctrl-C ends the rest.")
            self._children.end("load")
        else:
            raise DemoFailed(
                f"{name} has ended by itself (exit code {code}):\n{self._children.log_tail(name)}"
            )

    def _load(self) -> dict[str, Any]:
        load: dict[str, Any] = json.loads(self._load_report.read_text())
        return load

    def _say_phase(self) -> None:
        load = self._load()
        if load["phase"] != self._phase:
            self._phase = load["phase"]
            say(
                f"---- load: {self._phase} ({load['clicks_per_second']:.0f} clicks/s, "
                f"{load['orders_per_second']:.0f} orders/s, "
                f"{load['visits_per_second']:.0f} visits/s"
                f"{self._payments(load)}) ----"
            )

    def _payments(self, load: dict[str, Any]) -> str:
        if PAYMENTS not in self.streams:
            return ""
        return f", {load['payments_per_second']:.0f} payments/s"

    def end(self) -> list[str]:
        """End everything. Returns a line for each process that is left, which should be none."""
        # First what could start something anew, then the streams with what they run on.
        steps: list[tuple[str, Callable[[], None]]] = [
            ("Dagster", lambda: self._children.end("webserver", "daemon")),
            ("the streams and the cluster", self._end_cluster),
            ("the load", lambda: self._children.end("load", "kinesis", "kafka")),
        ]
        for what, step in steps:
            say(f"Ending {what} ...")
            try:
                step()
            except Exception as error:  # the next ones have to be ended all the same
                say(f"Ending {what}: {type(error).__name__}: {error}")
        with contextlib.suppress(ClusterError):
            runs.end(str(self.state))
        return runs.lines(runs.running(str(self.state)))

    def _end_cluster(self) -> None:
        if self._cluster is not None:
            self._cluster.shutdown(force=True)


def write_report(path: Path, report: Report, streams: Sequence[str], since: float) -> None:
    path.write_text(json.dumps(report.to_json(streams, since, RUNS), indent=1) + "\n")
    say(f"{path.name}: {len(report.ticks)} ticks, {len(report.runs)} runs")


def clear_away_earlier(state: Path) -> None:
    """Make room for a fresh state folder. A demo that was killed may have left processes.

    Raises:
        DemoFailed: another demo is running, or the folder is none of a demo.
    """
    notes = read_notes(state / "processes.json")
    demo = notes.get("demo")
    if demo is not None and still_running(*demo):
        raise DemoFailed(f"A demo is running already: process {demo[0]}. End it first.")
    if state.exists():
        if not notes and any(state.iterdir()):
            raise DemoFailed(f"{state} is not from a demo: delete it, or give another --state")
        runs.end(str(state))
        shutil.rmtree(state)
