"""The operation in a run of Dagster: what it does, what its page says, what it refuses."""

import time
from dataclasses import replace

import pytest

from dagster_sparkscale.backpressure import applying
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AgentUnreachable, ClusterError
from dagster_sparkscale.clusters.store import DurableHold
from dagster_sparkscale.clusters.tuned import declared_limits
from dagster_sparkscale.declare.backpressure import Retune
from dagster_sparkscale.driver.wire import BACKPRESSURE
from dagster_sparkscale.names import OPERATION_TAG, STREAM_TAG
from dagster_sparkscale.observe.status import Limit, Query
from tests.backpressure.retuning import (
    JOB,
    KNOB,
    SETTING,
    deployment,
    has_run,
    past,
    policed,
    read_once,
    record,
    remember,
    told,
    tuned_before,
    tuning,
)
from tests.fakes import MemoryAgent, MemoryCluster
from tests.state.saying import change
from tests.watch.deployment import failure_of


@pytest.fixture
def deployed():
    it = deployment()
    has_run(it)
    return it


def kept(deployed):
    return deployed.world.streams["clicks"]


def ran(deployed, **config):
    return deployed.by_hand(JOB, stream="clicks", **config)


def refused(deployed, **config) -> str:
    before = dict(deployed.world.records), list(deployed.world.calls)
    text = failure_of(ran(deployed, **config))
    assert (replace(record(deployed), **_LEASED), deployed.world.calls) == (
        replace(before[0]["clicks"], **_LEASED),
        before[1],
    ), "something was touched"
    return text


_LEASED = {"revision": 0, "operations": 0, "lease": None}


class TestDryRun:
    def test_says_what_would_be_changed_and_changes_nothing(self, deployed):
        before = record(deployed)
        line, story = told(ran(deployed, dry_run=True))
        assert line == (
            f"would change {KNOB} from 62,000 to 9,000, by a restart; nothing was changed"
        )
        assert (story["ending"], story["how"], story["epoch"]) == ("dry run", "restart", 1)
        (one,) = story["changes"]
        assert (one["limit"], one["before"], one["after"]) == (KNOB, 62_000, 9000)
        assert one["effect"].endswith("takes 0.9 intervals instead of 6.2")
        assert one["why"].startswith("an executor does 500 records/s or more")
        assert record(deployed) == before

    def test_of_values_that_a_person_gives(self, deployed):
        line, _ = told(ran(deployed, dry_run=True, values={KNOB: 20_000}))
        assert line.startswith(f"would change {KNOB} from 62,000 to 20,000, by a restart")

    def test_without_enough_history_it_says_so(self):
        it = deployment()
        for parts in ([], [past(30)]):
            if parts:
                has_run(it, *parts)
            line, story = told(ran(it))
            assert line.startswith("nothing to do: not enough history: ")
            assert (story["ending"], story["dry_run"]) == ("nothing to do", False)
        assert record(it).tuning is None


