"""The report of the demo and its verdict."""

import pytest

from demo.report import Report, Run, Tick, run_line, tick_line

UP = Run("aaaaaaaa-1", "rescale", "clicks", "SUCCESS", 6.1, before=1, after=3)
DOWN = Run("bbbbbbbb-2", "rescale", "clicks", "SUCCESS", 2.0, before=3, after=2)


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


@pytest.mark.parametrize(
    "run",
    [
        Run("x", "rescale", "clicks", "FAILURE", 6.1, before=1, after=3),
        Run("x", "rescale", "clicks", "SUCCESS", 6.1, before=1, after=1),
        Run("x", "rescale", "clicks", "SUCCESS", 6.1, before=1, after=None),
        Run("x", "start", "clicks", "SUCCESS", 6.1, before=0, after=1),
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


def test_a_line_says_what_was_measured_and_what_was_not():
    line = tick_line(Tick("clicks", 0.0, None, "hold", None, reason="the agent gave no status"))
    assert "R    ?" in line
    assert "executors ? of ? requested" in line
    assert line.endswith("hold: the agent gave no status")
    known = Tick("clicks", 0.0, 2.04, "scale to 3", 1, 1, 50.0, reason="R 2.04 is at or above 0.9")
    assert "R 2.04" in tick_line(known)
    assert "50.0/s" in tick_line(known)


def test_a_run_is_told_with_the_executors_it_changed():
    assert run_line(UP) == "clicks  rescale run aaaaaaaa: 1 -> 3 executors, SUCCESS after 6.1 s"
