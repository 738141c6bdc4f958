"""Whether a stream runs, and as it is declared; what says nothing of one that was stopped."""

from dataclasses import replace

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.records.starts import ATTEMPT
from dagster_sparkscale.clusters.records.store import Record, Submission
from dagster_sparkscale.declare.decisions import Hold
from dagster_sparkscale.observe.findings import DESCRIPTIONS, STARTUP_GRACE, Health
from dagster_sparkscale.observe.status import Query, Receiver
from dagster_sparkscale.remedy import Remedy, WithRemedy, worded
from dagster_sparkscale.watch.health import NOT_STOPPED, STOP_SECONDS
from dagster_sparkscale.watch.sighting import Sighting
from tests.fakes import QUERY, batch, driver, status
from tests.state.saying import change
from tests.watch.health import HOLD, NOW, examined, findings, unseen


def test_every_check_has_a_description_and_an_outcome():
    assert set(DESCRIPTIONS) == set(Health) == set(findings())


def test_a_healthy_stream_passes_every_check():
    told = (Query(QUERY, active=True, behind_ms=900, source_lost=0),)
    started = {"driver": driver(declared={})}
    healthy = findings(max_lag=1.0, queries=told, batches=(batch(5),), sighted=started)
    assert {h: f.passed for h, f in healthy.items()} == dict.fromkeys(Health, True)


class TestRunning:
    @pytest.mark.parametrize(
        ("sighted", "text", "urgent"),
        [
            ({}, "never started: materialize the asset to start it", False),
            ({"error": "no route to host"}, "no route to host", True),
            ({"driver": driver(), "error": "timed out"}, "timed out", True),
            ({"driver": driver(DriverState.STOPPED)}, "stopped on request", False),
            (
                {"driver": driver(DriverState.FAILED, 3, exit_reason="killed by signal 9")},
                "driver 3 failed: killed by signal 9",
                True,
            ),
        ],
    )
    def test_it_fails_where_nothing_runs_or_answers(self, sighted, text, urgent):
        found = unseen(**sighted)[Health.RUNNING]
        assert (found.passed, found.text, found.urgent) == (False, text, urgent)

    @pytest.mark.parametrize("state", [DriverState.STARTING, DriverState.RUNNING])
    def test_it_passes_where_a_driver_is_alive(self, state):
        found = findings(sighted={"driver": driver(state)})[Health.RUNNING]
        assert (found.passed, found.text) == (True, f"driver 1 is {state.value}")


class TestWhileStateIsChanged:
    """However long that takes: the query starts after it."""

    DOING = (change(step="rewriting"),)

    def found(self, **fields):
        late = {"queries": (), "started_at": NOW - STARTUP_GRACE - 1, "now": NOW}
        return findings(**late | {"reconfigurations": self.DOING} | fields)

    def test_the_driver_runs_and_batches_can_not_be_told(self):
        found = self.found()
        assert found[Health.RUNNING].passed
        completing = found[Health.BATCHES_COMPLETING]
        assert (completing.passed, completing.text) == (
            *(None,),
            "reconfiguring the state of query 'counts': rewriting",
        )

    def test_once_it_is_over_a_query_has_to_come(self):
        assert self.found(reconfigurations=(change(),))[Health.BATCHES_COMPLETING].passed is False

    def test_another_query_that_has_failed_is_told_of_all_the_same(self):
        died = (Query("other", active=False, error="no such column"),)
        found = self.found(queries=died)[Health.BATCHES_COMPLETING]
        assert (found.passed, found.text) == (False, "query 'other' failed: no such column")


class TestAskedToStop:
    """A stop says what is wanted before the driver is asked: cut off between the two, it runs on,
    and its later end would be none that anybody is told of."""

    def found(self, ago=STOP_SECONDS, operation=None, **fields):
        asked = {"driver": driver(asked_to_stop_at=NOW - ago)}
        return findings(sighted=asked, operation=operation, **fields)[Health.RUNNING]

    def test_a_driver_that_runs_on_is_told_of(self):
        found = self.found()
        assert (found.passed, found.urgent, found.mark) == (False, True, NOT_STOPPED)
        assert found.text == (
            "driver 1 was asked to stop at 1970-01-01 00:32 UTC and runs on, and nothing restarts "
            "it should it fail: run stop again, or materialize the stream to keep it"
        )

    def test_one_that_has_just_been_asked_may_not_have_heard_of_it(self):
        assert self.found(ago=STOP_SECONDS - 0.1).passed

    def test_one_that_is_being_stopped_has(self):
        assert self.found(operation="stop run 1a2b3c4d").passed
        assert self.found(phase="stopping").passed

    def test_one_that_is_to_run_is_no_such(self):
        assert findings()[Health.RUNNING].passed


