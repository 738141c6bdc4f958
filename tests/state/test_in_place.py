"""A change of state that is made while the driver runs, on a cluster in memory."""

import time
from dataclasses import replace

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AgentRefused, StaleEpoch
from dagster_sparkscale.clusters.requests import NotDone, Refused
from dagster_sparkscale.state import in_place
from dagster_sparkscale.state.reconfigure import CAUSE
from tests.fakes import QUERY, batch
from tests.state.following import Run, submissions
from tests.state.saying import change, dies, kept_by, plan, runs, tells


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(in_place, "_POLL", 0.0)


def here(step: str = "over", **fields):
    return change(step=step, way="in place", **fields)


def begins(world, *acts, **kept):
    """The driver can change its state in place, and acts from its next look on once it has taken a
    plan."""
    driver = world.streams["clicks"]
    driver.in_place = {each.name: None for each in driver.queries}
    for name, value in kept.items():
        setattr(driver, name, value)

    def taken(kept, id):
        todo = list(acts)
        looks = []

        def look(seen):
            looks.append(seen)
            if todo and len(looks) > 1:
                todo.pop(0)(kept, id)

        world.on_look = look

    world.on_plan = taken


def again(partitions: int = 8, *changes, after: float = 1.0):
    """Its query runs again, and has completed a batch so many seconds after the change."""
    now = time.time()
    done = tuple(replace(each, over_at=now) for each in changes)
    ran = batch(1.0, now=now, ago=-after, query=QUERY)
    return tells(*done, queries=(kept_by(partitions=partitions),), batches=(ran,))


class TestDone:
    def test_no_driver_is_started(self, world):
        begins(world, tells(here("preparing")), again(8, here()))
        came = Run(world).came
        assert (came.driver.epoch, came.driver.state) == (1, DriverState.RUNNING)
        assert [(each.outcome, each.way) for each in came.results] == [("changed", "in place")]
        assert came.notes == ()
        assert "change clicks p1 8" in world.calls
        assert len(submissions(world)) == 1
        assert not world.leases

    def test_why_it_is_not_beside_the_stream_after_all_is_told_once(self, world):
        why = "its batches take 1.15 of their interval"
        steps = [
            tells(here("preparing")),
            *(tells(here(s, beside=why)) for s in ("ending", "over")),
        ]
        begins(world, *steps, again(8, here(beside=why)), beside={QUERY: None})
        told = Run(world).lines
        assert any(line.startswith("beside the stream: ") for line in told)
        said = f"query 'counts': not beside the stream after all: {why}"
        assert told.count(said) == 1
        assert told.index(said) < told.index("query 'counts': ending")

    def test_its_steps_are_told(self, world):
        steps = [tells(here(step)) for step in ("preparing", "ending", "rewriting", "starting")]
        begins(world, *steps, again(8, here()))
        told = [line for line in Run(world).lines if line.startswith("query 'counts':")]
        assert told[1:] == [
            "query 'counts': preparing",
            "query 'counts': ending",
            "query 'counts': rewriting",
            "query 'counts': starting",
            "query 'counts': changed, 4 -> 8 partitions",
        ]

    def test_how_far_a_copy_is_behind_is_told_whenever_it_has_come_on(self, world):
        steps = [tells(here("catching up", behind=left)) for left in (None, 9, 9, 8, 1)]
        begins(world, *steps, again(8, here(behind=0)))
        told = [line for line in Run(world).lines if "catching up" in line]
        assert told == [
            "query 'counts': catching up",
            "query 'counts': catching up, 9 batches behind",
            "query 'counts': catching up, 8 batches behind",
            "query 'counts': catching up, 1 batch behind",
        ]

    def test_a_batch_from_before_the_change_is_not_its_first(self, world):
        begins(world, again(8, here(), after=-1.0), again(8, here(), after=1.0))
        Run(world)
        kept = world.streams["clicks"]
        assert kept.batches[0].completed_at > kept.reconfigurations[0].over_at

    def test_the_request_carries_the_number_of_the_operation(self, world):
        begins(world, again(8, here()))
        Run(world)
        assert world.numbers[-1] is not None

    def test_an_answer_that_was_lost_is_asked_for_again(self, world):
        begins(world, again(8, here()))
        taken = world.on_plan
        asked = []

        def lost(kept, id):
            asked.append(id)
            if len(asked) == 1:
                raise in_place.AgentUnreachable("no answer")
            taken(kept, id)

        world.on_plan = lost
        assert Run(world).came.results[0].outcome == "changed"
        assert asked == ["p1", "p1"]