class TestARestart:
    def test_it_has_the_new_limit_and_so_has_each_start_after_it(self, deployed):
        began = time.time()
        line, story = told(ran(deployed, reason="it grew"))
        assert line == f"changed {KNOB} from 62,000 to 9,000: restarted"
        assert (story["ending"], story["epoch"], story["reason"]) == ("restarted", 2, "it grew")
        assert kept(deployed).settings == {SETTING: "9000"}
        told_at = tuning(deployed)
        assert told_at.settings == {SETTING: "9000"} and not told_at.by_hand
        assert told_at.before == {SETTING: "62000"} == told_at.declared
        assert told_at.baseline["minutes"] == 480
        assert began + 7200 <= told_at.verify_at == story["verify_at"] <= time.time() + 7200
        assert told_at.by.startswith("retune_backpressure run ")
        assert record(deployed).history[-1].cause == "retune"
        assert ran_again(deployed).settings == {SETTING: "9000"}

    def test_its_run_is_tagged(self, deployed):
        ran(deployed)
        (run,) = deployed.instance.get_runs()
        assert (run.tags[OPERATION_TAG], run.tags[STREAM_TAG]) == (JOB, "clicks")

    def test_without_rules_of_its_own_nobody_verifies_it(self):
        it = deployment(read_once(retune=None))
        has_run(it)
        told(ran(it))
        assert tuning(it).verify_at is None

    def test_values_of_a_person_are_theirs(self, deployed):
        _, story = told(ran(deployed, values={KNOB: 20_000.0}))
        assert story["verify_at"] is None
        assert tuning(deployed).by_hand
        assert tuning(deployed).outcome == "set by hand"
        assert kept(deployed).settings == {SETTING: "20000"}
        line, _ = told(ran(deployed, values={KNOB: 20_000}))
        assert line == "nothing to do: these values are in force already"

    def test_a_start_that_fails_on_it_goes_back(self, deployed):
        def fails_on_it(launched):
            launched.batch_seconds = 1.0
            if launched.settings:
                launched.queries = ()
                launched.log = ["no such option"]
                deployed.world.end("clicks")

        deployed.world.on_submit = fails_on_it
        text = failure_of(ran(deployed))
        assert text.startswith(
            "'clicks': a start with these limits failed, and those of before are in force again. "
        )
        assert "no such option" in text
        assert (kept(deployed).driver.epoch, kept(deployed).settings) == (3, {})
        assert kept(deployed).driver.state is DriverState.RUNNING
        assert tuning(deployed).settings == {}
        assert tuning(deployed).put_back and "a start failed" in tuning(deployed).outcome

    def test_one_that_fails_in_its_first_batch_too(self, deployed):
        def fails_later(launched):
            launched.batch_seconds = None if launched.settings else 1.0

        def on_look(launched):
            if launched.settings:
                deployed.world.end("clicks")

        deployed.world.on_submit = fails_later
        deployed.world.on_look = on_look
        assert "ended before its first" in failure_of(ran(deployed))
        assert (kept(deployed).driver.epoch, kept(deployed).settings) == (3, {})

    def test_it_goes_back_to_what_was_tuned_before(self, deployed):
        remember(deployed, tuning=tuned_before(read_once(), settings={SETTING: "50000"}))

        def fails_on_it(launched):
            launched.batch_seconds = 1.0
            if launched.settings == {SETTING: "9000"}:
                deployed.world.end("clicks")

        deployed.world.on_submit = fails_on_it
        failure_of(ran(deployed))
        assert kept(deployed).settings == {SETTING: "50000"}
        assert tuning(deployed).put_back

    def test_of_what_a_person_tries_nothing_is_left(self, deployed):
        told(ran(deployed))
        before = tuning(deployed)

        def fails_on_it(launched):
            launched.batch_seconds = 1.0
            if launched.settings == {SETTING: "13"}:
                deployed.world.end("clicks")

        deployed.world.on_submit = fails_on_it
        failure_of(ran(deployed, values={KNOB: 13}))
        assert tuning(deployed) == before, "it is still verified"

    def test_where_that_fails_as_well_both_are_told(self, deployed):
        def always(launched):
            deployed.world.end("clicks", exit_reason=f"end {launched.driver.epoch}")

        deployed.world.on_submit = always
        text = failure_of(ran(deployed))
        assert "those of before are remembered, but a start with them failed too" in text
        assert "(end 3)" in text and "(end 2)" in text
        assert tuning(deployed).settings == {}

    def test_stopped_by_a_person_meanwhile_it_stays_so(self, deployed):
        def stops(launched):
            launched.batch_seconds = None
            deployed.world.end("clicks", DriverState.STOPPED)

        deployed.world.on_submit = stops
        told(ran(deployed))
        assert kept(deployed).driver.epoch == 2
        assert tuning(deployed).settings == {SETTING: "9000"}, "the next start has it"

    def test_what_keeps_a_driver_from_being_launched_leaves_the_old_one(self, deployed):
        def no_program(stream):
            raise ClusterError("no such program")

        deployed.world.on_check = no_program
        assert failure_of(ran(deployed)) == "no such program"
        assert record(deployed).tuning is None
        assert kept(deployed).driver.epoch == 1

    def test_a_driver_without_a_batch_is_not_waited_for_without_end(self, deployed, monkeypatch):
        monkeypatch.setattr(applying, "FOLLOW", 0.01)
        deployed.world.on_submit = lambda launched: None
        told(ran(deployed))
        assert kept(deployed).driver.epoch == 2


def ran_again(deployed):
    assert deployed.by_hand("restart", stream="clicks").success
    return kept(deployed)


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

    def test_a_driver_that_can_not_be_asked_for_it_leaves_all_as_it_was(
        self, deployed, monkeypatch
    ):
        def cut(*_, **__):
            raise AgentUnreachable("gone")

        monkeypatch.setattr(MemoryAgent, "set_rates", cut)
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
        taken = MemoryAgent.set_rates
        lost = iter([AgentUnreachable("timed out")])

        def set_rates(agent, *args, **more):
            answer = taken(agent, *args, **more)
            for error in lost:
                raise error
            return answer

        monkeypatch.setattr(MemoryAgent, "set_rates", set_rates)
        assert "what was before is remembered" in failure_of(ran(it))
        assert (kept(it).rates, record(it).rates) == ({}, None)