class TestHangingJvm:
    """The agent answers by itself; Spark, in the JVM beside it, does not."""

    def found(self, **fields):
        return findings(**fields)[Health.RUNNING]

    def test_a_driver_whose_jvm_hangs_does_not_run(self):
        found = self.found(spark_age=36_000.0)
        assert (found.passed, found.urgent) == (False, True)
        assert found.text == (
            "driver 1 runs, but Spark has not answered its agent for 36000 s: its JVM hangs, or "
            "the program has stopped its SparkContext; restart the stream"
        )

    @pytest.mark.parametrize(("age", "passed"), [(0.0, True), (120.0, True), (120.1, False)])
    def test_a_pause_is_no_end(self, age, passed):
        assert self.found(spark_age=age).passed is passed

    def test_one_that_never_answered_has_time_to_start(self):
        early = self.found(spark_age=None, started_at=2000 - STARTUP_GRACE)
        late = self.found(spark_age=None, started_at=2000 - STARTUP_GRACE - 1, phase="starting")
        assert (early.passed, late.passed) == (True, False)
        assert "has not answered its agent once in 301 s" in late.text

    @pytest.mark.parametrize("phase", ["stopping", "ended"])
    def test_a_driver_that_is_about_to_end_has_ended_spark_first(self, phase):
        assert self.found(spark_age=1000.0, phase=phase).passed is True

    def test_a_driver_that_failed_has_failed(self):
        failed = {"driver": driver(DriverState.FAILED, exit_reason="exit code 1")}
        found = findings(sighted=failed, spark_age=1000.0)[Health.RUNNING]
        assert found.text == "driver 1 failed: exit code 1"

    def test_of_one_that_does_not_answer_it_says_where_to_look(self):
        where = "process 7 on spark-3, log /state/driver.log"
        found = unseen(driver=driver(where=where), error="no answer")[Health.RUNNING]
        assert (found.passed, found.text) == (False, f"no answer; {where}")
        hanging = {"driver": driver(where=where)}
        found = findings(sighted=hanging, spark_age=36_000.0)[Health.RUNNING]
        assert found.text.endswith(f"restart the stream; {where}")

    def test_of_one_whose_restart_was_refused_it_says_why(self):
        attempt = Submission(1, 1.0, ATTEMPT, "no master")
        gone = driver(DriverState.FAILED, exit_reason="exit code 1")
        found = findings(sighted={"driver": gone, "history": (attempt,)})[Health.RUNNING]
        because = "the last restart was refused: no master"
        assert found.text == f"driver 1 failed: exit code 1; {because}"
        # News, though the check has failed before.
        assert found.mark == "no master"

    def test_what_is_to_be_done_stays_data_where_the_reason_goes_on(self):
        reason = WithRemedy("its host is gone; ", Remedy.DECLARE_GONE)
        found = unseen(driver=driver(DriverState.FAILED, exit_reason=reason))[Health.RUNNING]
        terminal = {Remedy.DECLARE_GONE: "type it"}
        assert worded(found.text, terminal) == "driver 1 failed: its host is gone; type it"


class TestDeclarationApplied:
    def found(self, *drift: str, **fields):
        sighting = Sighting("clicks", **{"driver": driver(declared={})} | fields)
        return examined(sighting, None, HOLD, drift=drift, now=NOW)[Health.DECLARATION_APPLIED]

    def test_a_driver_with_what_is_declared_passes(self):
        assert self.found().passed is True

    @pytest.mark.parametrize(
        ("asked", "running", "passed"),
        [(3, 2, False), (2, 2, True), (None, 2, True), (3, 0, True), (3, None, True)],
    )
    def test_a_program_that_does_not_take_its_number_of_receivers_fails(
        self, asked, running, passed
    ):
        told = None if running is None else tuple(map(Receiver, range(running)))
        found = self.found(
            driver=driver(declared={}, record=replace(Record.new("x"), receivers=asked)),
            status=status(receivers=told),
        )
        assert found.passed is passed
        if not passed:
            assert found.text.startswith("3 receivers were set, and the program has 2: it has to ")

    def test_what_a_restart_would_change_is_told_as_a_warning_and_each_change_is_news(self):
        finding = self.found("max_executors 4 -> 8", "env TOKEN has changed")
        assert (finding.passed, finding.urgent) == (False, False)
        assert finding.text == (
            "the declaration has changed since the driver was started; a restart applies: "
            "max_executors 4 -> 8; env TOKEN has changed"
        )
        assert finding.mark != self.found("max_executors 4 -> 9").mark

    @pytest.mark.parametrize(
        "fields",
        [
            {"driver": None},
            {"driver": driver()},
        ],
        ids=["never started", "of an older release"],
    )
    def test_of_what_is_not_known_it_says_nothing(self, fields):
        assert self.found(**fields).passed is None


class TestAStoppedStream:
    """A failure from before the stop must not stand for as long as it is stopped."""

    def found(self, **options):
        sighting = Sighting("clicks", driver(DriverState.STOPPED, declared={}))
        return examined(sighting, None, Hold("stopped on request"), now=NOW, **options)

    def test_is_not_judged_which_is_no_failure(self):
        found = self.found(max_lag=60.0)
        ended = {check for check, each in found.items() if each.text.startswith("not judged: the")}
        assert ended == {*Health} - {Health.RUNNING, Health.NO_DATA_LOST}
        assert all(found[check].passed for check in ended)

    def test_says_nothing_of_a_lag_that_nobody_wants_to_know(self):
        assert self.found()[Health.LAG_WITHIN_LIMIT].passed is None

    def test_has_lost_what_it_has_lost(self):
        assert self.found()[Health.NO_DATA_LOST].passed is None

    def test_warns_that_it_does_not_run(self):
        running = self.found()[Health.RUNNING]
        assert (running.passed, running.urgent) == (False, False)
