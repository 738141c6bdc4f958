"""Daemons of Hadoop on the loopback interface, as processes of this machine.

What must not change: all that a rig has started carries its mark, and ends with it, whatever
becomes of the process that wanted it: a keeper keeps the daemons, and ends when its standard input
does (`kept`, `keep`).
"""

import argparse
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from dagster_sparkscale.clusters.host.processes import carrying, kill_all
from dagster_sparkscale.clusters.java import java_home
from dev import jars
from dev.daemons import Daemons, Keeper, tail
from dev.hadoop.settings import MARK
from dev.installing import InstallFailed
from dev.processes import KILL_SECONDS

_JAVA = (
    *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"),
    *("--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.net=ALL-UNNAMED"),
)
_LOG = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
"""
START_SECONDS = 120.0
LOCK = Path(__file__).parent / "jars.lock"
_JARS = jars.CACHE / "hadoop" / "jars"


class RigFailed(RuntimeError):
    """A daemon did not come up; carries the end of its log."""


class HadoopRig(Daemons):
    """Daemons that are not started yet.

    Args:
        folder: takes settings, logs and what the daemons store.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.mark = secrets.token_hex(8)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @abstractmethod
    def told(self) -> str:
        """Where it is, in one line, for whoever started the keeper."""

    def conf(self, name: str) -> Path:
        """The folder with the settings of one daemon, made anew; it logs to its standard error."""
        conf = self.folder / name / "conf"
        conf.mkdir(parents=True)
        (conf / "log4j.properties").write_text(_LOG)
        return conf

    def launch(self, name: str, main: str, *arguments: str) -> None:
        """Start the daemon `name`, whose settings are there, by its main class."""
        home = self.folder / name
        env = {**os.environ, "JAVA_HOME": str(java_home()), MARK: self.mark}
        for variable in ("HADOOP_HOME", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
            env.pop(variable, None)
        with open(home / "log", "ab") as log:
            self._running[name] = subprocess.Popen(
                [
                    *(str(java_home() / "bin" / "java"), *_JAVA),
                    *(f"-Dhadoop.home.dir={home}", f"-Djava.io.tmpdir={home}"),
                    *("-cp", f"{home / 'conf'}:{jars.install(LOCK, _JARS)}/*", main, *arguments),
                ],
                env=env,
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """Kill a daemon, as where its machine fails."""
        self._running.pop(name).kill()

    def end(self) -> None:
        """End all daemons and containers. Harmless when they have ended already."""
        for process in self._running.values():
            process.kill()
            process.wait()
        self._running.clear()
        # Containers outlive their NodeManager, and may start more while they are killed.
        what = f"they belong to {self.folder}"
        kill_all(lambda: carrying(MARK, self.mark.__eq__), what, KILL_SECONDS)

    def ended(self) -> str | None:
        """The name of a daemon that has ended although nobody ended it."""
        return next((name for name, each in self._running.items() if each.poll() is not None), None)

    def wait_until(self, what: str, there: Callable[[], bool]) -> None:
        """Wait for what the daemons come to.

        Raises:
            RigFailed: one has ended, or it takes too long.
        """
        deadline = time.monotonic() + START_SECONDS
        while not there():
            name = self.ended()
            if name or time.monotonic() > deadline:
                log = self.folder / (name or next(iter(self._running))) / "log"
                raise RigFailed(f"waited for {what}; the end of {log}:\n{tail(log)}")
            time.sleep(0.1)

    def run(self, name: str, main: str, *arguments: str) -> None:
        """Have a program of the daemon `name` done, before that is started.

        Raises:
            RigFailed: it has ended with another exit code than 0, or takes too long.
        """
        self.launch(name, main, *arguments)
        process = self._running[name]
        try:
            code: int | None = process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        if code != 0:
            log = self.folder / name / "log"
            raise RigFailed(f"{main} {' '.join(arguments)}: the end of {log}:\n{tail(log)}")
        del self._running[name]


@contextmanager
def kept(module: str, folder: Path, *options: str) -> Iterator[str]:
    """What a rig tells that is kept by a process of its own, `python -m` that module, which ends it
    with this context or with this process.

    Raises:
        RigFailed: it did not come up; carries what it said.
    """
    log = folder.parent / f"{folder.name}.log"
    with Keeper(log, module, "--folder", str(folder), *options) as keeper:
        if (line := keeper.told()) is None:
            raise RigFailed(log.read_text(errors="replace"))
        yield line


def parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """Of the options that all keepers have."""
    options = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("--folder", type=Path, help="default: a temporary one")
    options.add_argument("--tethered", action="store_true", help="end when standard input does")
    return options


def keep(
    make: Callable[[Path], HadoopRig], prefix: str, folder: Path | None, tethered: bool
) -> int:
    """Keep a rig in the foreground, until SIGTERM, Ctrl-C, the end of a daemon, or, if tethered, of
    the standard input. Prints what it tells. Returns an exit code.

    Args:
        folder: None: a temporary one, whose name begins with `prefix`.
    """
    # What waits for the end of a signal handler ends all the same.
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    try:
        with tempfile.TemporaryDirectory(prefix=prefix) as temporary:
            rig = make(folder or Path(temporary))
            with rig:
                print(rig.told(), flush=True)
                while (name := rig.ended()) is None:
                    ready = select.select([sys.stdin] if tethered else [], [], [], 1.0)[0]
                    if ready and not sys.stdin.readline():
                        return 0
                print(f"{name} has ended", file=sys.stderr)
    except (InstallFailed, RigFailed) as error:
        print(error, file=sys.stderr)
    return 1


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)
