"""Real Postgres and MySQL servers as Dagster's storage; each test has an empty database."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import dagster as dg
import pytest

from dev.databases.mysql import MySQL
from dev.databases.postgres import Postgres
from dev.databases.server import NotStarted, Server
from tests.watch.conftest import clock as clock

KINDS: dict[str, type[Server]] = {"postgres": Postgres, "mysql": MySQL}
_NUMBERS = count()


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with started(KINDS[request.param], tmp_path_factory.mktemp("db") / "server") as there:
        yield there


@contextmanager
def started(kind: type[Server], folder: Path) -> Iterator[Server]:
    """A server; the test is skipped where none can be had."""
    there = kind(folder)
    try:
        try:
            there.start()
        except NotStarted as error:
            pytest.skip(f"{there.KIND} can't be had here: {error}")
        yield there
    finally:
        there.end()


@pytest.fixture
def home(server: Server, tmp_path: Path) -> Path:
    """A DAGSTER_HOME whose storage is an empty database of the server."""
    return home_of(server, tmp_path / "home")


def home_of(server: Server, folder: Path, more: str = "") -> Path:
    """
    Args:
        more: of what dagster.yaml says of the database, as `, params: {...}`.
    """
    database = f"dagster_{next(_NUMBERS)}"
    server.create(database)
    folder.mkdir()
    queue = "run_coordinator:\n  module: dagster._core.run_coordinator\n"
    queue += "  class: QueuedRunCoordinator\ntelemetry:\n  enabled: false\n"
    storage = server.storage(database).replace(f"db_name: {database}", f"db_name: {database}{more}")
    (folder / "dagster.yaml").write_text(storage + queue)
    return folder


@pytest.fixture
def instance(home: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.from_config(str(home)) as made:
        yield made
