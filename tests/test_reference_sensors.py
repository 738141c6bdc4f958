"""The sensors of the reference deployment, as they stand."""

import importlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.observe.minutes import Minute
from sensors import alerts as alerts_module
from sensors.caught_up import BEHIND, CAUGHT_UP, STREAM, Cursor, follow, visit_reports
from tests.observe.stored import store

NOON = int(time.time()) - 600
"""Of today: the sensor goes by the clock."""


def minutes(*lags: float | None, first: int = 0) -> list[Minute]:
    return [
        Minute(NOON + 60 * number, "running", lag=lag) for number, lag in enumerate(lags, first)
    ]


@pytest.mark.parametrize(
    ("lags", "occasions"),
    [
        ([0, 5, 9], []),
        ([40, 35, 30], []),
        ([5, 40, 20, 11], []),
        ([5, 40, 20, 10], [1]),
        # One occasion, however the lag goes meanwhile.
        ([31, 29, 31, 29, 3], [0]),
        ([31, 3, 31, 3], [0, 2]),
        # What was not measured is not zero.
        ([40, None, None], []),
        ([40, None, 8], [0]),
    ],
)
def test_a_stream_has_caught_up_once_after_each_time_that_it_was_behind(
    lags: Sequence[float | None], occasions: Sequence[int]
) -> None:
    cursor, caught_up = follow(Cursor(), minutes(*lags))
    assert caught_up == [NOON + 60 * number for number in occasions]
    assert cursor.read_until == NOON + 60 * (len(lags) - 1) + 1


@given(st.lists(st.none() | st.floats(0, 2 * BEHIND), max_size=30), st.integers(0, 30))
def test_it_does_not_matter_how_the_minutes_fall_into_ticks(
    lags: list[float | None], cut: int
) -> None:
    told = minutes(*lags)
    at_once, all_of_them = follow(Cursor(), told)
    between, first = follow(Cursor(), told[:cut])
    in_two, rest = follow(between, told[cut:])
    assert (in_two, first + rest) == (at_once, all_of_them)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as running:
        yield running


def tick(instance: dg.DagsterInstance, folder: Path, cursor: str | None) -> Any:
    sensor = visit_reports(folder).resolve_sensor_def("visits_caught_up")
    return sensor.evaluate_tick(dg.build_sensor_context(instance, cursor=cursor))


def test_one_run_is_requested_for_one_occasion_whatever_is_read_twice(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    assert "never started" in str(tick(instance, tmp_path, None).skip_message)
    key = dg.AssetKey(STREAM)
    store(instance, key, minutes(2, BEHIND + 1))
    first = tick(instance, tmp_path, None)
    assert first.run_requests == [] and "has not caught up yet" in str(first.skip_message)

    store(instance, key, minutes(BEHIND, CAUGHT_UP, first=2), dg.AssetMaterialization)
    second = tick(instance, tmp_path, first.cursor)
    [request] = second.run_requests
    assert request.run_key == f"{STREAM}, behind at {NOON + 60}"
    # The daemon died before it kept the cursor: the same run, which Dagster makes once.
    again = tick(instance, tmp_path, first.cursor)
    assert [each.run_key for each in again.run_requests] == [request.run_key]
    third = tick(instance, tmp_path, second.cursor)
    assert third.run_requests == [] and "is not behind; 0 minutes" in str(third.skip_message)


def test_the_first_tick_does_not_read_years(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    store(instance, dg.AssetKey(STREAM), minutes(BEHIND, 0, first=-60))
    assert tick(instance, tmp_path, None).run_requests == []


def test_the_run_counts_what_the_stream_has_written(tmp_path: Path) -> None:
    for name, robots in (("part-0.json", [True, False]), ("part-1.json", [False]), ("part-2", [])):
        lines = [json.dumps({"visitor": 1, "page": "/", "robot": robot}) for robot in robots]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    job = visit_reports(tmp_path).resolve_implicit_global_asset_job_def()
    done = job.execute_in_process()
    [event] = done.get_asset_materialization_events()
    counted = event.step_materialization_data.materialization.metadata
    assert {name: value.value for name, value in counted.items()} == {"robots": 1, "people": 2}


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ([], []),
        (["ALERTS_URL"], ["alerts"]),
        (["ALERTS_URL", "PAGER_URL"], ["alerts", "pager"]),
    ],
)
def test_an_address_in_the_environment_is_told(
    environment: list[str], names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ALERTS_URL", "PAGER_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in environment:
        monkeypatch.setenv(name, "https://example.com/hook")
    assert [each.name for each in importlib.reload(alerts_module).alerts] == names
