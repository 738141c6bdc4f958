"""One submission in cluster mode, on this side: spark-submit is a script, and YARN what it says."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AlreadyRunning, ClusterError
from dagster_sparkscale.clusters.host.folder_store import FolderStore
from dagster_sparkscale.clusters.host.places import this_process
from dagster_sparkscale.clusters.records.store import Claim, Process, Record, Submission
from dagster_sparkscale.clusters.yarn import aggregated, applications
from dagster_sparkscale.clusters.yarn.application_fate import Yarn
from dagster_sparkscale.clusters.yarn.cluster import YarnCluster
from dagster_sparkscale.clusters.yarn.driver import YarnDriver
from dagster_sparkscale.clusters.yarn.launch import Client
from dagster_sparkscale.clusters.yarn.resource_manager import ResourceManager, Web
from tests.clusters.running import PROGRAMS, stream, submit
from tests.clusters.yarn.test_asking import answering

NOTHING: dict[str, Any] = {"apps": None}
ELSEWHERE = Process("elsewhere", 7, "1", "m", "b", "n")


def driver(
    tmp_path: Path, url: str, submit: str = "exit 0", by: Process | None = None
) -> YarnDriver:
    """The second driver of a stream, remembered, whose spark-submit is that shell script."""
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "spark-submit"
    script.write_text(f"#!/bin/sh\n{submit}\n")
    script.chmod(0o755)
    folder = FolderStore(tmp_path / "state").folder("clicks")
    folder.create()
    record = replace(
        Record.new("ab12"),
        revision=1,
        desired="running",
        epoch=2,
        host="elsewhere" if by else "here",
        submitter=by or this_process(),
        history=(Submission(2, 1.0, "manual"),),
    )
    folder.swap(record)
    client = Client(Path("/java"), tmp_path, str(tmp_path), None)
    return YarnDriver(folder, record, Yarn(ResourceManager((url,), Web("me")), client, None))


def launch(found: YarnDriver) -> None:
    found.launch(lambda _: {}, "", [], PROGRAMS / "idle.py")


def test_a_driver_that_yarn_never_took_has_not_taken_its_checkpoint(tmp_path: Path) -> None:
    with answering(200, NOTHING) as (url, _):
        refused = driver(tmp_path, url, "echo queue is full; exit 1")
        with pytest.raises(ClusterError, match="queue is full"):
            launch(refused)
        assert refused.describe().state is DriverState.FAILED
        # Else a few that were refused would pass the mark of one that runs.
        assert not refused.took()


def test_a_submission_from_another_host_is_not_said_to_be_killed(tmp_path: Path) -> None:
    with answering(200, NOTHING) as (url, _):
        held_up = driver(tmp_path, url, by=ELSEWHERE)
        held_up.files.create()
        with pytest.raises(ClusterError, match="submitted from host 'elsewhere'"):
            held_up.kill()
        assert held_up.describe().state is DriverState.UNKNOWN


def test_a_start_that_was_killed_while_it_was_held_up_submits_nothing(tmp_path: Path) -> None:
    with answering(200, NOTHING) as (url, _):
        frozen = driver(tmp_path, url, f"touch {tmp_path}/submitted")
        make_settings = kills(frozen)
        with pytest.raises(AlreadyRunning, match="was ended"):
            frozen.launch(make_settings, "", [], PROGRAMS / "idle.py")
        assert not (tmp_path / "submitted").exists()
        assert frozen.describe().state is DriverState.FAILED


def kills(driver: YarnDriver) -> Callable[[Any], dict[str, str]]:
    """Settings that are made while somebody who has the lease now ends the driver."""

    def made(_: Any) -> dict[str, str]:
        driver.kill()
        return {}

    return made


ENDED = {
    "id": "application_1_0001",
    "user": "spark",
    "queue": "root.default",
    "state": "KILLED",
    "finalStatus": "KILLED",
    "diagnostics": "killed by user spark",
    "applicationTags": "sparkscale-ab12,sparkscale-ab12-2",
    "startedTime": 0,
    "finishedTime": 0,
}
"""As one is told of it that may not view it: neither its times nor where its driver is."""


def test_an_end_is_not_believed_of_an_application_that_may_not_be_viewed(tmp_path: Path) -> None:
    with answering(200, {"apps": {"app": [ENDED]}}) as (url, _):
        hidden = driver(tmp_path, url)
        hidden.files.create()
        told = hidden.describe()
    assert told.state is DriverState.UNKNOWN
    assert "does not let 'me' view application_1_0001" in str(told.exit_reason)


@pytest.mark.parametrize("hours", [0.0, -1.0, 2.0])
def test_an_end_is_believed_of_a_node_that_is_heard_of_later_by_whatever_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: float
) -> None:
    """It can't be asked from here, and the ResourceManager's clock may be ahead, or behind."""
    monkeypatch.setattr(aggregated, "seldom", lambda *_: None)
    node = {"nodeHTTPAddress": "127.0.0.1:9", "state": "RUNNING", "lastHealthUpdate": 5}
    logs = "http://127.0.0.1:9/node/containerlogs/container_1_0001_01_000001/spark"
    at = int((time.time() - 3600 * hours) * 1000)
    ended = {"amHostHttpAddress": "127.0.0.1:9", "amContainerLogs": logs, "finishedTime": at}
    app = ENDED | ended | {"startedTime": 1}
    told: dict[str, Any] = {"apps": {"app": [app]}, "nodes": {"node": [node]}}
    with answering(200, told) as (url, _):
        found = driver(tmp_path, url)
        found.files.create()
        # RUNNING it is told for as long as nobody has given it up.
        for _ in range(3):
            assert found.describe().state is DriverState.UNKNOWN
        node["state"] = "LOST"
        node["lastHealthUpdate"] = 6
        assert found.describe().state is DriverState.UNKNOWN
        node["state"] = "RUNNING"
        assert found.describe().state is DriverState.FAILED


def test_a_driver_whose_node_may_not_be_seen_is_not_announced(tmp_path: Path) -> None:
    with answering(200, {"apps": {"app": [ENDED | {"state": "RUNNING"}]}}) as (url, _):
        hidden = driver(tmp_path, url)
        hidden.files.create()
        told = hidden.describe()
    assert told.state is DriverState.UNKNOWN and not hidden.files.agent.exists()
    assert "does not let 'me' view application_1_0001" in str(told.exit_reason)


def test_where_an_agent_is_is_not_noted_where_spark_hides_it(tmp_path: Path) -> None:
    runs = ENDED | {"state": "RUNNING", "amHostHttpAddress": "token-7:8042", "startedTime": 1}
    told: dict[str, Any] = {"apps": {"app": [runs]}}
    told["sparkProperties"] = [["spark.sparkscale.agent.url", "*********(redacted)"]]
    with answering(200, told) as (url, _):
        found = driver(tmp_path, url)
        found.files.create()
        hidden = found.describe()
        assert hidden.state is DriverState.STARTING and not found.files.agent.exists()
        assert "does spark.redaction.regex match spark.sparkscale.agent.url" in str(hidden.where)
        told["sparkProperties"] = [["spark.sparkscale.agent.url", "https://n7:4711"]]
        assert found.describe().agent_url == "https://token-7:4711"


def test_one_that_never_had_a_container_has_ended(tmp_path: Path) -> None:
    times = {"startedTime": 1, "finishedTime": 2, "amContainerLogs": ""}
    with answering(200, {"apps": {"app": [ENDED | times]}}) as (url, _):
        killed = driver(tmp_path, url)
        killed.files.create()
        assert killed.describe().state is DriverState.FAILED


def test_all_drivers_of_a_cluster_are_found_by_one_question(tmp_path: Path) -> None:
    alive = ENDED | {"state": "ACCEPTED"}
    with answering(200, {"apps": {"app": [alive]}}) as (url, asked):
        waiting = driver(tmp_path, url)
        waiting.files.create()
        cluster = YarnCluster(
            resource_managers=[url],
            hadoop_conf_dir=str(tmp_path),
            state_dir=str(tmp_path / "state"),
            user="me",
        ).snapshot()
        for _ in range(3):
            found = cluster.find("clicks")
            assert found is not None and found.state is DriverState.STARTING
    assert len(asked) == 1


def test_a_look_reads_gathered_logs_seldom_and_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each costs a JVM: many drivers that have ended at once are told of all the same."""
    read: list[str] = []
    monkeypatch.setattr(aggregated, "_asked", {})
    monkeypatch.setattr(aggregated, "log", lambda app, *_: read.append(app.id))
    logs = "http://127.0.0.1:9/node/containerlogs/container_1_1_01_000001/spark"
    died = "exited with  exitCode: 75"
    ended = ENDED | {
        **{"state": "FAILED", "diagnostics": died, "amContainerLogs": logs, "startedTime": 1},
        **{"amHostHttpAddress": "127.0.0.1:9", "finishedTime": 2},
    }
    node = {"nodeHTTPAddress": "127.0.0.1:9", "state": "RUNNING", "lastHealthUpdate": 1}
    with answering(200, {"apps": {"app": [ended]}, "nodes": {"node": [node]}}) as (url, _):
        lost = driver(tmp_path, url)
        lost.files.create()
        lost.describe()
        node["lastHealthUpdate"] = 2  # it has heard of the end
        with aggregated._asking:  # another's is being read
            first = lost.describe()
        # By its exit code alone it is known that it may not be started again.
        assert first.state is DriverState.FAILED and first.fenced
        assert not lost.files.ended.exists() and read == []
        assert lost.describe() == first and read == ["application_1_0001"]
        assert lost.files.ended.exists() and not lost.took()
        lost.files.ended.unlink()
        assert lost.describe() == first and len(read) == 1
        assert lost.log(10) == "" and len(read) == 2  # who asks for it has it looked for


