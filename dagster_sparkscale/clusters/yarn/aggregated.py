"""Read a log that YARN has gathered, from the cluster's file system.

    python -m dagster_sparkscale.clusters.yarn.aggregated APPLICATION USER CONTAINER BYTES LOG...

prints the end of the first of these logs that has something in it. A program of its own, for it
needs a JVM; asked for only where no NodeManager and no log server has the log any more.
"""

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from dagster_sparkscale.clusters.yarn.applications import Application, log_in

_SECONDS = 120.0
SELDOM = 10.0
"""Seconds between two readings of one application's log by a tick."""
_asking = threading.Lock()
_asked: dict[str, float] = {}
"""When a tick last read the log of an application, by its id."""


class Later(Exception):
    """The log was not read: somebody read it a moment ago, or another is being read."""


def seldom(
    app: Application, names: tuple[str, ...], size: int, env: Mapping[str, str]
) -> str | None:
    """Read a log as `log` does, but one at a time and seldom: each costs a JVM, and ticks repeat.

    Raises:
        Later: it is not this log's turn.
    """
    if not _asking.acquire(blocking=False):
        raise Later
    try:
        last, now = _asked.get(app.id), time.monotonic()
        if last is not None and now - last < SELDOM:
            raise Later
        _asked[app.id] = now
        return log(app, names, size, env)
    finally:
        _asking.release()


def log(app: Application, names: tuple[str, ...], size: int, env: Mapping[str, str]) -> str | None:
    """The last `size` bytes of the first of the driver's logs that has any; None: none was gathered
    (yet), or it can't be read from here.

    Args:
        env: the environment of a client of the cluster.
    """
    if app.container is None:
        return None
    command = [sys.executable, "-m", __spec__.name, app.id, app.user, app.container, str(size)]
    try:
        done = subprocess.run(
            [*command, *names],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def main() -> int:
    from pyspark.java_gateway import launch_gateway

    application, user, container, size, *names = sys.argv[1:]
    gateway = launch_gateway()
    try:
        yarn = gateway.jvm.org.apache.hadoop.yarn
        records = yarn.api.records
        helper = yarn.logaggregation.LogCLIHelpers()
        helper.setConf(yarn.conf.YarnConfiguration())
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                asked = yarn.logaggregation.ContainerLogsRequest()
                asked.setAppId(records.ApplicationId.fromString(application))
                asked.setAppOwner(user)
                asked.setContainerId(container)
                asked.setContainerState(records.ContainerState.COMPLETE)
                asked.setAppFinished(True)
                asked.setOutputLocalDir(folder)
                asked.setBytes(-int(size))
                types = gateway.jvm.java.util.HashSet()
                types.add(name)
                asked.setLogTypes(types)
                helper.dumpAContainerLogsForLogTypeWithoutNodeId(asked)
                # One for the container, however it calls it.
                for path in filter(Path.is_file, Path(folder).rglob("*")):
                    text = log_in(path.read_text(errors="replace"))
                    if text.strip():
                        print(text)
                        return 0
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
    return 1


if __name__ == "__main__":
    sys.exit(main())
