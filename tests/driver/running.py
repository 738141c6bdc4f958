"""Starts real Spark processes and real drivers, and ends every one of them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pyspark
import requests

from dagster_sparkscale.clusters.local import LocalCluster
from dagster_sparkscale.observe.end_report import EndReport, Stopped, read_end_report, read_stopped
from dagster_sparkscale.observe.status import Status
from tests.waiting import HANGS, wait_for

TOKEN = "a-token-of-some-length-5e1c"
SECRET = "a-password-nobody-may-see"
EPOCH = 7
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a process that leads a group of its own, with all its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(HANGS)


class Cluster:
    """The LocalCluster of the tests, for drivers that a test starts by itself."""

    def __init__(self, local: LocalCluster) -> None:
        self.master = local._master()
        self._work = (local.state_path() / "cluster" / "work").resolve()
        self._access = local._access()

    @contextlib.contextmanager
    def driver(
        self,
        folder: Path,
        program: Path,
        *arguments: str,
        initial: int = 1,
        most: int = 0,
        settings: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Iterator["Driver"]:
        """A driver of this cluster, killed when the context ends.

        Args:
            most: executors that it may have, if those are more than the initial ones. Standalone
                launches all of them, and those that are too many are ended before they register.
        """
        given = {"spark.executor.cores": 1, **(settings or {})}
        settings = {
            "spark.master": self.master,
            "spark.cores.max": max(initial, most) * given["spark.executor.cores"],
            "spark.driver.host": "127.0.0.1",
            **self._access,
            **given,
        }
        more |= {"initial": initial, "settings": settings, "work": self._work}
        driver = Driver(folder, program, *arguments, **more)
        try:
            yield driver
        finally:
            driver.kill()


@contextlib.contextmanager
def local_driver(folder: Path, program: Path, *arguments: str, **more: Any) -> Iterator["Driver"]:
    """A driver without executors, of two cores; killed when the context ends."""
    settings = {"spark.master": "local[2]", **more.pop("settings", {})}
    driver = Driver(folder, program, *arguments, settings=settings, **more)
    try:
        yield driver
    finally:
        driver.kill()


Start = Callable[..., contextlib.AbstractContextManager["Driver"]]
"""How a driver is started: `local_driver`, or `Cluster.driver`."""


def _folders() -> Iterator[tuple[psutil.Process, Path]]:
    """Processes and the folders they run in."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            yield process, Path(process.cwd())


def stop_report(driver: "Driver") -> Stopped:
    """How a driver has ended that was asked to stop, by the file beside its announcement."""
    return read_stopped((driver.folder / "stopped.json").read_bytes())


def end_report(driver: "Driver") -> EndReport:
    """The whole report of a driver, in its file and in its log."""
    report = read_end_report((driver.folder / "last-words").read_text())
    assert report is not None and report == read_end_report(driver.log())
    return report


def environment(**more: str) -> dict[str, str]:
    return {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        **more,
    }


