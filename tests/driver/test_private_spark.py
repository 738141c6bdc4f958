"""A Spark that lacks some of the private parts that its agent would use."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from py4j import protocol as proto
from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JError, Py4JNetworkError

from dagster_sparkscale.driver.batches.dstreams import DStreams
from dagster_sparkscale.driver.batches.history import History
from dagster_sparkscale.driver.receivers.tracker import NO_RECEIVERS, ReceiverTracker
from dagster_sparkscale.driver.spark import executions, features
from dagster_sparkscale.driver.spark.private import (
    PrivateSpark,
    check_version,
    is_absent,
    of_streaming,
)
from dagster_sparkscale.driver.spark.releases import TESTED
from tests.driver.conftest import PROGRAMS
from tests.driver.running import Cluster


class Packages:
    """A JVM that has no class at all: py4j takes every unknown one for a package."""

    def send_command(self, *_: str) -> str:
        return proto.SUCCESS_PACKAGE


def test_a_spark_without_dstreams_has_no_receivers(capfd: pytest.CaptureFixture[str]) -> None:
    private = PrivateSpark()
    jvm: Any = SimpleNamespace(view=SimpleNamespace(org=JavaPackage("org", Packages(), "d")))
    assert ReceiverTracker(jvm, private).look() == NO_RECEIVERS
    assert DStreams(jvm, History(), private).observe() is None
    assert (private.missing, private.lacks) == (("DStreams",), ("dstreams",))
    assert "".join(capfd.readouterr()).count("this Spark lacks DStreams") == 1


def test_each_feature_has_an_id_of_its_own() -> None:
    of = [each for each in vars(features).values() if isinstance(each, features.Feature)]
    assert len({feature.id for feature in of}) == len(of)


def test_what_fails_for_another_reason_is_not_taken_for_missing() -> None:
    private = PrivateSpark()
    for error in (TypeError("a bug of ours"), Py4JNetworkError("no JVM"), ValueError("no")):

        def fail(error: Exception = error) -> None:
            raise error

        with pytest.raises(type(error)):
            private.use(features.DETAILS, fail, None)
    assert private.missing == ()


def test_nothing_is_tried_again_once_it_is_missing() -> None:
    private, tried = PrivateSpark(), []

    def absent() -> str:
        tried.append(1)
        raise Py4JError("An error occurred: Method none([]) does not exist")

    assert [private.use(features.KILL, absent, "else") for _ in range(3)] == ["else"] * 3
    assert len(tried) == 1
    assert not private.has(features.KILL) and private.has(features.DETAILS)


@pytest.mark.parametrize(
    ("version", "told"), [("3.5.9", False), ("4.3.1", False), ("4.4.0", True), ("5.0", True)]
)
def test_a_release_that_was_not_tested_is_told(
    version: str, told: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    assert check_version(SimpleNamespace(version=version)) == version
    said = "".join(capfd.readouterr())
    assert (f"Spark {version}: tested with 3.5, 4.0, 4.1, 4.3 only" in said) == told


def test_a_class_that_no_release_has_where_it_is_looked_for_is_missing() -> None:
    jvm = SimpleNamespace(org=JavaPackage("org", Packages(), "d"))
    with pytest.raises(ImportError, match="no ACTIVE") as caught:
        of_streaming(jvm, "runtime", "ACTIVE$")
    assert is_absent(caught.value)


@pytest.mark.parametrize(("kept", "told"), [(1_700_000_000_123, 1_700_000_000_123), (0, None)])
def test_when_a_trigger_began_is_told_by_3_5_too(kept: int, told: int | None) -> None:
    trait = "org$apache$spark$sql$execution$streaming$ProgressReporter"

    def absent() -> None:
        raise Py4JError("An error occurred: Method getLatestExecutionContext([]) does not exist")

    execution = SimpleNamespace(getLatestExecutionContext=absent)
    setattr(execution, f"{trait}$$currentTriggerStartTimestamp", lambda: kept)
    query = SimpleNamespace(streamingQuery=lambda: execution)
    assert executions.trigger_began(query) == told


def source(kind: str, kept: list[int] | None = None) -> SimpleNamespace:
    """A source of a query: an object of the JVM of that class, with that field."""
    field = SimpleNamespace(setAccessible=lambda _: None, get=lambda _: kept and Sized(kept))
    return SimpleNamespace(
        getClass=lambda: SimpleNamespace(
            getSimpleName=lambda: kind, getDeclaredField=lambda name: {"unreadFiles": field}[name]
        )
    )


class Sized:
    def __init__(self, of: list[int]) -> None:
        self.size = lambda: len(of)


class Iterated:
    """An iterator of Scala's."""

    def __init__(self, of: list[Any]) -> None:
        self._of = list(of)

    def hasNext(self) -> bool:
        return bool(self._of)

    def next(self) -> Any:
        return self._of.pop(0)


@pytest.mark.parametrize(
    ("sources", "waiting"),
    [
        ([], None),
        ([source("KafkaMicroBatchStream")], None),
        ([source("FileStreamSource")], None),
        ([source("FileStreamSource", [1, 2])], 2),
        ([source("FileStreamSource", [1, 2]), source("X"), source("FileStreamSource", [3])], 3),
        ([source("FileStreamSource", [1, 2]), source("FileStreamSource")], 2),
    ],
)
def test_files_that_wait_are_those_that_file_sources_remember(
    sources: list[Any], waiting: int | None
) -> None:
    unique = SimpleNamespace(keysIterator=lambda: Iterated(sources))
    query = SimpleNamespace(streamingQuery=lambda: SimpleNamespace(uniqueSources=lambda: unique))
    assert executions.files_waiting(query) == waiting


@pytest.mark.clusters
@pytest.mark.spark
def test_what_spark_lacks_costs_that_alone_and_is_told(cluster: Cluster, tmp_path: Path) -> None:
    lacking = (
        *(features.DETAILS, features.TRIGGER, features.INTERVAL),
        *(features.BATCHES, features.RECEIVERS),
    )
    with cluster.driver(tmp_path, PROGRAMS / "lacking.py", most=2) as driver:
        names = {feature.name for feature in lacking}
        driver.wait(lambda s: set(s.missing) == names, "it finds out what there is not")
        # The rest works as ever.
        seen = driver.wait(lambda s: s.registered == 1 and s.queries, "an executor and queries")
        assert seen.executors == ()  # rather than some without cores
        assert seen.spark_version == pyspark.__version__
        rates = [query for query in seen.queries if query.name == "rates"]
        assert [(query.active, query.interval_ms) for query in rates] == [(True, None)]
        driver.wait(
            lambda s: any(batch.query == "rates" and batch.records for batch in s.batches),
            "batches of the query",
        )
        assert driver.scaled(2).requested == 2
        # Any executor may host a receiver, as the program has a graph.
        assert driver.scale(1).status_code == 200
        blocked = driver.wait(lambda s: s.blocked, "it says why none goes")
        assert blocked.blocked is not None and "where receivers run" in blocked.blocked
        assert (blocked.registered, blocked.removing) == (2, 0)
        told = [line for line in driver.log().splitlines() if "this Spark lacks" in line]
        assert sorted(line.split("lacks ")[1].split(":")[0] for line in told) == sorted(names)


def test_the_release_that_the_tests_run_on_is_one_that_was_tested() -> None:
    assert ".".join(pyspark.__version__.split(".")[:2]) in TESTED