class TestByARestartAfterAll:
    def restarted(self, world, came):
        assert (came.driver.epoch, came.results[0].outcome) == (2, "changed")
        assert [each.cause for each in world.cluster.history("clicks")][-1] == CAUSE

    def test_what_the_agent_refuses(self, world):
        begins(world, refuses_plans="query 'counts': its writer was changed")
        world.on_submit = lambda kept: runs(8, change())(kept, "p1")
        came = Run(world).came
        self.restarted(world, came)
        assert plan(world.streams["clicks"]) == came.change.plan
        assert "its writer was changed; so by a restart of the driver" in came.notes[0]

    def test_what_the_driver_finds_before_it_ends_anything(self, world):
        reason = "the program has set spark.sql.x since it was started"
        begins(world, tells(here(outcome="refused", reason=reason, restart=True)))
        world.on_submit = lambda kept: runs(8, change())(kept, "p1")
        came = Run(world).came
        self.restarted(world, came)
        assert came.notes == (f"query 'counts': {reason}; so by a restart of the driver",)

    def test_a_query_that_could_not_be_started_again(self, world):
        begins(world, tells(here(down="it could not be started again: no"), queries=()))
        world.on_submit = lambda kept: runs(8, change(reason="earlier"))(kept, "p1")
        came = Run(world).came
        self.restarted(world, came)
        assert plan(world.streams["clicks"]) is None  # it was changed already
        assert came.notes[0].startswith("query 'counts' does not run: it could not be started")


class TestNotDone:
    def test_what_is_refused_is_not_tried_by_a_restart(self, world):
        begins(world, tells(here(outcome="refused", reason="3 of its 9 rows are elsewhere")))
        with pytest.raises(NotDone, match="refused: 3 of its 9 rows are elsewhere"):
            Run(world)
        assert len(submissions(world)) == 1

    @pytest.mark.parametrize("said", ["the agent refused the token: no", "HTTP status 403"])
    def test_an_agent_that_takes_no_requests_from_here_is_not_restarted(self, world, said):
        begins(world)

        def refuses(kept, id):
            raise AgentRefused(said)

        world.on_plan = refuses
        with pytest.raises(Refused, match=f"{said}; nothing was changed"):
            Run(world)
        assert len(submissions(world)) == 1
        assert world.streams["clicks"].driver.epoch == 1
        assert not world.leases

    def test_a_query_that_its_program_has_stopped_meanwhile(self, world):
        now = replace(here(), over_at=time.time())
        begins(world, tells(now, queries=()))
        with pytest.raises(NotDone, match="query 'counts' does not run any more"):
            Run(world)

    def test_a_driver_that_is_killed_in_the_middle_is_followed_by_one_without_the_plan(self, world):
        begins(world, tells(here("rewriting")), dies(world))
        undone = change(outcome="undone", reason="its driver was ended in the middle of it")
        world.on_submit = lambda kept: runs(4, undone)(kept, "p1")
        with pytest.raises(NotDone) as failed:
            Run(world)
        assert str(failed.value).startswith("driver 1 ended in the middle of it (killed by signal")
        assert plan(world.streams["clicks"]) is None
        assert world.streams["clicks"].driver.epoch == 2

    def test_a_later_operation_that_was_here_first_is_left(self, world):
        begins(world)

        def later(kept, id):
            raise StaleEpoch("changed by a later operation")

        world.on_plan = later
        with pytest.raises(StaleEpoch):
            Run(world)
        assert len(submissions(world)) == 1