def test_at_a_glance_a_log_that_was_not_there_is_not_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tick shows the log of each stream that has failed."""
    read: list[str] = []
    monkeypatch.setattr(aggregated, "log", lambda app, *_: read.append(app.id))
    ended = ENDED | {"startedTime": 1, "finishedTime": 2, "amContainerLogs": ""}
    with answering(200, {"apps": {"app": [ended]}}) as (url, asked):
        killed = driver(tmp_path, url)
        killed.files.create()
        cluster = YarnCluster(
            resource_managers=[url],
            hadoop_conf_dir=str(tmp_path),
            state_dir=str(tmp_path / "state"),
            user="me",
        )
        found = killed.describe()
        assert found.state is DriverState.FAILED and killed.files.ended.exists()
        snapshot = cluster.snapshot()
        asked.clear()
        assert snapshot.logs(found) == "" and asked == [] and read == []
        assert cluster.logs(found) == "" and len(asked) == 1 and len(read) == 1


def test_what_yarn_has_taken_is_never_taken_for_what_was_never_submitted(tmp_path: Path) -> None:
    with answering(200, NOTHING) as (url, _):
        forgotten = driver(tmp_path, url)
        launch(forgotten)
        died = replace(this_process(), birth="another")
        forgotten = YarnDriver(
            forgotten.folder, replace(forgotten.record, submitter=died), forgotten._yarn
        )
        assert forgotten.describe().state is DriverState.UNKNOWN


def test_a_checkpoint_is_not_given_away_while_an_application_of_its_last_stream_runs(
    tmp_path: Path,
) -> None:
    """Its driver was declared gone, and came back."""
    place = str(tmp_path / "checkpoint")
    (tmp_path / "yarn-site.xml").write_text("<configuration/>")
    running = {"id": "application_1_0001", "state": "RUNNING", "amHostHttpAddress": "127.0.0.1:9"}
    on = applications.of_checkpoint(f"file://{place}")
    tags = f"sparkscale-ab12,sparkscale-ab12-2,{on}"
    told = {"apps": {"app": [running | {"applicationTags": tags}]}, "clusterMetrics": {}}
    with answering(200, told) as (url, _):
        back = driver(tmp_path, url)
        cluster = YarnCluster(
            resource_managers=[url],
            hadoop_conf_dir=str(tmp_path),
            state_dir=str(tmp_path / "state"),
        )
        store = cluster.store()
        checkpoint = f"file://{place}"
        store.swap_claim(Claim(checkpoint, "clicks", "ab12", revision=1))
        back.folder.swap(
            replace(back.record, revision=2, checkpoint=checkpoint, gone=2, gone_by="somebody")
        )
        declared = stream("renamed", checkpoint_location=place)
        with pytest.raises(AlreadyRunning, match="worked on by application_1_0001"):
            submit(cluster, declared)
