"""One real driver with three queries: what it reports, and that its executors come and go."""

import contextlib
import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dagster_sparkscale.driver.metrics.token import read_token
from tests.driver.conftest import PROGRAMS
from tests.driver.running import EPOCH, SECRET, TOKEN, Cluster, Driver
from tests.driver.shared import Shared
from tests.waiting import wait_for

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def drivers(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared[Driver]]:
    @contextlib.contextmanager
    def started() -> Iterator[Driver]:
        folder = tmp_path_factory.mktemp("structured")
        for name in ("in", "out", "doomed", "nothing"):
            (folder / "data" / name).mkdir(parents=True)
        program = PROGRAMS / "queries.py"
        data = str(folder / "data")
        with cluster.driver(folder, program, data, initial=2, most=4) as running:
            yield running

    with Shared(started) as drivers:
        yield drivers


@pytest.fixture
def driver(drivers: Shared[Driver]) -> Driver:
    """It runs, with any number of executors; one query may have died."""
    found = drivers.get(Driver.lives)
    found.wait(lambda s: s.phase == "running", "it runs")
    return found


@pytest.fixture
def unscaled(drivers: Shared[Driver]) -> Driver:
    """It runs with the executors it was started with."""
    return drivers.get(lambda driver: driver.lives() and not driver.targets)


def put(driver: Driver, name: str, text: str) -> None:
    """A file that appears whole in an input folder."""
    draft = driver.folder / f"draft-{uuid.uuid4().hex}"
    draft.write_text(text + "\n")
    draft.rename(driver.folder / "data" / name / f"{uuid.uuid4().hex}.txt")


def written(driver: Driver) -> dict[str, str]:
    """What the working query has written: each input line and the shuffled result beside it."""
    lines = [
        line.split()
        for file in (driver.folder / "data" / "out").iterdir()
        for line in file.read_text().splitlines()
    ]
    return {line: result for line, result in lines}


def works(driver: Driver) -> None:
    """The working query takes a new file, and still gets its shuffled result right."""
    line = uuid.uuid4().hex
    put(driver, "in", line)
    wait_for("the file is worked on", lambda: line in written(driver), about=driver.log)
    assert written(driver)[line] == "6000"


@pytest.mark.clusters
def test_the_initial_target_is_honoured_although_more_cores_are_admitted(unscaled: Driver) -> None:
    seen = unscaled.wait(lambda s: s.registered == 2 and s.phase == "running", "2 executors")
    assert seen.requested == 2
    assert [executor.cores for executor in seen.executors] == [1, 1]
    works(unscaled)
    assert unscaled.status().registered == 2


@pytest.mark.clusters
def test_the_files_that_a_query_has_left_for_later_batches_are_told(driver: Driver) -> None:
    lines = [uuid.uuid4().hex for _ in range(40)]
    for line in lines:
        put(driver, "in", line)
    seen = driver.wait(lambda s: any(q.files_waiting for q in s.queries), "files that wait")
    waiting = {query.name: query.files_waiting for query in seen.queries}
    assert 0 < (waiting["good"] or 0) < 40 and waiting["idle"] is None
    wait_for("all are worked on", lambda: set(lines) <= set(written(driver)), about=driver.log)
    driver.wait(lambda s: not any(q.files_waiting for q in s.queries), "none waits any more")


def test_it_announces_where_it_is(driver: Driver) -> None:
    announced = wait_for(
        "the app id", lambda: driver.announced() if driver.announced()["app_id"] else None
    )
    assert announced is not None
    assert announced["pid"] == driver.process.pid
    assert announced["ui_url"].startswith("http://")
    assert stat.S_IMODE(os.stat(driver.folder / "agent.json").st_mode) == 0o600
    assert driver.status().app_id == announced["app_id"]


def test_no_secret_shows_in_any_process_list_or_log(driver: Driver) -> None:
    executors = [each.id for each in driver.scaled(2).executors]
    pids = {driver.process.pid, *(driver.executor_process(each).pid for each in executors)}
    lines = {
        process.pid: " ".join(process.info["cmdline"] or [])
        for process in psutil.process_iter(["cmdline"])
    }
    assert all(lines[pid] for pid in pids)
    for secret in (SECRET, TOKEN, read_token(TOKEN)):
        assert not [line for line in lines.values() if secret in line]
        assert secret not in driver.log()


def test_its_folder_holds_no_world_readable_secret(driver: Driver) -> None:
    driver.announced()
    for name in ("agent.json", "spark.properties"):
        assert stat.S_IMODE(Path(driver.folder / name).stat().st_mode) == 0o600


def test_a_program_setting_that_the_declaration_overrides_is_told(driver: Driver) -> None:
    driver.wait(lambda s: bool(s.queries), "a query")
    told = [line for line in driver.log().splitlines() if "not applied" in line]
    assert len(told) == 1
    assert "spark.app.name = its own name (it is spark.app.name = tested)" in told[0]


