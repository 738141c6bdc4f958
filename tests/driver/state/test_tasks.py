"""Which tasks are those of a change, and whether they have ended."""

from types import SimpleNamespace

import pytest

from dagster_sparkscale.driver.state import tasks
from dagster_sparkscale.driver.state.tasks import (
    OURS,
    POOL,
    StillRunning,
    grouped,
    wait_until_still,
)
from tests.driver.state.played import Attempts, Context

GROUP, DESCRIPTION = "spark.jobGroup.id", "spark.job.description"
INTERRUPT = "spark.job.interruptOnCancel"


class Tracker(Context):
    """A context with two jobs of a group, that share a stage, and one that is forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.properties: dict[str, str | None] = {
            GROUP: "the program's",
            DESCRIPTION: "its own",
            INTERRUPT: "true",
            POOL: "the program's",
        }
        self.stages: dict[int, list[int]] = {1: [10, 11], 2: [11, 12]}
        self.active = {10: Attempts(1), 11: Attempts(2, 0)}

    def setJobGroup(self, group: str, description: str) -> None:
        ours = {GROUP: group, DESCRIPTION: description, INTERRUPT: "false"}
        self.properties = {**self.properties, **ours}

    def getJobIdsForGroup(self, group: str) -> list[int]:
        return [*self.stages, 3] if group == "ours" else []

    def getJobInfo(self, job: int) -> SimpleNamespace | None:
        return SimpleNamespace(stageIds=self.stages[job]) if job in self.stages else None

    def stageData(self, stage: int, *_: object) -> Attempts:
        return self.active.get(stage, Attempts())


@pytest.mark.parametrize("fails", [False, True])
def test_a_group_lasts_as_long_as_what_is_done_and_the_program_s_own_is_back_after_it(fails):
    context = Tracker()
    was = dict(context.properties)
    try:
        with grouped(SimpleNamespace(sparkContext=context), "ours", "of state"):
            assert context.properties[POOL] == OURS
            assert (context.properties[GROUP], context.properties[DESCRIPTION]) == (
                *("ours", "of state"),
            )
            if fails:
                raise KeyError
    except KeyError:
        assert fails
    assert context.properties == was


def test_tasks_of_all_attempts_of_the_stages_of_its_jobs_count_once():
    with grouped(SimpleNamespace(sparkContext=Tracker()), "ours", "of state") as running:
        assert running() == 3


@pytest.fixture
def slept(monkeypatch) -> list[float]:
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: 7.0 + sum(slept), sleep=slept.append)
    monkeypatch.setattr(tasks, "time", clock)
    return slept


def test_tasks_are_waited_for_one_look_after_the_other(slept):
    counts = iter([2, 1, 0])
    wait_until_still(lambda: next(counts))
    assert slept == [0.1, 0.1]


def test_where_none_runs_nothing_is_waited_for(slept):
    wait_until_still(lambda: 0)
    assert slept == []


def test_tasks_that_do_not_end_are_told_when_the_time_is_over(slept, monkeypatch):
    monkeypatch.setattr(tasks, "_POLL", 40.0)
    with pytest.raises(StillRunning, match="2 tasks of the change have not ended 120 s after"):
        wait_until_still(lambda: 2)
    assert slept == [40.0] * 3
