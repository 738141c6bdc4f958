"""A broker for all tests of this process, and Spark's connector where there is one."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from dagster_sparkscale.clusters.local import LocalCluster
from dagster_sparkscale.driver.spark.releases import minor
from dev.kafka import client
from dev.kafka.broker import Kept, tethered
from dev.kafka.connector import WORKS_ON
from tests.kafka.following import Following

Topic = Callable[..., str]


def _plain(request: pytest.FixtureRequest) -> str:
    """The test's name, also with parameters, in letters that a topic and a stream may have."""
    return re.sub(r"\W", "_", request.node.name)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    """A real broker. A test that stops it starts it again."""
    if minor(pyspark.__version__) not in WORKS_ON:
        pytest.skip(f"the connector works on Spark {' and '.join(WORKS_ON)}")
    with tethered(tmp_path_factory.mktemp("kafka") / "broker") as broker:
        yield broker


@pytest.fixture(scope="session")
def records(kafka: Kept) -> client.Records:
    return client.Records(kafka.address)


@pytest.fixture
def topic(kafka: Kept, request: pytest.FixtureRequest) -> Topic:
    """Makes a topic of this test's own; returns its name."""
    made = iter("abcdefgh")

    def make(partitions: int = 1) -> str:
        name = f"{next(made)}.{_plain(request)[:80]}"
        client.create_topic(kafka.address, name, partitions)
        return name

    return make


@pytest.fixture
def follow(
    kafka: Kept, local_cluster: LocalCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> Callable[..., Following]:
    """A stream that reads topics, not started yet."""

    def make(topics: str, servers: str | None = None, **more: Any) -> Following:
        name = _plain(request).removeprefix("test_")[:40].strip("_")
        at = servers or kafka.address
        return Following(local_cluster, tmp_path, at, topics, name=name, **more)

    return make
