"""A database server on a free port of the loopback interface. It ends with who has started it."""

import shutil
import subprocess
import time
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

import sqlalchemy
from sqlalchemy.exc import DBAPIError

from dev.daemons import Daemons, tail
from dev.processes import port_to_use

START_SECONDS = 120.0
END_SECONDS = 30.0
HOST, USER = "127.0.0.1", "dagster"


class NotStarted(RuntimeError):
    """A server can't be had here, or did not come up; says why."""


class Server(Daemons):
    """Not started yet. What it keeps is gone with its folder.

    Args:
        folder: takes its data and its log.
    """

    KIND: str
    """What dagster.yaml calls it."""
    SCHEME: str
    """What the address begins with by which its administrator is known, up to the host."""
    AT = ""
    """The database that is there from the beginning, behind the host."""
    FIRST: Sequence[str]
    """What is executed once it answers."""
    MORE = ""
    """More of what dagster.yaml says of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.port = port_to_use(0)
        self._process: subprocess.Popen[bytes] | None = None

    # What each does its own way.

    @abstractmethod
    def make(self) -> None:
        """Make the data folder.

        Raises:
            NotStarted: that failed.
        """

    @abstractmethod
    def command(self) -> Sequence[str]:
        """What runs in the foreground."""

    # What follows from that.

    def create(self, database: str) -> None:
        """Create an empty database, once the server answers."""
        self.execute(f"CREATE DATABASE {database}")

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self) -> None:
        """Start it where it was, and wait until it takes connections.

        Raises:
            NotStarted: it can't be had, or has ended.
        """
        if shutil.which("setpriv") is None:
            raise NotStarted("there is no setpriv, by which it ends with who has started it")
        if not self.log.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            self.make()
        self._process = self.run(self.command())
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise NotStarted(f"{self.KIND} does not answer:\n{tail(self.log, 20)}")
            time.sleep(0.05)

    def storage(self, database: str) -> str:
        """The storage of a dagster.yaml."""
        return (
            f"storage:\n  {self.KIND}:\n    {self.KIND}_db:\n"
            f"      {{hostname: {HOST}, port: {self.port}, username: {USER}, password: '', "
            f"db_name: {database}{self.MORE}}}\n"
        )

    def end(self) -> None:
        """End it at once: nothing of it is kept."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def run(self, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        with open(self.log, "ab") as log:
            return subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def finish(self, command: Sequence[str]) -> None:
        """Run something to its end.

        Raises:
            NotStarted: it has failed.
        """
        process = self.run(command)
        try:
            code = process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if code:
            raise NotStarted(f"{command[0]} ended with {code}:\n{tail(self.log, 20)}")

    def execute(self, *statements: str) -> None:
        """
        Raises:
            DBAPIError: the server refuses one, or does not answer.
        """
        engine = sqlalchemy.create_engine(
            f"{self.SCHEME}@{HOST}:{self.port}{self.AT}", poolclass=sqlalchemy.pool.NullPool
        )
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for statement in statements:
                connection.execute(sqlalchemy.text(statement))

    def _answers(self) -> bool:
        try:
            self.execute(*self.FIRST)
        except DBAPIError:  # it is starting up
            return False
        return True
