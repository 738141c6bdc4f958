"""A whole Dagster: code server, daemon and web server as processes of their own, each of which can
be killed, and is then started again, as whoever looks after such processes does it. It stores in
Postgres, as is advised for more than a few streams."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
import sqlalchemy
import yaml

from dev.dagster_ui import DagsterUI
from dev.databases.postgres import Postgres
from dev.processes import Children, port_to_use
from tests.waiting import HANGS, wait_for

ROOT = Path(__file__).parents[3]
LOCATION = "streams"
MODULE = "tests.e2e.ten.location"
DATABASE = "dagster"


class Dagster:
    """Args:
    folder: takes its home, its database and its logs.

    Raises:
        NotStarted: there is no Postgres here.
    """

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self._database = Postgres(folder / "database")
        self._database.start()
        self._database.create(DATABASE)
        settings = (ROOT / "dagster.yaml").read_text()
        (self.home / "dagster.yaml").write_text(settings + self._database.storage(DATABASE))
        os.environ["DAGSTER_HOME"] = str(self.home)
        self.instance = dg.DagsterInstance.from_config(str(self.home))  # makes the tables
        self._children = Children(folder / "processes.json", folder / "logs")
        self._grpc, web = port_to_use(0), port_to_use(0)
        served = {"host": "localhost", "port": self._grpc, "location_name": LOCATION}
        loaded = {"module_name": MODULE, "location_name": LOCATION}
        # The second one is for commands, which load the code themselves.
        self._workspace = self._file("workspace.yaml", {"grpc_server": served})
        self._of_commands = self._file("sparkscale.yaml", {"python_module": loaded})
        python = [sys.executable, "-m"]
        self._commands = {
            "code server": [
                *(*python, "dagster", "api", "grpc", "-m", MODULE, "-h", "localhost"),
                *("-p", str(self._grpc), "--location-name", LOCATION, "--max-workers", "8"),
            ],
            "daemon": [*python, "dagster._daemon", "run", "-w", str(self._workspace)],
            "web server": [
                *(*python, "dagster_webserver", "-h", "127.0.0.1", "-p", str(web)),
                *("-w", str(self._workspace)),
            ],
        }
        self._pids: dict[str, int] = {}
        self.ui = DagsterUI(f"http://127.0.0.1:{web}")

    def start(self) -> None:
        self.start_again("code server")
        wait_for("the code server", self._serves, HANGS)
        self.start_again("daemon")
        self.start_again("web server")
        self.location = self.ui.wait_until_loaded(HANGS, lambda: None)

    def _serves(self) -> bool:
        with suppress(OSError), socket.create_connection(("localhost", self._grpc), 1.0):
            return True
        return False

    def _file(self, name: str, location: dict[str, Any]) -> Path:
        path = self.home / name
        path.write_text(yaml.safe_dump({"load_from": [location]}))
        return path

    def start_again(self, name: str) -> None:
        self._pids[name] = self._children.start(name, self._commands[name], os.environ, ROOT)

    def pid(self, name: str) -> int:
        return self._pids[name]

    def kill(self, name: str) -> None:
        """Kill -9, with the runs that are its children where it is the code server."""
        os.killpg(self._pids[name], signal.SIGKILL)
        self._children.end(name)

    def process(self, name: str) -> psutil.Process:
        return psutil.Process(self._pids[name])

    def check(self) -> None:
        ended = self._children.ended()
        assert ended is None, f"{ended}: {self._children.log_tail(ended[0])}"

    def end(self) -> None:
        self._children.end("daemon", "web server", "code server")
        self.instance.dispose()
        self._database.end()

    def stored(self) -> int:
        """Bytes of all that Dagster has stored, indexes included."""
        storage: Any = self.instance.event_log_storage
        with storage.index_connection() as connection:
            size = connection.execute(
                sqlalchemy.text("SELECT pg_database_size(current_database())")
            )
            return int(size.scalar_one())

    def launch(self, job: str, stream: str, **config: Any) -> str:
        """Launch a run as a person does in the launchpad; returns its id."""
        given = {"ops": {job: {"config": {"stream": stream, **config}}}}
        return self.ui.launch(self.location, job, given)

    def materialize(self, stream: str) -> str:
        return self.ui.materialize(self.location, stream)

    def ended(self, run_id: str, seconds: float) -> dg.DagsterRun:
        def over() -> dg.DagsterRun | None:
            run = self.instance.get_run_by_id(run_id)
            return run if run and run.is_finished else None

        run = wait_for(f"run {run_id} to end", over, seconds, every=1)
        assert run is not None
        return run

    def command(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """`sparkscale` with these words, as in a terminal."""
        return subprocess.run(
            [sys.executable, "-m", "dagster_sparkscale", *words, "-w", str(self._of_commands)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=HANGS,
        )

    def status(self) -> dict[str, dict[str, Any]]:
        """What `sparkscale status` says, by stream."""
        said = self.command("status", "--json")
        return {each["stream"]: each for each in json.loads(said.stdout)}
