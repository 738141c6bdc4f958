"""Fixtures: an agent that answers as it is told, and what looks like a Java, a Spark and a maker of
class data."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.agents.http import Connections
from dagster_sparkscale.clusters.class_data import archives
from dagster_sparkscale.clusters.kubernetes.drivers import PodDriver
from dagster_sparkscale.clusters.standalone.remote_driver import RemoteDriver
from dagster_sparkscale.clusters.submitted import SubmittedDriver
from dagster_sparkscale.clusters.yarn.driver import YarnDriver
from tests.clusters.answering import Agent

PACES: dict[type[SubmittedDriver], float] = {
    each: each.EVERY for each in (PodDriver, RemoteDriver, YarnDriver)
}
"""Seconds between two looks at a driver that is awaited, where no test is in a hurry."""


@pytest.fixture(scope="session", autouse=True)
def soon() -> Iterator[None]:
    """What is awaited is looked at more often: a cluster of these tests has nothing else to do."""
    with pytest.MonkeyPatch.context() as patch:
        for each in PACES:
            patch.setattr(each, "EVERY", 0.5)
        yield


@pytest.fixture
def agent() -> Iterator[Agent]:
    agent = Agent()
    yield agent
    agent.close()


@pytest.fixture
def connections() -> Iterator[Connections]:
    connections = Connections()
    yield connections
    connections.close()


@pytest.fixture
def java(tmp_path: Path) -> Path:
    home = tmp_path / "java"
    (home / "lib/server").mkdir(parents=True)
    (home / "lib/server/libjvm.so").write_text("17")
    (home / "bin").mkdir()
    (home / "bin/java").touch()
    (home / "release").write_text(
        'JAVA_VERSION="17.0.15"\nMODULES="java.base jdk.incubator.vector"\n'
    )
    return home


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars/spark-core_2.13-4.3.0.jar").write_text("core")
    (home / "bin").mkdir()
    (home / "bin/spark-submit").touch()
    return home


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "kept"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Archives that take a moment to make instead of minutes; what has been made."""
    made: list[Path] = []

    def make_archive(java: Path, spark: Path, archive: Path) -> None:
        made.append(archive)
        time.sleep(0.2)
        archive.write_text("classes")
        archive.chmod(0o444)

    monkeypatch.setattr(archives, "make_archive", make_archive)
    return made
