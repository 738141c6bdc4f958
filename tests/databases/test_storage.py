"""What the library stores in Dagster, and reads back, where that is a database server."""

import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.test_utils import create_test_daemon_workspace_context
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon.sensor import execute_sensor_iteration

from dagster_sparkscale import Webhook
from dagster_sparkscale.clusters.host.folder_store import FolderStore
from dagster_sparkscale.clusters.records.store import Record, Submission
from dagster_sparkscale.names import STREAM_TAG
from dagster_sparkscale.observe.history import history
from tests.fakes import scaled
from tests.watch.deployment import STREAM, Deployment, overload
from tests.watch.hook_server import free_port, serving
from tests.watch.test_alert_sensor import Alerts

pytestmark = pytest.mark.databases

ODD = 'Traceback: "Größe" \u2028 🧨 \x00 half \ud83d'
"""What a broken log may end with."""


def test_minutes_checks_and_runs_are_read_back_as_they_were(
    instance: dg.DagsterInstance, clock: list[float]
) -> None:
    streams = [STREAM, scaled("orders"), scaled("gone")]
    deployed = Deployment(streams, instance=instance)
    overload(deployed)
    deployed.world.run(streams[1], batch_seconds=3.0)
    deployed.world.run(streams[2])
    began = clock[0]
    ticks = deployed.passing(1, clock)
    (request,) = [each for each in ticks[0].requests if each.tags[STREAM_TAG] == "clicks"]
    assert deployed.run(request).success
    ticks += deployed.passing(12, clock)
    deployed.world.streams["gone"].log = ODD.splitlines()
    deployed.world.end("gone")
    ticks += deployed.passing(3, clock)
    for name in ("clicks", "orders"):
        told = [minute for tick in ticks for minute in tick.minutes(name)]
        stored = history(instance, name, began)
        assert len(stored) >= 10 and set(stored) <= set(told)
        assert [each.at for each in stored] == sorted({each.at for each in stored})
    assert history(instance, "gone", began)[-1].state == "failed"
    assert [each.state for each in history(instance, "gone", began, began + 90)] == ["running"] * 2
    (failed,) = checks(instance, "gone", passed=False)
    assert "🧨" in json.dumps(failed, ensure_ascii=False)
    (run,) = instance.get_runs()
    assert run.is_success and run.tags[STREAM_TAG] == "clicks"


def checks(instance: dg.DagsterInstance, stream: str, *, passed: bool) -> list[dict[str, object]]:
    """What the checks of a stream that have come out so have stored last."""
    found = []
    for key in Deployment([scaled(stream)]).defs.resolve_asset_graph().asset_check_keys:
        last = instance.event_log_storage.get_latest_asset_check_execution_by_key([key]).get(key)
        evaluation = last and last.event and last.event.dagster_event
        if evaluation is not None:
            told = evaluation.asset_check_evaluation_data
            if told.passed is passed:
                found.append({name: str(told.metadata[name].value) for name in told.metadata})
    return found


def test_alerts_are_sent_once_each(instance: dg.DagsterInstance, clock: list[float]) -> None:
    port = free_port()
    alerts = Alerts(Webhook(f"http://127.0.0.1:{port}/hook"), clock)
    alerts.deployed.instance = instance
    for stream in alerts.deployed.streams:
        alerts.deployed.world.run(stream, batch_seconds=1.0)
    alerts.watch()
    alerts.tick()
    alerts.deployed.world.end("clicks")
    with serving(port) as hook:
        alerts.watch()
        alerts.tick()
        alerts.watch()
        alerts.tick()
    assert [(each["status"], each["stream"]) for each in hook.got] == [("problem", "clicks")]


@pytest.fixture
def failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A state folder with streams whose drivers have failed a minute ago; how many."""
    number, state = 3, tmp_path / "spark"
    monkeypatch.setenv("SPARKSCALE_TEST_STATE", str(state))
    monkeypatch.setenv("SPARKSCALE_TEST_STREAMS", str(number))
    store, at = FolderStore(state), time.time() - 60.0
    for each in range(number):
        name = f"clicks_of_region_{each}"
        record = replace(
            Record.new(f"{each:016x}"),
            revision=1,
            epoch=1,
            desired="running",
            desired_since=at,
            history=(Submission(1, at, "manual"),),
        )
        store.swap(name, record)
        files = store.folder(name).submission(1)
        files.create()
        files.exit.write_text(json.dumps({"code": 3, "at": at + 20.0}))
        files.log.write_text(ODD.encode(errors="replace").decode() * 99)
    yield number


def test_a_tick_of_the_daemon_asks_for_runs_and_stores_its_cursor(
    instance: dg.DagsterInstance, failed: int
) -> None:
    """By a real code server and the daemon's own code: what is stored is what it stores."""
    target = ModuleTarget(
        module_name="tests.databases.location",
        attribute=None,
        working_directory=os.getcwd(),
        location_name="streams",
    )
    with create_test_daemon_workspace_context(target, instance) as context:
        list(execute_sensor_iteration(context, logging.getLogger("test"), None, None))
    (state,) = [
        each for each in instance.all_instigator_state() if each.instigator_name == "autoscaler"
    ]
    data = state.instigator_data
    assert data is not None and data.cursor
    (tick,) = instance.get_ticks(state.instigator_origin_id, state.selector_id)
    assert tick.error is None, tick.error
    runs = instance.get_runs()
    assert [run.job_name for run in runs] == ["restart"] * failed
    assert set(tick.run_ids) == {run.run_id for run in runs}
