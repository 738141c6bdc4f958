"""What the daemons of an embedded cluster are started with, without Spark: a program in its place
writes down what it was given."""

from pathlib import Path

import pytest

from dagster_sparkscale.clusters.standalone.spark_daemons import Installation
from tests.waiting import HANGS


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    program = tmp_path / "spark/bin/spark-class"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nenv >given.env\necho "$@" >given.arguments\n')
    program.chmod(0o755)
    return tmp_path / "spark"


def environment(folder: Path) -> dict[str, str]:
    lines = (folder / "given.env").read_text().splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def started(folder: Path, spark: Path, **more: object) -> dict[str, str]:
    """The environment of a worker of a cluster with that folder."""
    folder.mkdir(mode=0o700)
    installation = Installation(folder, Path("/java"), spark, "mark", **more)  # type: ignore[arg-type]
    installation.prepare()
    worker = installation.start_worker("worker 1", "spark://127.0.0.1:7077", 2, "1g")
    assert worker.wait(HANGS) == 0
    return environment(folder)


def test_workers_have_of_dagsters_environment_what_executors_need_and_what_is_named(
    tmp_path: Path, spark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_PG_PASSWORD", "hunter2")
    monkeypatch.setenv("CLICKS_TOPIC", "web")
    monkeypatch.setenv("AWS_PROFILE", "clicks")
    given = started(tmp_path / "cluster", spark)
    assert given["AWS_PROFILE"] == "clicks" and given["JAVA_HOME"] == "/java"
    assert not {"DAGSTER_PG_PASSWORD", "CLICKS_TOPIC"} & set(given)
    given = started(tmp_path / "another", spark, pass_environment=["CLICKS_*"])
    assert given["CLICKS_TOPIC"] == "web" and "DAGSTER_PG_PASSWORD" not in given
