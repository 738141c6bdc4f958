"""A plugin of pytest: the revisions of Dagster's databases are read once by each process of tests.

Whoever makes one, in memory too, has alembic read some 90 files to find the newest revision of it.
"""

from collections.abc import Iterator

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

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
