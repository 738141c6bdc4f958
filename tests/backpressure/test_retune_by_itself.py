"""A retuning that the schedule asks for: it keeps its hands off what people have done."""

import time
from dataclasses import replace

import pytest

from dagster_sparkscale.observe.status import Limit
from tests.backpressure.retuning import (
    KNOB,
    SETTING,
    deployment,
    has_run,
    kept,
    past,
    policed,
    ran,
    read_once,
    record,
    remember,
    told,
    tuned_before,
    tuning,
)
from tests.watch.deployment import failure_of


class TestByItself:
    """Asked for by the schedule, and not by a person."""

    def ran(self, deployed, **config):
        return ran(deployed, **{"decided_at": time.time(), "epoch": 1, **config})

    def test_it_does_the_same(self, deployed):
        told(self.ran(deployed))
        assert tuning(deployed).settings == {SETTING: "9000"}

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"by_hand": True}, "hands off for 168.0 h more: its limits were set by run 1"),
            ({"by_hand": True, "by": ""}, "its limits were set by a person"),
            (
                {"put_back": True, "outcome": "worse"},
                "hands off for 168.0 h more: its limits were put back (worse)",
            ),
            (
                {"verify_at": 9e9},
                "what run 1 has changed is still being verified: it was not looked at yet",
            ),
        ],
    )
    def test_hands_are_kept_off(self, deployed, fields, text):
        remember(deployed, tuning=tuned_before(read_once(), **fields))
        said = failure_of(self.ran(deployed))
        assert text in said
        assert failure_of(self.ran(deployed, dry_run=True)) == said
        assert kept(deployed).driver.epoch == 1
        assert ran(deployed).success, "a person may"

    @pytest.mark.parametrize("fields", [{"by_hand": True}, {"put_back": True}])
    def test_but_not_for_ever(self, deployed, fields):
        old = tuned_before(read_once(), at=time.time() - 7 * 86400 - 1, **fields)
        remember(deployed, tuning=replace(old, settings={}))
        told(self.ran(deployed))

    def test_hands_off_where_a_person_has_set_live_limits(self):
        it = deployment(policed(initial_rate=450, max_rate=5000))
        has_run(it)
        kept(it).limits = (Limit("clicks", query="clicks"),)
        assert it.by_hand("set_limits", stream="clicks", rate=100, wait_seconds=0).success
        text = failure_of(self.ran(it))
        assert text.startswith(
            "'clicks': hands off: a live limit of 'clicks' was set by set_limits "
        )
        remember(it, limited_at=time.time() - 7 * 86400 - 1)
        assert "hands off: a live limit of 'clicks'" in failure_of(self.ran(it)), "it stands"
        remember(it, rates=None, limited_at=time.time())
        assert failure_of(self.ran(it)) == (
            "'clicks': hands off for 168.0 h more: a person has set live limits of it"
        )
        remember(it, limited_at=time.time() - 7 * 86400 - 1)
        told(self.ran(it))

    def test_what_a_person_s_limit_let_it_do_is_not_what_it_can(self):
        """A limit of 50 stood for eight days, and what it did meanwhile is all that is known."""
        it = deployment(policed(initial_rate=450, max_rate=5000))
        calm = {"input_rate": 50, "processed_rate": 200, "ratio": 0.6, "limit": 50}
        has_run(it, past(limit_by="person", throttled="q", **calm))
        line, _ = told(self.ran(it))
        assert line.startswith("nothing to do: not enough history: 0.0 h with work")
        assert "under a limit that a person had set were left out" in line

    def test_a_moment_of_a_clock_that_was_ahead_does_not_hold_it_for_longer(self):
        it = deployment(policed(initial_rate=450, max_rate=5000))
        has_run(it)
        remember(it, limited_at=time.time() + 10 * 86400)
        assert failure_of(self.ran(it)).startswith("'clicks': hands off for 168.0 h more")

    def test_a_live_limit_that_was_taken_away_is_set_anew_without_a_restart(self):
        it = deployment(policed(initial_rate=450, max_rate=5000))
        has_run(it)
        told(ran(it))
        assert it.by_hand("set_limits", stream="clicks", none=True).success
        assert kept(it).rates == {}
        long_ago = time.time() - 7 * 86400 - 1
        remember(it, limited_at=long_ago, tuning=replace(tuning(it), verify_at=None, at=long_ago))
        _, story = told(self.ran(it))
        assert (story["how"], story["changes"][0]["before"]) == ("live", 5000)
        assert kept(it).rates == {"clicks": {"maxRate": 1000}}

    def test_what_was_put_back_is_not_tried_again(self, deployed):
        told(ran(deployed))
        told(ran(deployed, put_back=True))
        now = tuning(deployed)
        long_ago = time.time() - 30 * 86400
        remember(deployed, tuning=replace(now, at=long_ago, by_hand=False, outcome="put back: x"))
        text = failure_of(self.ran(deployed, epoch=3))
        assert f"{KNOB} = 9,000 was in force before, and was put back (put back: x)" in text
        assert kept(deployed).driver.epoch == 3
        told(ran(deployed))
        assert kept(deployed).settings == {SETTING: "9000"}, "a person may have it tried"

    def test_a_restart_that_would_bring_more_is_left_to_people(self):
        stream = read_once(executor_memory="2g")
        it = deployment(read_once())
        has_run(it)
        other = deployment(stream, it.instance)
        other.world.records["clicks"] = record(it)
        text = failure_of(self.ran(other))
        assert text.startswith(
            "'clicks': a restart would change more than limits, as its declaration has changed: "
            "executor_memory 1g -> 2g."
        )
        assert ran(other).success
