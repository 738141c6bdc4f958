"""The operation in a run of Dagster: what it says before, and what a restart comes to."""

import time
from dataclasses import replace

import pytest

from dagster_sparkscale.backpressure import apply
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.declare.backpressure import Retune
from dagster_sparkscale.in_force.tuned import declared_limits
from dagster_sparkscale.names import OPERATION_TAG, STREAM_TAG
from tests.backpressure.retuning import (
    JOB,
    KNOB,
    SETTING,
    deployment,
    has_run,
    kept,
    past,
    ran,
    ran_again,
    read_once,
    record,
    remember,
    told,
    tuned_before,
    tuning,
)
from tests.in_memory.cluster import MemoryAgent, MemoryCluster
from tests.in_memory.store import MemoryStore
from tests.watch.deployment import failure_of


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

    def test_an_outage_of_the_cluster_manager_is_no_failure(self, deployed, monkeypatch):
        """Nor where the agent is asked through it, as on Kubernetes."""
        find, status, failed = MemoryCluster.find, MemoryAgent.status, []

        def fails_once(what):
            if kept(deployed).driver.epoch == 2 and what not in failed:
                failed.append(what)
                raise ClusterError("the API server gives no answer")

        monkeypatch.setattr(
            MemoryCluster, "find", lambda *given: (fails_once("find"), find(*given))[1]
        )
        monkeypatch.setattr(
            MemoryAgent, "status", lambda *given, **how: (fails_once("a"), status(*given, **how))[1]
        )
        _, story = told(ran(deployed))
        assert sorted(failed) == ["a", "find"] and story["ending"] == "restarted"
        assert kept(deployed).settings == tuning(deployed).settings == {SETTING: "9000"}

    def test_nor_is_one_in_which_not_even_what_is_remembered_can_be_read(
        self, deployed, monkeypatch
    ):
        def says_no(cluster, *given, **how):
            monkeypatch.setattr(MemoryStore, "read", unreadable)
            raise ClusterError("no answer")

        def unreadable(store, stream):
            raise ClusterError("the API server is away")

        read = MemoryStore.read
        monkeypatch.setattr(MemoryCluster, "submit", says_no)
        text = failure_of(ran(deployed))
        monkeypatch.setattr(MemoryStore, "read", read)
        assert "whether these limits are set can't be told (the API server is away)" in text
        assert tuning(deployed).settings == {SETTING: "9000"}

    def test_what_a_driver_that_lives_was_started_with_stays_set(self, deployed, monkeypatch):
        submit = MemoryCluster.submit

        def says_no(cluster, *given, **how):
            submit(cluster, *given, **how)
            raise ClusterError("no answer")

        monkeypatch.setattr(MemoryCluster, "submit", says_no)
        text = failure_of(ran(deployed))
        assert text.startswith(
            "'clicks': these limits stay set: driver 2 has them, though its start was not seen "
            "through: no answer"
        )
        assert kept(deployed).settings == tuning(deployed).settings == {SETTING: "9000"}
        assert tuning(deployed).verify_at is not None

    def test_so_does_what_nobody_can_tell_of(self, deployed, monkeypatch):
        def says_no(cluster, *given, **how):
            monkeypatch.setattr(MemoryCluster, "find", unknown)
            raise ClusterError("no answer")

        def unknown(cluster, stream):
            raise ClusterError("the API server is away")

        monkeypatch.setattr(MemoryCluster, "submit", says_no)
        text = failure_of(ran(deployed))
        assert "whether a driver runs with them can't be told (the API server is away)" in text
        assert tuning(deployed).settings == {SETTING: "9000"}

    def test_a_driver_without_a_batch_is_not_waited_for_without_end(self, deployed, monkeypatch):
        monkeypatch.setattr(apply, "FOLLOW", 0.01)
        deployed.world.on_submit = lambda launched: None
        told(ran(deployed))
        assert kept(deployed).driver.epoch == 2


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
