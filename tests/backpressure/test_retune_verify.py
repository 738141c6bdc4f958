"""What was retuned is verified, and put back where it did harm or a person wants it."""

import time
from dataclasses import replace

import pytest

from dagster_sparkscale.backpressure.retune import is_due
from dagster_sparkscale.observe.findings import Health
from dagster_sparkscale.observe.status import Limit
from dagster_sparkscale.watch.sighting import look
from tests.backpressure.retuning import (
    JOB,
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
from tests.in_memory.cluster import MemoryCluster
from tests.watch.assessing import assess
from tests.watch.deployment import failure_of


class TestPutBack:
    def test_by_a_restart(self, deployed):
        told(ran(deployed))
        line, story = told(ran(deployed, put_back=True))
        assert line == f"put back {KNOB} from 9,000 to 62,000: restarted"
        assert story["changes"] == [{"limit": KNOB, "before": 9000, "after": 62_000}]
        assert (story["ending"], story["how"], story["epoch"]) == ("put back", "restart", 3)
        assert kept(deployed).settings == {}
        now = tuning(deployed)
        assert (now.settings, now.verify_at, now.by_hand) == ({}, None, True)
        assert now.outcome == "put back by hand"

    def test_to_what_was_tuned_before_that(self, deployed):
        told(ran(deployed, values={KNOB: 20_000}))
        told(ran(deployed))
        told(ran(deployed, put_back=True))
        assert kept(deployed).settings == {SETTING: "20000"}
        told(ran(deployed, put_back=True))
        assert kept(deployed).settings == {SETTING: "9000"}, "that was in force before"

    def test_live(self):
        it = deployment(policed(initial_rate=450, max_rate=5000))
        has_run(it)
        told(ran(it))
        _, story = told(ran(it, put_back=True))
        assert (story["how"], story["epoch"]) == ("live", 1)
        assert (kept(it).rates, record(it).rates) == ({}, {})

    def test_what_a_start_begins_with_at_the_next_one(self):
        it = deployment(policed(initial_rate=450, max_rate=5000))
        told(ran(it, values={"backpressure.initial_rate": 300}))
        _, story = told(ran(it, put_back=True))
        assert (story["how"], story["epoch"], tuning(it).settings) == ("start", 1, {})

    def test_of_a_stream_that_does_not_run_from_its_next_start_on(self, deployed):
        told(ran(deployed))
        deployed.world.end("clicks")
        _, story = told(ran(deployed, put_back=True))
        assert (story["how"], story["epoch"]) == ("start", 2)
        assert tuning(deployed).settings == {}
        assert kept(deployed).driver.epoch == 2


class TestVerify:
    @pytest.fixture
    def deployed(self):
        """Two hours after a retuning."""
        it = deployment()
        has_run(it, past(480, ago=7200))
        told(ran(it))
        ago = time.time() - 7200
        now = tuning(it)
        history = record(it).history
        first = replace(history[0], at=ago - 30_000)
        started = (first, replace(history[1], at=ago + 1))
        base = {**now.baseline, "lag": 5.0}
        remember(
            it,
            history=started,
            tuning=replace(now, at=ago, verify_at=ago + 7200, baseline=base),
        )
        return it

    def remembered(self, deployed):
        """What another declaration's runs have left in the record."""
        found = record(deployed)
        return {"declared": found.declared, "history": found.history}

    def by_itself(self, deployed):
        return {"stream": "clicks", "decided_at": time.time(), "epoch": kept(deployed).driver.epoch}

    def verified(self, deployed, *parts):
        has_run(deployed, *parts)
        return told(ran(deployed, verify=True))

    def test_what_did_no_harm_is_kept(self, deployed):
        line, story = self.verified(deployed, past(119, epoch=2, lag=5.0))
        assert line.startswith("kept: same: nothing differs that was measured")
        assert (story["ending"], story["verdict"]) == ("kept", "same")
        assert tuning(deployed).verify_at is None
        assert tuning(deployed).outcome == line
        assert kept(deployed).driver.epoch == 2
        line, story = told(ran(deployed, verify=True))
        assert line.startswith("nothing is to be verified (kept: same")
        assert (story["ending"], story["verdict"]) == ("nothing to do", None)

    def test_what_did_harm_is_put_back(self, deployed):
        line, story = self.verified(deployed, past(119, epoch=2, lag=5.0, ratio=1.2))
        assert line.startswith("put back: worse: minutes in which batches took longer than they")
        assert (story["ending"], story["verdict"], story["epoch"]) == ("put back", "worse", 3)
        assert kept(deployed).settings == {}
        now = tuning(deployed)
        assert (now.settings, now.verify_at, now.put_back) == ({}, None, True)
        assert not now.by_hand and now.outcome.startswith("put back: worse: ")

    def test_of_what_can_not_be_told_it_is_looked_at_again_but_not_for_ever(self, deployed):
        line, story = self.verified(deployed, past(119, epoch=2, lag=5.0, input_rate=7000))
        assert line.startswith("it is looked at again: unknown: not comparable: 7,000 records/s")
        assert (story["ending"], story["verdict"]) == ("looked at again", "unknown")
        again = tuning(deployed).verify_at
        assert again is not None and again > time.time() + 7100
        remember(
            deployed,
            tuning=replace(tuning(deployed), verify_at=1.0, at=time.time() - 12 * 7200),
        )
        line, _ = told(ran(deployed, verify=True))
        assert line.startswith("kept: unknown: not comparable")
        assert tuning(deployed).verify_at is None

    def test_what_was_not_measured_since_is_no_improvement(self, deployed):
        line, _ = self.verified(deployed, past(119, epoch=2, lag=None))
        assert "lag, but in the worst twentieth of the minutes was measured before" in line
        assert tuning(deployed).verify_at is not None

    def test_minutes_of_before_it_was_in_force_do_not_count(self, deployed):
        line, _ = told(ran(deployed, verify=True))
        assert "only 0 minutes were measured since, 30 are needed" in line

    def test_a_stream_that_has_failed_since_is_started_with_what_was_before(self, deployed):
        deployed.world.end("clicks")
        line, story = self.verified(deployed, past(119, epoch=2, state="failed", ratio=None))
        assert line.startswith("put back: worse: in 100% of the minutes no driver ran")
        assert (story["how"], kept(deployed).driver.epoch) == ("restart", 3)
        assert kept(deployed).settings == tuning(deployed).settings == {}

    def test_but_not_one_that_was_stopped(self, deployed):
        has_run(deployed, past(119, epoch=2, state="failed", ratio=None))
        assert deployed.by_hand("stop", stream="clicks").success
        _, story = told(ran(deployed, verify=True))
        assert (story["how"], kept(deployed).driver.epoch) == ("start", 2)
        assert tuning(deployed).settings == {}

    def test_another_declaration_is_not_undone(self, deployed):
        other = deployment(read_once(most=30_000), deployed.instance)
        other.world.streams["clicks"] = kept(deployed)
        other.world.records["clicks"] = record(deployed)
        line, story = self.verified(other, past(119, epoch=2, lag=5.0, ratio=1.2))
        assert line.startswith("put back: worse: ") and story["how"] == "start"
        assert tuning(other).settings == {}, "62000 was declared before, and is not any more"
        assert other.by_hand("restart", stream="clicks").success
        assert kept(other).settings == {}

    def test_a_restart_that_would_bring_other_changes_is_left_to_people(self, deployed):
        other = deployment(read_once(executor_memory="2g"), deployed.instance)
        other.world.streams["clicks"] = kept(deployed)
        other.world.records["clicks"] = record(deployed)
        line, story = self.verified(other, past(119, epoch=2, lag=5.0, ratio=1.2))
        assert line.startswith("to be put back: worse: ") and story["how"] == "start"
        assert (story["ending"], kept(other).driver.epoch) == ("looked at again", 2)
        assert (tuning(other).settings, tuning(other).put_back) == ({}, True), "for the next start"
        drift = assess(
            other.streams[0],
            look(other.world.cluster, other.streams[0], timeout=5),
            now=time.time(),
        )
        applied = drift.health[Health.DECLARATION_APPLIED]
        assert applied.passed is False
        assert "the limits of before, to be put back: worse: " in applied.text
        # It is looked at again, also by the schedule, until nothing bars it any more.
        remember(other, tuning=replace(tuning(other), verify_at=1.0))
        line, story = told(ran(other, verify=True))
        assert "a restart by itself would change more than limits" in line
        assert tuning(other).verify_at is not None and kept(other).driver.epoch == 2
        remember(deployed, **self.remembered(other), tuning=replace(tuning(other), verify_at=1.0))
        line, story = told(ran(deployed, verify=True))
        assert line.startswith("put back: worse: ") and story["how"] == "restart"
        assert (kept(deployed).driver.epoch, kept(deployed).settings) == (3, {})
        assert tuning(deployed).verify_at is None

    def test_a_person_s_restart_ends_a_put_back_that_waits(self, deployed):
        other = deployment(read_once(executor_memory="2g"), deployed.instance)
        other.world.streams["clicks"] = kept(deployed)
        other.world.records["clicks"] = record(deployed)
        self.verified(other, past(119, epoch=2, lag=5.0, ratio=1.2))
        assert other.by_hand("restart", stream="clicks").success
        remember(other, tuning=replace(tuning(other), verify_at=1.0))
        line, _ = told(ran(other, verify=True))
        assert line.startswith("put back: worse: ") and kept(other).driver.epoch == 3
        assert tuning(other).verify_at is None

    def test_a_put_back_whose_start_fails_is_still_to_be_done(self, deployed):
        """A worker was lost just then: what does harm is in force again, and nobody says that it
        was put back."""
        has_run(deployed, past(119, epoch=2, lag=5.0, ratio=1.2))
        harmful = tuning(deployed)

        def loses_one(found):
            if found.driver.epoch == 3:
                deployed.world.end("clicks", exit_reason="a worker was lost")
            found.batch_seconds = 1.0

        deployed.world.on_submit = loses_one
        text = failure_of(ran(deployed, verify=True))
        assert "a start with the limits of before failed, and those that were to be put" in text
        now = tuning(deployed)
        assert (now.settings, now.put_back, kept(deployed).driver.epoch) == (
            *(harmful.settings, False, 4),
        )
        assert now.outcome.startswith("to be put back, and a start with the limits of before")
        assert now.verify_at is not None and now.at == harmful.at
        assert time.time() + 600 <= now.verify_at <= time.time() + 1801
        assert failure_of(deployed.by_hand(JOB, **self.by_itself(deployed))).startswith(
            "'clicks': what retune_backpressure run"
        )
        since = record(deployed).history
        remember(
            deployed,
            tuning=replace(now, verify_at=1.0),
            history=tuple(replace(each, at=min(each.at, harmful.at + 1)) for each in since),
        )
        line, story = told(ran(deployed, verify=True))
        assert line.startswith("put back: worse: ") and story["epoch"] == 5
        assert kept(deployed).settings == {} and tuning(deployed).put_back

    def test_a_clock_that_was_ahead_puts_nothing_off_for_days(self, deployed):
        """The host of the run that changed the limits was ten days ahead."""
        now, days = tuning(deployed), 10 * 86400
        ahead = replace(now, at=now.at + days, verify_at=(now.verify_at or 0) + days)
        starts = tuple(replace(each, at=each.at + days) for each in record(deployed).history)
        remember(deployed, tuning=ahead, history=starts)
        assert is_due(ahead, time.time())
        line, _ = self.verified(deployed, past(119, epoch=2, lag=5.0, ratio=1.2))
        assert line == "it is verified later: the clock of the host that changed it was ahead"
        soon = tuning(deployed)
        assert soon.verify_at is not None and soon.verify_at < time.time() + 7201
        assert not is_due(soon, time.time())
        remember(deployed, tuning=replace(soon, at=soon.at - 7200, verify_at=1.0))
        assert told(ran(deployed, verify=True))[1]["verdict"] == "worse"

    def test_a_live_limit_of_a_person_is_no_harm_of_what_was_tuned(self, deployed):
        kept(deployed).limits = (Limit("clicks", query="clicks"),)
        assert deployed.by_hand("set_limits", stream="clicks", rate=100, wait_seconds=0).success
        line, story = self.verified(deployed, past(119, epoch=2, lag=900.0))
        assert line == "kept: a person has set live limits since: nothing can be compared"
        assert (story["ending"], kept(deployed).driver.epoch) == ("kept", 2)
        assert tuning(deployed).settings == {SETTING: "9000"}

    def test_but_that_no_driver_comes_up_is(self, deployed):
        remember(deployed, limited_at=time.time())
        deployed.world.end("clicks")
        line, _ = self.verified(deployed, past(119, epoch=2, state="failed", ratio=None))
        assert line.startswith("put back: worse: in 100% of the minutes no driver ran")

    def test_what_a_person_has_tuned_in_the_meantime_stays(self, deployed, monkeypatch):
        has_run(deployed, past(119, epoch=2, lag=5.0, ratio=1.2))
        found = MemoryCluster.find
        theirs = tuned_before(read_once(), settings={SETTING: "1234"}, by="a person", by_hand=True)

        later = iter([theirs])  # while the cluster manager is asked for the first time

        def slow(cluster, *args):
            for each in later:
                remember(deployed, tuning=each)
            return found(cluster, *args)

        monkeypatch.setattr(MemoryCluster, "find", slow)
        text = failure_of(ran(deployed, verify=True))
        assert "was tuned by a person in the meantime: nothing was done" in text
        assert (tuning(deployed), kept(deployed).driver.epoch) == (theirs, 2)

    def test_what_can_not_be_put_back_now_is_tried_again(self, deployed):
        has_run(deployed, past(119, epoch=2, lag=5.0, ratio=1.2))
        kept(deployed).reachable = False
        line, story = told(ran(deployed, verify=True))
        assert line.startswith("to be put back: worse: ") and "can't be asked" in line
        assert (story["ending"], story["verdict"]) == ("looked at again", "worse")
        later = tuning(deployed).verify_at
        assert later is not None and later < time.time() + 601
        kept(deployed).reachable = True
        remember(deployed, tuning=replace(tuning(deployed), verify_at=1.0))
        assert told(ran(deployed, verify=True))[1]["ending"] == "put back"

    def test_too_early(self, deployed):
        remember(deployed, tuning=replace(tuning(deployed), verify_at=time.time() + 600))
        line, story = self.verified(deployed, past(119, epoch=2, ratio=1.2))
        assert line.startswith("it is too early: ") and story["ending"] == "nothing to do"
        assert kept(deployed).driver.epoch == 2

    def test_a_stream_that_was_never_tuned(self):
        line, _ = told(ran(deployment(), verify=True))
        assert line == "nothing is to be verified"

    def test_live_limits_are_in_force_from_when_they_were_set(self):
        it = deployment(policed(initial_rate=450, max_rate=5000))
        has_run(it, past(480, ago=7200))
        told(ran(it))
        ago = time.time() - 7200
        remember(it, tuning=replace(tuning(it), at=ago, verify_at=ago + 7200))
        line, _ = self.verified(it, past(119, ratio=1.2))
        assert line.startswith("put back: worse")
        assert (kept(it).rates, kept(it).driver.epoch) == ({}, 1)
