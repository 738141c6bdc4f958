"""How a change goes, step by step, for the agent, the log, and tests that kill it at a step."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dagster_sparkscale.driver.state import reporting
from dagster_sparkscale.driver.state.fingerprint import Fingerprint, Group, Partition, Rows
from dagster_sparkscale.driver.state.reporting import HOLD_AT, Reporting


@dataclass
class Clock:
    now: float = 50.0
    slept: list[float] = field(default_factory=list)
    appears: Path | None = None
    """A file that is there after the third sleep."""

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now + 1000.0

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if len(self.slept) == 3 and self.appears is not None:
            self.appears.touch()
        if len(self.slept) > 10:
            raise InterruptedError("held for ever")


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(reporting, "time", clock)
    return clock


def test_it_begins_with_what_is_known(clock):
    told = Reporting("plan", "counts", before=4, after=8).change
    assert (told.id, told.query, told.step, told.before, told.after) == (
        *("plan", "counts", "checking", 4, 8),
    )
    assert (told.began_at, told.seconds, told.outcome) == (1050.0, None, None)


def test_each_step_has_the_seconds_that_it_took_also_one_that_comes_twice(clock):
    report = Reporting("plan", "counts")
    clock.now += 1.0
    report.step("checking")
    assert report.change.seconds == {}
    for step, seconds in (("rewriting", 2.0), ("closing", 0.25), ("undoing", 3.0), ("closing", 1)):
        clock.now += seconds
        report.step(step)
        assert report.change.step == step
    clock.now += 0.12345
    report.over("undone", "it was not the same")
    assert report.change.seconds == {
        "checking": 2.0,
        "rewriting": 0.25,
        "closing": 3.123,
        "undoing": 1.0,
    }
    told = report.change
    assert (told.step, told.outcome, told.reason) == ("over", "undone", "it was not the same")


def test_one_that_is_over_at_once_has_the_seconds_until_then(clock):
    report = Reporting("plan", "counts")
    clock.now += 2.0
    report.over("failed")
    assert report.change.seconds == {"checking": 2.0}


def test_the_log_has_each_step_and_what_it_came_to(clock, capfd):
    report = Reporting("plan", "counts")
    report.step("measuring")
    report.over("refused", "it keeps no state")
    report.add(before=4, after=8)
    report.over("changed")
    said = capfd.readouterr().err.splitlines()
    assert [line.partition("state of query ")[2] for line in said] == [
        "'counts': measuring",
        "'counts': partitions: refused: it keeps no state",
        "'counts': 4 -> 8 partitions: changed",
    ]


def test_what_was_measured_is_told_before_and_after(clock):
    report = Reporting("plan", "counts")
    groups = {group: Group(group, (0, 0)) for group in range(4)}
    before = Rows(groups, {0: Partition(2), 1: Partition(4)})
    report.measured(Fingerprint(2, 2, {(0, "default"): before}), 4)
    told = report.change
    assert (told.rows, told.group_rows, told.partition_rows) == (6, (0, 1, 2, 3), (2, 4))
    report.measured_after(Fingerprint(3, 2, {(0, "default"): Rows({}, {1: Partition(6)})}))
    assert (report.change.partition_rows_after, report.change.rows) == ((0, 6), 6)


def test_a_driver_waits_at_a_step_to_be_killed(clock, monkeypatch):
    monkeypatch.setenv(HOLD_AT, "rewriting")
    report = Reporting("plan", "counts")
    report.step("measuring")
    with pytest.raises(InterruptedError):
        report.step("rewriting")
    assert report.change.step == "rewriting"


def test_or_until_a_file_is_there(clock, monkeypatch, tmp_path):
    clock.appears = tmp_path / "go on"
    monkeypatch.setenv(HOLD_AT, f"rewriting={clock.appears}")
    report = Reporting("plan", "counts")
    report.step("rewriting")
    assert len(clock.slept) == 3
    report.step("rewriting")
    assert len(clock.slept) == 3, "it is there"
