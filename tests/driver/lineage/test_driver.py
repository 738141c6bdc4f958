"""Real drivers and an OpenLineage server: what they tell, and that no fault of it harms them."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale.driver.ending.end_report import LineageEnd
from dagster_sparkscale.driver.lineage.events import run_id
from dagster_sparkscale.driver.lineage.plan import LineagePlan
from dagster_sparkscale.driver.settings import LINEAGE, LINEAGE_RECORD
from tests.driver.conftest import PROGRAMS
from tests.driver.lineage.receiving import LineageServer, receiving
from tests.driver.running import EPOCH, Driver, end_report, local_driver
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.clusters]

KEY = "key-5e1c-nobody-may-see"
RUN = run_id("tested-record", EPOCH)


def started(server: LineageServer, folder: Path, ending: str) -> Any:
    data = folder / "data"
    (data / "in").mkdir(parents=True)
    (data / "in" / "first.txt").write_text("one\n")
    plan = LineagePlan(
        *(f"{server.url}/api/v1/lineage", "prod", "orders"), every=1, api_key_env="LINEAGE_KEY"
    )
    settings = {LINEAGE: json.dumps(plan.as_texts()), LINEAGE_RECORD: "tested-record"}
    program = PROGRAMS / "lineage.py"
    env = {"LINEAGE_KEY": KEY}
    return local_driver(folder, program, str(data), ending, settings=settings, env=env)


def named(event: dict[str, Any], side: str) -> set[tuple[str, str]]:
    return {(each["namespace"], each["name"]) for each in event[side]}


def writes(driver: Driver) -> None:
    """Wait until a query has written what it was given, and that of Kinesis has failed: a query
    that fails while it is stopped is no clean end."""
    out = driver.folder / "data" / "out"
    wait_for("output", lambda: list(out.glob("*.json")), 120, about=driver.log)
    wait_for("its failure", lambda: "no Kinesis:" in driver.log(), 120, about=driver.log)


def test_a_driver_is_a_run_from_its_start_to_its_end(tmp_path: Path):
    with receiving() as server, started(server, tmp_path, "runs") as driver:
        driver.wait(lambda s: s.phase == "running", "it runs")
        wait_for(
            "what it reads and writes",
            lambda: any(len(e["inputs"]) == 2 for e in server.events),
            120,
            about=driver.log,
        )
        writes(driver)
        driver.stop()
        assert driver.exit_code() == 0
        kinds = server.kinds(RUN)
        assert kinds == server.kinds()
        assert kinds[0] == "START" and kinds[-1] == "COMPLETE" and set(kinds[1:-1]) == {"RUNNING"}
        data = tmp_path / "data"
        assert named(server.events[-1], "inputs") == {
            ("file", str(data / "in")),
            ("kinesis://127.0.0.1:9", "clicks"),
        }
        assert named(server.events[-1], "outputs") == {("file", str(data / "out"))}
        assert set(server.authorizations) == {f"Bearer {KEY}"}
        assert end_report(driver).lineage == LineageEnd("COMPLETE", told=True)
        assert KEY not in driver.log()


@pytest.mark.clusters
def test_a_driver_that_dies_tells_of_what(tmp_path: Path):
    with receiving() as server, started(server, tmp_path, "raises") as driver:
        assert driver.exit_code() == 1
        last = server.events[-1]
        assert (last["eventType"], last["run"]["runId"]) == ("FAIL", RUN)
        error = last["run"]["facets"]["errorMessage"]
        assert error["message"] == "ValueError: there is no more to do"
        assert end_report(driver).lineage == LineageEnd("FAIL", told=True)


@pytest.mark.clusters
@pytest.mark.parametrize(
    "fault",
    [
        "hangs",
        "down",
        "answers 500",
    ],
)
def test_a_server_that_takes_nothing_harms_no_driver(tmp_path: Path, fault: str):
    with receiving() as server:
        if fault == "down":
            server.server_close()
        elif fault == "hangs":
            server.hangs.clear()
        server.answer = 500
        with started(server, tmp_path, "runs") as driver:
            driver.wait(lambda s: any(b.records for b in s.batches), "a batch")
            writes(driver)
            driver.stop()
            assert driver.exit_code() == 0
            assert end_report(driver).lineage == LineageEnd("COMPLETE", told=False)
            assert server.events == []


@pytest.mark.clusters
def test_a_driver_that_is_killed_leaves_its_end_to_be_told(tmp_path: Path):
    with receiving() as server, started(server, tmp_path, "runs") as driver:
        wait_for("START", lambda: server.events, 120, about=driver.log)
        os.killpg(driver.process.pid, signal.SIGKILL)
        driver.exit_code()
        assert not {"COMPLETE", "FAIL", "ABORT"} & {*server.kinds()}
        assert not (driver.folder / "lineage.json").exists()
