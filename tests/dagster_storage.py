"""A plugin of pytest: Dagster's databases, as the tests make them by the thousand.

Each process of tests has Alembic read once the some 90 files that it needs to find the newest
revision of a database, and SQLAlchemy find out once how the tables of one in memory are made.

Connections to one database in memory share a cache, where one that reads a table keeps another from
writing it, and no time is waited (dagster#18727): here they read without that lock.
"""

import sqlite3
from collections.abc import Iterator

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import MetaData, event
from sqlalchemy.engine import Connection, Engine

_read = ScriptDirectory.from_config
_known: dict[str | None, ScriptDirectory] = {}


_create_all = MetaData.create_all
_statements: dict[MetaData, str] = {}


def _known_or_read(config: Config) -> ScriptDirectory:
    place = config.get_main_option("script_location")
    if place not in _known:
        _known[place] = _read(config)
    return _known[place]


def _created_or_copied(tables: MetaData, bind: Connection, **named: object) -> None:
    """Create all tables; in memory, where Dagster has none yet, by the statements of the first
    time."""
    in_memory = "mode=memory" in str(bind.engine.url)
    if in_memory and tables in _statements:
        bind.connection.executescript(_statements[tables])
        return
    _create_all(tables, bind, **named)
    if in_memory:
        made = bind.exec_driver_sql("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        _statements[tables] = ";\n".join(made.scalars())


@pytest.fixture(scope="session", autouse=True)
def what_they_are_like_is_found_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", _known_or_read)
        patch.setattr(MetaData, "create_all", _created_or_copied)
        yield


def _without_locks_of_readers(connection: object, _: object) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA read_uncommitted = 1")


@pytest.fixture(scope="session", autouse=True)
def who_reads_in_memory_bars_no_writer() -> Iterator[None]:
    event.listen(Engine, "connect", _without_locks_of_readers)
    yield
    event.remove(Engine, "connect", _without_locks_of_readers)
