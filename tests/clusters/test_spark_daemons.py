"""What the daemons of an embedded cluster are started with, without Spark: a program in its place
writes down what it was given."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.standalone.daemons import Daemons
from dagster_sparkscale.clusters.standalone.room import Room
from dagster_sparkscale.clusters.standalone.spark_daemons import Installation, log_of, tail_of
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


def started(folder: Path, spark: Path, **more: Any) -> dict[str, str]:
    """The environment of a worker of a cluster with that folder."""
    folder.mkdir(mode=0o700)
    installation = Installation(folder, Path("/java"), spark, "mark", **more)
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


def test_a_secret_is_told_to_daemons_where_nobody_else_can_see_it(
    tmp_path: Path, spark: Path
) -> None:
    given = started(tmp_path / "cluster", spark, secret="hunter2")
    holding = {name for name, value in given.items() if "hunter2" in value}
    assert holding == {"_SPARK_AUTH_SECRET"}  # not in SPARK_DAEMON_JAVA_OPTS: those are arguments
    assert "-Dspark.authenticate=true" in given["SPARK_DAEMON_JAVA_OPTS"]
    assert "hunter2" not in (tmp_path / "cluster/given.arguments").read_text()


def test_daemons_of_a_cluster_without_a_secret_take_everybody(tmp_path: Path, spark: Path) -> None:
    given = started(tmp_path / "cluster", spark)
    assert "spark.authenticate" not in given["SPARK_DAEMON_JAVA_OPTS"]
    assert "_SPARK_AUTH_SECRET" not in given


def noted(folder: Path, **more: Any) -> Daemons:
    """The daemons of a cluster that has been started, by what is remembered of them."""
    note = {"id": "mark", "daemons": {}, "master_port": 7077, "web_port": 8080, **more}
    (folder / "cluster").mkdir()
    (folder / "cluster" / "cluster.json").write_text(json.dumps(note))
    return Daemons(folder)


def test_an_application_is_let_onto_the_cluster_by_its_secret(tmp_path: Path) -> None:
    assert noted(tmp_path, secret="hunter2").access() == {
        "spark.authenticate": "true",
        "spark.authenticate.secret": "hunter2",
    }


def test_a_cluster_of_an_older_version_asks_for_none(tmp_path: Path) -> None:
    assert noted(tmp_path).access() == {}


def test_a_cluster_that_was_never_started_has_none(tmp_path: Path) -> None:
    assert Daemons(tmp_path).access() == {}


def test_a_secret_that_is_none_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"cluster\.json: must hold .* secret as a text"):
        noted(tmp_path, secret=7).access()


def test_a_file_system_without_locks_is_refused_and_no_file_stands_in_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", missing)
    daemons = Daemons(tmp_path / "state")
    with pytest.raises(ClusterError, match=r"start\.lock: can't lock it .*knows locks"):
        daemons.start(Room(1, 1, "1g"), tmp_path, tmp_path, False)


def test_the_end_of_a_log_says_what_a_daemon_ended_of_however_deep_it_was(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    frames = "".join(f"\tat io.netty.Deep.deeper(Deep.java:{line})\n" for line in range(40))
    why = "java.net.BindException: Address already in use: bind\n"
    log_of(tmp_path, "master").write_text(f"it begins\n{why}{frames}\t... 7 more\n")
    assert tail_of(tmp_path, "master").splitlines() == ["it begins", why.strip(), "\t... 7 more"]
