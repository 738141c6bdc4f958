"""Limits that are retuned while the driver runs."""

import pytest

from dagster_sparkscale.clusters.errors import AgentRefused, AgentUnreachable
from dagster_sparkscale.driver.settings import BACKPRESSURE
from dagster_sparkscale.observe.status import Limit
from tests.backpressure.retuning import (
    deployment,
    has_run,
    kept,
    policed,
    ran,
    ran_again,
    record,
    remember,
    told,
    tuned_before,
    tuning,
)
from tests.in_memory.cluster import MemoryAgent
from tests.watch.deployment import failure_of


class TestLive:
    @pytest.fixture
    def deployed(self):
        it = deployment(policed(initial_rate=450, max_rate=5000))
        has_run(it)
        return it

    def test_a_lower_rate_is_set_while_it_runs(self, deployed):
        line, story = told(ran(deployed))
        assert line == "changed backpressure.max_rate from 5,000 to 1,000: set while it runs"
        assert (story["how"], story["epoch"], story["ending"]) == ("live", 1, "set while it runs")
        assert kept(deployed).rates == {"clicks": {"maxRate": 1000}}
        assert record(deployed).rates == {"clicks": {"maxRate": 1000}}
        now = tuning(deployed)
        assert (now.settings, now.rates, now.rates_before) == ({}, {"clicks": 1000}, {})
        assert now.verify_at is not None
        assert deployed.world.numbers[-1] is not None, "no later operation is undone"

    def test_with_what_the_next_start_begins_with(self, deployed):
        told(ran(deployed, values={"backpressure.max_rate": 800, "backpressure.initial_rate": 300}))
        assert kept(deployed).rates == {"clicks": {"maxRate": 800}}
        again = ran_again(deployed)
        assert '"initial_rate": 300' in again.settings[BACKPRESSURE]
        assert '"max_rate": 5000' in again.settings[BACKPRESSURE]
        assert again.rates == {"clicks": {"maxRate": 800}}

    def test_what_only_a_start_heeds_touches_nothing_that_runs(self, deployed):
        calls = list(deployed.world.calls)
        line, story = told(ran(deployed, values={"backpressure.initial_rate": 300}))
        assert line.endswith(": in force from the next start on")
        assert (story["how"], story["verify_at"]) == ("start", None)
        assert deployed.world.calls == calls
        assert '"initial_rate": 300' in ran_again(deployed).settings[BACKPRESSURE]

    def test_limits_of_people_stay(self, deployed):
        deployed.world.streams["clicks"].limits = (Limit("clicks"), Limit("orders"))
        remember(deployed, rates={"orders": {"maxRate": 70.0, "maxSpanPerTrigger": 5.0}})
        told(ran(deployed, values={"backpressure.max_rate": 1000}))
        assert kept(deployed).rates == {
            "clicks": {"maxRate": 1000},
            "orders": {"maxRate": 70, "maxSpanPerTrigger": 5},
        }

    @pytest.mark.parametrize("error", [AgentUnreachable, AgentRefused])
    def test_a_driver_that_can_not_be_asked_for_it_leaves_all_as_it_was(
        self, deployed, monkeypatch, error
    ):
        def cut(*_, **__):
            raise error("gone")

        monkeypatch.setattr(MemoryAgent, "change", cut)
        remember(deployed, tuning=tuned_before(deployed.streams[0], settings={}))
        before = record(deployed)
        text = failure_of(ran(deployed))
        assert text.endswith(
            "its driver did not say that it has taken the limits, and what was before is "
            "remembered: gone"
        )
        assert record(deployed).tuning == before.tuning
        assert record(deployed).rates is before.rates is None

    def test_more_than_is_declared_needs_a_restart(self, deployed):
        told(ran(deployed, values={"backpressure.max_rate": 1000}))
        _, story = told(ran(deployed, values={"backpressure.max_rate": 9000}))
        assert (story["how"], story["epoch"]) == ("restart", 2)
        assert '"max_rate": 9000' in kept(deployed).settings[BACKPRESSURE]
        assert (kept(deployed).rates, tuning(deployed).rates) == ({}, {})

    def test_a_driver_whose_answer_was_lost_does_not_keep_them(self, monkeypatch):
        it = deployment(policed(initial_rate=450, max_rate=5000))
        has_run(it)
        taken = MemoryAgent.change
        lost = iter([AgentUnreachable("timed out")])

        def change(agent, *args, **more):
            answer = taken(agent, *args, **more)
            for error in lost:
                raise error
            return answer

        monkeypatch.setattr(MemoryAgent, "change", change)
        assert "what was before is remembered" in failure_of(ran(it))
        assert (kept(it).rates, record(it).rates) == ({}, None)