class TestRefused:
    @pytest.mark.parametrize(
        ("config", "text"),
        [
            (
                {"values": {"clikcs.x": 1}},
                "clikcs.x: 'clicks' has no such limit; it has clicks.",
            ),
            ({"values": {KNOB: 0}}, f"{KNOB} = 0: must be above 0"),
            ({"values": {KNOB: "9"}}, f"{KNOB} = '9': must be a number"),
            ({"values": {KNOB: 1e30}}, "SourceLimits: max_offsets_per_trigger = 1000000"),
            ({"values": {KNOB: 1}, "verify": True}, "verify and values: give one of them"),
            ({"put_back": True, "verify": True}, "verify and put_back: give one of them"),
            ({"put_back": True, "dry_run": True}, "dry_run and put_back: give one of them"),
            ({"put_back": True}, "'clicks': nothing of it was tuned that could be put back"),
            ({"epoch": 7}, "'clicks': this was asked for driver 7, and driver 1 has come since"),
            ({"decided_at": 1.0}, "stale: this was decided"),
        ],
    )
    def test_what_makes_no_sense(self, deployed, config, text):
        assert refused(deployed, **config).startswith(text)

    def test_a_stream_without_limits(self, deployed):
        deployed.world.run(deployed.streams[1])
        text = failure_of(deployed.by_hand(JOB, stream="plain"))
        assert text.startswith("'plain' declares no limits that could be retuned: give it limits")

    def test_one_that_was_never_started(self, deployed):
        text = failure_of(deployed.by_hand(JOB, stream="plain"))
        assert text == "'plain' is not started: materialize its asset to start it"

    @pytest.mark.parametrize("state", [s for s in DriverState if s is not DriverState.RUNNING])
    def test_one_that_does_not_run(self, deployed, state):
        deployed.world.end("clicks", state)
        assert refused(deployed) == f"'clicks' is {state.value}: only one that runs is retuned"

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"reachable": False}, "'clicks': its driver can't be asked: "),
            ({"refuses": "wrong token"}, "'clicks': its driver can't be asked: wrong token"),
            ({"phase": "stopping"}, "'clicks': its driver is stopping"),
            ({"queries": ()}, "'clicks': no query of it is active"),
            ({"queries": (Query("a", False),)}, "'clicks': no query of it is active"),
            (
                {"reconfigurations": (change(step="rewriting"),)},
                "'clicks': its state is being reconfigured",
            ),
        ],
    )
    def test_one_that_can_not_be_changed_now(self, deployed, fields, text):
        for name, value in fields.items():
            setattr(kept(deployed), name, value)
        assert refused(deployed).startswith(text)

    def test_one_that_is_held(self, deployed):
        remember(deployed, hold=DurableHold("somebody", "moving it", "move it back", 1.0))
        assert refused(deployed) == "'clicks' is held by somebody, in the middle of: moving it"

    def test_who_tunes_it_meanwhile_is_not_undone(self, deployed):
        calls = 0

        def on_look(launched):
            nonlocal calls
            calls += 1
            if calls == 1:
                remember(deployed, tuning=tuned_before(read_once(), by="another run"))

        deployed.world.on_look = on_look
        text = failure_of(ran(deployed))
        assert text == "'clicks' was tuned by another run in the meantime: nothing was done"
        assert tuning(deployed).by == "another run"
        assert kept(deployed).driver.epoch == 1


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
        assert text == "'clicks': hands off for 168.0 h more: a person has set live limits of it"
        remember(it, limited_at=time.time() - 7 * 86400 - 1)
        told(self.ran(it))

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
        assert line.startswith("put back: worse: ") and story["how"] == "start"
        assert (kept(other).driver.epoch, tuning(other).settings) == (2, {})

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


def test_another_declaration_wins_over_what_was_tuned():
    it = deployment()
    has_run(it)
    told(ran(it))
    other = deployment(read_once(most=30_000), it.instance)
    other.world.records["clicks"] = replace(record(it), epoch=1)
    assert other.by_hand("restart", stream="clicks").success
    (line,) = (
        entry.user_message
        for entry in other.instance.all_logs(other.instance.get_runs()[0].run_id)
        if "does not stand any more" in entry.user_message
    )
    assert f"{SETTING} = 9000, tuned by retune_backpressure run" in line
    assert kept(other).settings == {}
    assert tuning(other).declared == declared_limits(read_once(most=30_000))
    assert tuning(other).by == "a changed declaration"


def test_a_stream_may_declare_how_it_is_verified():
    it = deployment(read_once(retune=Retune(verify_after=600)))
    has_run(it)
    told(ran(it))
    assert tuning(it).verify_at == pytest.approx(time.time() + 600, abs=300)