class Driver:
    """A real `python -m dagster_sparkscale.driver`."""

    def __init__(
        self,
        folder: Path,
        program: Path,
        *arguments: str,
        settings: Mapping[str, Any],
        initial: int = 1,
        interval_ms: int = 1000,
        work: Path | None = None,
        env: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.log_file = folder / "driver.log"
        self.targets: list[int] = []
        """The numbers of executors it has been asked for since it was started."""
        self._work = work
        token = folder / "token"
        token.write_text(TOKEN)
        properties = folder / "spark.properties"
        properties.touch(0o600)
        lines = {
            "spark.executor.cores": 1,
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.ui.port": 0,
            "spark.decommission.enabled": "true",
            "spark.storage.decommission.enabled": "true",
            "spark.storage.decommission.rddBlocks.enabled": "true",
            "spark.storage.decommission.shuffleBlocks.enabled": "true",
            "spark.storage.decommission.replicationReattemptInterval": "1s",
            "spark.hadoop.some.password": SECRET,
            **settings,
        }
        properties.write_text("".join(f"{key} {value}\n" for key, value in lines.items()))
        with self.log_file.open("wb") as output:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "dagster_sparkscale.driver", "--stream", "tested"),
                    *("--epoch", str(EPOCH), "--interval-ms", str(interval_ms)),
                    *("--initial-executors", str(initial), "--token-file", str(token)),
                    *("--record", "tested-record", "--last-words", str(folder / "last-words")),
                    *("--announce", str(folder / "agent.json"), *options),
                    *(str(program), *arguments),
                ],
                env=environment(
                    PYSPARK_SUBMIT_ARGS=f"--properties-file {properties} pyspark-shell",
                    PYTHONUNBUFFERED="1",  # as all that launches a driver has it
                    **(env or {}),
                ),
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def kill(self) -> None:
        end(self.process)

    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def announced(self) -> dict[str, Any]:
        def read() -> dict[str, Any] | None:
            assert self.process.poll() is None, f"the driver has ended\n{self.log()}"
            path = self.folder / "agent.json"
            return json.loads(path.read_text()) if path.exists() else None

        return wait_for("the agent to be announced", read, 120, about=self.log) or {}

    def ask(
        self, method: str, path: str, body: Any = None, token: str = TOKEN
    ) -> requests.Response:
        url = self.announced()["url"] + path
        try:
            return requests.request(
                method, url, json=body, headers={"Authorization": f"Bearer {token}"}, timeout=HANGS
            )
        except requests.ConnectionError:
            # That of a driver that is ending: its log says why.
            wait_for("its end", lambda: not self.lives(), 10, about=self.log)
            raise AssertionError(f"the driver has ended\n{self.log()}") from None

    def status(self, query: str = "") -> Status:
        answer = self.ask("GET", f"/v1/status{query}")
        assert answer.status_code == 200, answer.text
        return Status.from_json(answer.content)

    def wait(self, condition: Callable[[Status], Any], what: str, seconds: float = 120) -> Status:
        """Wait until the driver reports something; returns that report."""
        last: Status | None = None

        def reported() -> Status | None:
            nonlocal last
            last = self.status()
            return last if condition(last) else None

        found = wait_for(what, reported, seconds, about=lambda: f"{last}\n{self.log()[-6000:]}")
        assert found is not None
        return found

    def lives(self) -> bool:
        return self.process.poll() is None

    def scale(self, target: int) -> requests.Response:
        """Set a target. On a busy machine Spark may take longer than the agent waits for it: the
        target stands then, and is stated again."""

        def asked() -> list[requests.Response]:
            answer = self.ask("PUT", "/v1/executors", {"target": target, "epoch": EPOCH})
            return [] if "gave no answer in time" in answer.text else [answer]

        self.targets.append(target)
        [answer] = wait_for("Spark to be told", asked, about=self.log)
        return answer

    def scaled(self, target: int) -> Status:
        """Set a target and wait until it is reached."""
        answer = self.scale(target)
        assert answer.status_code == 200, answer.text
        return self.wait(
            lambda s: s.registered == target and s.removing == 0, f"{target} executors", 120
        )

    def stop(self, graceful: bool = True, timeout: float = HANGS) -> None:
        body = {"graceful": graceful, "epoch": EPOCH, "timeout": timeout}
        answer = self.ask("POST", "/v1/stop", body)
        assert answer.status_code == 202, answer.text

    def exit_code(self, seconds: float = 120) -> int:
        wait_for("the end", lambda: self.process.poll() is not None, seconds, about=self.log)
        assert self.process.returncode is not None
        return self.process.returncode

    def executor_process(self, executor: str) -> psutil.Process:
        app = self.status().app_id
        assert self._work is not None and app is not None
        # By its folder: another cluster may have given an application the same id.
        for process, folder in _folders():
            with contextlib.suppress(psutil.Error):
                if folder == self._work / app / executor and EXECUTOR in process.cmdline():
                    return process
        raise AssertionError(f"no process of executor {executor}")
