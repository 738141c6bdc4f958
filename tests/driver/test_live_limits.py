"""What a source of a user's finds in the file with the live limits."""

import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale.driver.backpressure.part import BackpressurePart
from dagster_sparkscale.driver.backpressure.rates import Rates
from dagster_sparkscale.driver.batches.reports import DoneBatch, Input
from dagster_sparkscale.driver.live_limits import live_limits
from dagster_sparkscale.driver.part import Core
from dagster_sparkscale.driver.settings import BACKPRESSURE, RATES, RATES_FILE
from dagster_sparkscale.driver.spark.looks import Reading
from dagster_sparkscale.driver.wire import Batch, Executor, Spark
from tests.driver.serving import options

RECORDS = "maxRecordsPerTrigger"


@pytest.fixture
def rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rates:
    monkeypatch.setenv(RATES_FILE, "of-another-driver")
    return Rates.prepare(tmp_path)


def at_work(rates: Rates, **settings: str) -> BackpressurePart:
    core = Core(options())
    spark = Spark(registered=3, executors=(Executor("0", "here", 12),))
    core.executors.look._seen = Reading(time.monotonic(), spark)
    made = BackpressurePart(core, rates)
    made.take_up(settings)
    return made


def begin(rates: Rates, plan: Any = None, limits: Any = None, **more: str) -> BackpressurePart:
    settings = {BACKPRESSURE: plan, RATES: limits}
    told = {name: json.dumps(each) for name, each in settings.items() if each is not None}
    return at_work(rates, **told, **more)


def test_outside_a_driver_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RATES_FILE, raising=False)
    assert live_limits("clicks") == {}


def test_what_is_set_is_found_by_the_name_of_the_source(rates: Rates) -> None:
    rates.change({"clicks": {RECORDS: 5, "maxSpanPerTrigger": 2}, "orders": {RECORDS: 6}})
    assert live_limits("clicks") == {RECORDS: 5, "maxSpanPerTrigger": 2}
    assert live_limits("returns") == {}


def test_a_source_that_is_not_named_has_what_all_have(rates: Rates) -> None:
    begin(rates, {"initial_rate": 300})
    assert live_limits("clicks") == {RECORDS: 300, "estimated": True}


def test_the_limits_that_a_stream_had_are_there_before_its_program_runs(rates: Rates) -> None:
    begin(rates, limits={"clicks": {RECORDS: 7}})
    assert live_limits("clicks") == {RECORDS: 7}
    assert rates.current() == {"clicks": {RECORDS: 7}}


def test_estimates_are_found_once_they_are_stated(rates: Rates) -> None:
    work = begin(rates, {})
    batch = Batch("q", completed_at=9e8, processing_ms=10, records=100)
    told = work.completed(DoneBatch(batch, 1000, (Input("clicks", 100, 100, True),), False))
    assert (told.limit, told.executors, told.cold) == (100, 3, False)
    work.completed(DoneBatch(batch, 1000, (Input("clicks", 100, 100, True),), False))
    [limit] = work.answer()["limits"]
    assert limit.source == "clicks" and limit.estimator == "work"
    rates.keep()
    assert live_limits("clicks") == {RECORDS: int(limit.rate or 0), "estimated": True}


@pytest.mark.parametrize("content", ["", "{", "[]", "7", '{"clicks": 7}', '{"*": []}'])
def test_what_can_t_be_read_is_no_limit(rates: Rates, content: str) -> None:
    assert rates.file is not None
    rates.file.write_text(content)
    assert live_limits("clicks") == {}


def test_what_can_t_be_read_is_said(rates: Rates, caplog: pytest.LogCaptureFixture) -> None:
    assert rates.file is not None
    rates.file.write_bytes(b"\xff")
    with caplog.at_level(logging.WARNING):
        assert live_limits("clicks") == {}
    assert f"live limits in {rates.file} cannot be read" in caplog.text


@pytest.mark.parametrize(
    ("settings", "trouble"),
    [
        ({BACKPRESSURE: "[]"}, f"backpressure is off: {BACKPRESSURE}: []: must be an object"),
        (
            {RATES: '{"clicks": 5}'},
            "sources begin without the limits that were set: "
            f"{RATES}: rates.clicks: 5: must be an object with limits, or null",
        ),
        (
            {BACKPRESSURE: "{}", "spark.streaming.backpressure.enabled": "true"},
            "spark.streaming.backpressure.enabled is true as well: two estimators contradict each "
            "other",
        ),
    ],
)
def test_what_is_declared_and_can_t_be_is_told_and_keeps_nothing_from_running(
    rates: Rates, settings: dict[str, str], trouble: str, capfd: pytest.CaptureFixture[str]
) -> None:
    work = at_work(rates, **settings)
    assert work.missing == (trouble,)
    assert trouble in "".join(capfd.readouterr())


def test_a_file_that_can_t_be_written_is_told(rates: Rates) -> None:
    rates.close()
    assert rates.file is not None
    rates.file.parent.rmdir()
    [trouble] = begin(rates, {}).missing
    assert "live limits cannot be written" in trouble


def test_a_batch_that_can_t_be_judged_costs_the_limits_alone(
    rates: Rates, capfd: pytest.CaptureFixture[str]
) -> None:
    work = begin(rates, {})
    batch = Batch("q", completed_at=9e8, processing_ms=-10, records=100)
    for _ in range(2):
        assert work.completed(DoneBatch(batch, 1000, (Input("clicks", 100),), False)).records == 100
    said = "".join(capfd.readouterr())
    assert said.count("limits stay as they are, as a batch can't be judged") == 1
    assert "processing_ms = -10" in said


def test_where_nothing_changes_with_batches_nobody_looks_often(rates: Rates) -> None:
    assert begin(rates).pace(1000) == 10
    work = begin(rates, {})
    assert [work.pace(each) for each in (100, 1000, 60_000, None)] == [0.2, 0.5, 2, 0.5]


def test_what_spark_s_settings_let_receivers_take_is_known(rates: Rates) -> None:
    work = begin(
        rates,
        {},
        **{
            "spark.streaming.backpressure.initialRate": "70",
            "spark.streaming.receiver.maxRate": "a lot",
        },
    )
    batch = Batch("dstream", completed_at=9e8, processing_ms=10, records=70, batch_id=9 * 10**11)
    told = work.completed(DoneBatch(batch, 2000, (Input("receiver-0", 70, receiver=True),), True))
    assert told.limit == 140
