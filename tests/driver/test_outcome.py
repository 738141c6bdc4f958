"""What became of a driver, by its end report and its exit code."""

from dataclasses import replace

import pytest

from dagster_sparkscale.driver.ending.end_report import EndReport, Stopped, StoppedQuery

STOPPED = Stopped(10.0, True, True, (StoppedQuery("q", True, 3),))


@pytest.mark.parametrize(
    ("report", "code", "outcome", "why"),
    [
        (EndReport(), 0, "completed", None),
        (EndReport(), 3, "failed", "exit code 3"),
        (EndReport(raised="ValueError: no"), 1, "failed", "ValueError: no"),
        (EndReport(fenced="taken"), 1, "failed", "taken"),
        (EndReport(stopped=STOPPED), 0, "completed", None),
        (EndReport(stopped=STOPPED, raised="it was stopped"), 0, "completed", None),
        (
            EndReport(stopped=replace(STOPPED, ended_itself=False)),
            124,
            "cut",
            "the program did not end in time and was ended; q: drained, batch 3 done",
        ),
    ],
)
def test_what_became_of_a_driver_follows_from_its_report_and_exit_code(
    report: EndReport, code: int, outcome: str, why: str | None
):
    assert report.outcome(code) == (outcome, why)
