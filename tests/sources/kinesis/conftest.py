"""Fixtures: two emulators, streams on them, and a proxy in front of them.

`emulator`, and with it `stream` and `proxy`, comes in turn as each of the two. A test for one only:
`@pytest.mark.parametrize("emulator", ["kinesis-mock"], indirect=True)`. On Spark, `ONE` and
`SECOND_APART` (structured.py) say which.
"""

import itertools
import re
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from dagster_sparkscale.sources.kinesis import shard_plan
from dev.kinesis import Emulator, client, create_stream, start
from tests.releases import has
from tests.sources.kinesis.proxy import FaultProxy
from tests.sources.kinesis.stream import Stream
from tests.sources.kinesis.structured import local_session

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def kinesis_mock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with start("kinesis-mock", tmp_path_factory.mktemp("kinesis") / "kinesis-mock.log") as running:
        yield running


@pytest.fixture(scope="session")
def kinesalite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with start("kinesalite", tmp_path_factory.mktemp("kinesis") / "kinesalite.log") as running:
        yield running


@pytest.fixture(params=["kinesis-mock", "kinesalite"])
def emulator(request: pytest.FixtureRequest) -> Emulator:
    """The emulator that `stream` and `proxy` are of."""
    running: Emulator = request.getfixturevalue(request.param.replace("-", "_"))
    return running


@pytest.fixture
def stream(request: pytest.FixtureRequest, emulator: Emulator) -> Iterator[Callable[..., Stream]]:
    """Makes streams of a given number of shards, each with a name of its own; deletes them."""
    writer = client(emulator.url, attempts=1)
    made: list[str] = []
    test = re.sub(r"[^A-Za-z0-9]+", "-", request.node.originalname)

    def make(shards: int = 1) -> Stream:
        name = f"{test[:100]}-{next(_numbers)}"
        create_stream(writer, name, shards)
        made.append(name)
        return Stream(writer, name)

    yield make
    for name in made:
        writer.delete_stream(StreamName=name)
    writer.close()


@pytest.fixture
def proxy(emulator: Emulator) -> Iterator[FaultProxy]:
    with FaultProxy(emulator.url) as running:
        yield running


@pytest.fixture(scope="package")
def session() -> Iterator[SparkSession]:
    """A SparkSession of this process, shared by all tests of the folder. It knows the source where
    its release of Spark can."""
    with local_session(registered=has("4.0")) as running:
        yield running


@pytest.fixture
def few_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few records go with a plan, so that a few hundred are enough to have it look further."""
    monkeypatch.setattr(shard_plan, "CARRIED_RECORDS", 10)