def test_prometheus_reads_what_each_query_has_done(driver: Driver) -> None:
    works(driver)

    def scraped() -> dict[tuple[str, str | None, str | None], float]:
        answer = driver.ask("GET", "/metrics", token=read_token(TOKEN))
        assert answer.status_code == 200, answer.text
        return {
            (each.name, each.labels.get("query"), each.labels.get("result")): each.value
            for family in text_string_to_metric_families(answer.text)
            for each in family.samples
        }

    done = "sparkscale_batches_total", "good", "completed"
    before = wait_for("a batch is counted", lambda: done in (seen := scraped()) and seen)
    assert before
    assert before["sparkscale_input_records_total", "good", None] >= 1
    assert before["sparkscale_batch_processing_seconds_total", "good", None] > 0
    assert before["sparkscale_batch_interval_seconds", "good", None] == 1
    # It has no watermark, and keeps no state: neither is a zero.
    assert not [key for key in before if "watermark" in key[0] or "state" in key[0]]
    works(driver)
    wait_for("another is", lambda: scraped()[done] > before[done])


def test_each_query_reports_by_itself(driver: Driver) -> None:
    works(driver)
    seen = driver.wait(
        lambda s: [query.interval_ms for query in s.queries] == [1000] * 3, "three queries"
    )
    assert {query.name for query in seen.queries} == {"idle", "doomed", "good"}
    batches = [batch for batch in seen.batches if batch.query == "good" and batch.records]
    assert batches and all(batch.processing_ms > 0 for batch in batches)
    assert all(0 < (batch.planning_ms or 0) < batch.processing_ms for batch in batches)
    assert {query.trigger for query in seen.queries} == {"processing time"}
    assert all(seen.started_at < (query.heard_at or 0) <= seen.now for query in seen.queries)
    assert [batch for batch in seen.batches if batch.query == "good" and batch.cold] == batches[:1]
    cold = {query.name: query.cold for query in seen.queries}
    assert cold["idle"] and not cold["good"]
    assert seen.last_seq >= len(seen.batches) > 0
    # A file source does not tell how much it has not read yet.
    assert {query.backlog_records for query in seen.queries if query.name == "good"} == {None}


def test_an_idle_query_counts_its_empty_triggers(driver: Driver) -> None:
    def idle_triggers() -> int:
        batches = [batch for batch in driver.status().batches if batch.query == "idle"]
        assert all(batch.processing_ms == 0 and batch.records == 0 for batch in batches)
        return sum(batch.triggers for batch in batches)

    # Spark tells of empty triggers every 10 s only: so many can't be one event each.
    wait_for("10 empty triggers", lambda: idle_triggers() >= 10, about=driver.log)


def test_since_and_window_select_batches(driver: Driver) -> None:
    seen = driver.wait(lambda s: s.last_seq >= 3, "3 batches")
    newer = driver.status(f"?since={seen.last_seq - 1}")
    assert 1 <= len(newer.batches) <= newer.last_seq - seen.last_seq + 1
    assert driver.status("?window=0").batches == ()


def test_a_query_that_dies_leaves_the_others_alone(driver: Driver) -> None:
    driver.wait(
        lambda s: [q for q in s.queries if q.name == "doomed" and q.active and q.interval_ms],
        "it runs",
    )
    put(driver, "doomed", "poison")
    seen = driver.wait(
        lambda s: [q for q in s.queries if q.name == "doomed" and not q.active], "it dies"
    )
    doomed = next(query for query in seen.queries if query.name == "doomed")
    assert doomed.error == "ValueError: poisoned"
    assert [batch.query for batch in seen.batches if batch.failed] == ["doomed"]
    works(driver)
    assert {query.name for query in driver.status().queries if query.active} == {"good", "idle"}


def test_a_wrong_token_is_refused(driver: Driver) -> None:
    before = driver.status().requested
    assert before is not None
    assert driver.ask("GET", "/v1/status", token="wrong").status_code == 401
    body = {"target": before + 1, "epoch": EPOCH}
    assert driver.ask("PUT", "/v1/executors", body, token="wrong").status_code == 401
    assert driver.status().requested == before


def test_a_stale_epoch_is_refused(driver: Driver) -> None:
    before = driver.status().requested
    assert before is not None
    answer = driver.ask("PUT", "/v1/executors", {"target": before + 1, "epoch": EPOCH - 1})
    assert (answer.status_code, answer.json()["epoch"]) == (409, EPOCH)
    answer = driver.ask("POST", "/v1/stop", {"graceful": True, "epoch": EPOCH - 1})
    assert answer.status_code == 409
    assert (driver.status().requested, driver.status().phase) == (before, "running")


def test_a_killed_executor_is_replaced(driver: Driver) -> None:
    before = driver.scaled(2)
    victim = before.executors[0].id
    driver.executor_process(victim).kill()
    after = driver.wait(
        lambda s: s.registered == 2 and victim not in [e.id for e in s.executors], "another"
    )
    assert after.requested == 2
    works(driver)


def test_executors_come_and_go_and_no_shuffled_data_is_lost(driver: Driver) -> None:
    works(driver)  # the result was shuffled by the executors there were before
    assert driver.scaled(3).requested == 3
    works(driver)
    # Executors by now differ in what they hold of the shuffled result: whichever leave hand it on.
    failures = driver.log().count("FetchFailed")
    assert driver.scaled(1).requested == 1
    works(driver)
    assert driver.log().count("FetchFailed") == failures
    assert "decommissioning executor(s)" in driver.log()


def test_it_stops_gracefully_between_two_batches(driver: Driver) -> None:
    works(driver)
    driver.stop()
    driver.stop()  # asking twice is no different
    assert driver.exit_code() == 0
    assert "the program has ended by itself" in driver.log()
