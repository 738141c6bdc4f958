"""The report of the demo and its verdict."""

import json
import math
from dataclasses import replace

import pytest

from demo.report import Report, Run, Tick, run_line, tick_line

UP = Run("aaaaaaaa-1", "rescale", "clicks", "SUCCESS", 100.0, 6.1, before=1, after=3)
DOWN = Run("bbbbbbbb-2", "rescale", "clicks", "SUCCESS", 110.0, 2.0, before=3, after=2)


def test_a_stream_scaled_up_and_down_by_runs_misses_nothing():
    assert Report(runs=[UP, DOWN]).missing(["clicks"]) == []


def test_what_did_not_happen_is_said_for_each_stream():
    assert Report(runs=[UP]).missing(["clicks", "orders"]) == [
        "clicks: no scale-down by a run",
        "orders: no scale-up by a run",
        "orders: no scale-down by a run",
    ]


def test_only_a_scale_down_that_follows_a_scale_up_counts():
    assert Report(runs=[DOWN, UP]).missing(["clicks"]) == ["clicks: no scale-down by a run"]


def test_what_happened_before_the_load_began_does_not_count():
    assert Report(runs=[UP, DOWN]).missing(["clicks"], since=105.0) == [
        "clicks: no scale-up by a run"
    ]


JOBS = {"clicks": "reconfigure_state"}
CHANGED = Run(
    *("cccccccc-3", "reconfigure_state", "clicks", "SUCCESS"),
    *(120.0, 30.0),
    change="4 -> 8 partitions",
)


@pytest.mark.parametrize(
    ("run", "happened"),
    [
        (CHANGED, True),
        (replace(CHANGED, change=None), False),
        (replace(CHANGED, status="FAILURE"), False),
        (replace(CHANGED, stream="orders"), False),
        (replace(CHANGED, job="restart"), False),
        (replace(CHANGED, time=104.0), False),
    ],
)
def test_a_job_must_have_changed_something_since_the_load_began(run, happened):
    report = Report(runs=[run])
    assert report.changed("clicks", "reconfigure_state", since=105.0) is happened
    line = "clicks: no run of reconfigure_state has changed anything"
    assert report.missing([], 105.0, JOBS) == ([] if happened else [line])


WARM = Tick("clicks", 90.0, 0.2, "hold", registered=1, requested=1)


@pytest.mark.parametrize(
    ("tick", "settled"),
    [
        (WARM, True),
        (replace(WARM, r=None), False),
        (replace(WARM, r=1.2), False),
        (replace(WARM, requested=2), False),
        (replace(WARM, registered=2, requested=2), False),
        (replace(WARM, decision="scale to 2"), False),
        (replace(WARM, stream="orders"), False),
    ],
)
def test_a_stream_has_settled_when_it_holds_at_that_number(tick, settled):
    before = replace(WARM, r=3.0)
    assert Report(ticks=[before, tick]).settled("clicks", executors=1) is settled


@pytest.mark.parametrize(
    ("registered", "requested", "settled"), [(2, 2, True), (1, 2, False), (None, None, False)]
)
def test_a_stream_may_settle_at_any_number(registered, requested, settled):
    tick = replace(WARM, registered=registered, requested=requested)
    assert Report(ticks=[tick]).settled("clicks") is settled


@pytest.mark.parametrize(
    "run",
    [
        Run("x", "rescale", "clicks", "FAILURE", 100.0, 6.1, before=1, after=3),
        Run("x", "rescale", "clicks", "SUCCESS", 100.0, 6.1, before=1, after=1),
        Run("x", "rescale", "clicks", "SUCCESS", 100.0, 6.1, before=1, after=None),
        Run("x", "start", "clicks", "SUCCESS", 100.0, 6.1, before=0, after=1),
    ],
)
def test_a_run_that_failed_or_changed_nothing_does_not_count(run):
    assert not run.scaled_up
    assert not run.scaled_down


def test_the_report_has_what_was_promised():
    tick = Tick("clicks", 1700000000.0, 0.47, "hold", 1)
    report = Report(ticks=[tick], runs=[UP]).to_json(["clicks"])
    assert report["ticks"][0].items() >= {
        ("stream", "clicks"),
        ("time", 1700000000.0),
        ("r", 0.47),
        ("decision", "hold"),
        ("registered", 1),
    }
    assert report["runs"][0].items() >= {
        ("run_id", "aaaaaaaa-1"),
        ("job", "rescale"),
        ("stream", "clicks"),
        ("status", "SUCCESS"),
        ("seconds", 6.1),
    }
    assert report["missing"] == ["clicks: no scale-down by a run"]
    assert report["load_began"] == 0.0


def test_a_report_of_a_demo_that_had_no_load_is_json():
    report = Report().to_json(["clicks"], since=math.inf)
    assert json.loads(json.dumps(report, allow_nan=False))["load_began"] is None


def test_a_line_says_what_was_measured_and_what_was_not():
    line = tick_line(Tick("clicks", 0.0, None, "hold", None, reason="the agent gave no status"))
    assert "R    ?" in line
    assert "executors ? of ? requested" in line
    assert line.endswith("hold: the agent gave no status")
    known = Tick("clicks", 0.0, 2.04, "scale to 3", 1, 1, 50.0, reason="R 2.04 is at or above 0.9")
    assert "R 2.04" in tick_line(known)
    assert "50.0/s" in tick_line(known)


def test_a_run_is_told_with_the_executors_it_changed():
    assert run_line(UP) == "clicks   rescale run aaaaaaaa: 1 -> 3 executors, SUCCESS after 6.1 s"
    line = "clicks   reconfigure_state run cccccccc: 4 -> 8 partitions, SUCCESS after 30.0 s"
    assert run_line(CHANGED) == line
