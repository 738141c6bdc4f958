"""A plugin of pytest: Dagster's databases, as the tests make them by the thousand.

Alembic reads some 90 files to find the newest revision of a database, also of one in memory: each
process of tests has it read them once. And connections to one database in memory share a cache,
where one that reads a table keeps another from writing it, and no time is waited (dagster#18727):
here they read without that lock.
"""

import sqlite3
from collections.abc import Iterator

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import event
from sqlalchemy.engine import Engine

_read = ScriptDirectory.from_config
_known: dict[str | None, ScriptDirectory] = {}


def _known_or_read(config: Config) -> ScriptDirectory:
    place = config.get_main_option("script_location")
    if place not in _known:
        _known[place] = _read(config)
    return _known[place]


@pytest.fixture(scope="session", autouse=True)
def revisions_are_read_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", _known_or_read)
        yield


def _without_locks_of_readers(connection: object, _: object) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA read_uncommitted = 1")


@pytest.fixture(scope="session", autouse=True)
def who_reads_in_memory_bars_no_writer() -> Iterator[None]:
    event.listen(Engine, "connect", _without_locks_of_readers)
    yield
    event.remove(Engine, "connect", _without_locks_of_readers)
