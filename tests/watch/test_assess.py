from dataclasses import replace

import pytest

from dagster_sparkscale import RatioPolicy, State
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AgentUnreachable, ClusterError
from dagster_sparkscale.clusters.records.steering import Steered
from dagster_sparkscale.clusters.records.store import Record, Submission
from dagster_sparkscale.declare.decisions import Hold
from dagster_sparkscale.declare.stream import DEFAULT_WINDOW
from dagster_sparkscale.observe.findings import Health
from dagster_sparkscale.observe.status import MalformedStatus, Query, QueryState
from dagster_sparkscale.watch.coverage import NEVER, Evaluated
from dagster_sparkscale.watch.sighting import Sighting, look
from tests.fakes import QUERY, batch, driver, scaled, status, structured
from tests.in_memory.cluster import MemoryAgent, World
from tests.state.saying import change
from tests.watch.assessing import assess, assess_or_say_why

STREAM = scaled(max_executors=10)
SLOW = (batch(25),)
IDLE = (batch(0, records=0),)
NOW = 2000.0
FAILED = driver(DriverState.FAILED, ended_at=1000.0, exit_reason="exit code 1")


def assessed(declared=STREAM, sighted: dict | None = None, operation=None, due=True, **fields):
    """The assessment of a running driver whose agent says this."""
    sighting = Sighting(
        "clicks", **{"driver": driver(), "status": status(**fields)} | (sighted or {})
    )
    return assess(declared, sighting, now=NOW, operation=operation, due=due)


def unseen(stream=STREAM, operation=None, **sighted):
    return assess(stream, Sighting("clicks", **sighted), now=NOW, operation=operation)


class TestWhileStateIsChanged:
    DOING = (change(step="rewriting"),)

    def test_it_holds_whatever_the_policy_would_do(self):
        assert assessed(batches=SLOW).acts
        found = assessed(batches=SLOW, reconfigurations=self.DOING)
        words = "reconfiguring the state of query 'counts': rewriting"
        assert found.decision == Hold(words)
        assert assessed(phase="starting", reconfigurations=self.DOING).decision == Hold(words)

    def test_once_it_is_over_the_policy_decides(self):
        assert assessed(batches=SLOW, reconfigurations=(change(),)).acts

    @pytest.mark.parametrize(
        ("way", "ago", "acts"),
        [
            ("beside the stream", 20.0, False),
            ("in place", 20.0, False),
            ("beside the stream", DEFAULT_WINDOW, True),
            ("restart", 20.0, True),  # no batch of before
        ],
    )
    def test_batches_that_were_slow_beside_it_are_no_reason_for_more_executors(
        self, way, ago, acts
    ):
        changed = change(way=way, over_at=status().now - ago)
        found = assessed(batches=SLOW, reconfigurations=(changed,))
        assert found.acts is acts
        if not acts:
            assert found.decision.reason.startswith("state was changed until 20 s ago, and batches")

    def test_fewer_are_decided_as_ever(self):
        changed = change(way="in place", over_at=status().now)
        plain, found = (
            assessed(batches=IDLE, reconfigurations=each).decision for each in ((), (changed,))
        )
        assert found == plain


class TestStates:
    @pytest.mark.parametrize(
        ("sighted", "state", "epoch", "reason"),
        [
            ({}, "not started", None, "not started: materialize the asset to start it"),
            ({"error": "no route"}, "unknown", None, "no route"),
            ({"driver": driver(epoch=3), "error": "no route"}, "running", 3, "no route"),
            ({"driver": driver(DriverState.STOPPED)}, "stopped", 1, "stopped on request"),
            ({"driver": driver()}, "running", 1, "the agent gave no status"),
            (
                {"driver": driver(DriverState.STARTING)},
                "starting",
                1,
                "the agent gave no status",
            ),
        ],
    )
    def test_without_an_answer_it_holds_and_says_why(self, sighted, state, epoch, reason):
        assessment = unseen(**sighted)
        assert (assessment.state, assessment.epoch) == (state, epoch)
        assert assessment.decision == Hold(reason)
        assert assessment.evaluation is None
        assert not assessment.acts
        assert assessment.decision == Hold(reason)
        assert str(assessment) == f"clicks: hold: {reason}"
        assert set(assessment.health) == set(Health)
        assert assessment.health[Health.RATIO_BELOW_ONE].passed is (state == "stopped" or None)

    def test_a_running_stream_is_evaluated_and_decided_on(self):
        assessment = assessed(batches=SLOW)
        assert (assessment.state, assessment.epoch) == ("running", 1)
        assert assessment.evaluation.ratio == 2.5
        assert assessment.decision.target == 5
        assert assessment.acts
        assert str(assessment.decision) == "scale to 5"
        assert assessment.health[Health.RATIO_BELOW_ONE].passed is False

    def test_a_stream_without_a_policy_is_evaluated_and_held(self):
        assessment = assessed(structured(), batches=SLOW)
        assert assessment.evaluation.ratio == 2.5
        assert assessment.decision == Hold("the stream has no autoscale policy")

    @pytest.mark.parametrize("phase", ["starting", "stopping", "ended", "a phase of the future"])
    def test_a_driver_in_any_other_phase_is_evaluated_and_held(self, phase):
        assessment = assessed(phase=phase, batches=SLOW)
        assert assessment.evaluation.ratio == 2.5
        assert assessment.decision == Hold(f"the driver is {phase}")

    @pytest.mark.parametrize("wrong", [{"epoch": 2}, {"stream": "orders"}])
    def test_an_answer_of_another_driver_is_not_taken_for_this_one(self, wrong):
        assessment = assessed(batches=SLOW, **wrong)
        assert assessment.evaluation is None
        assert isinstance(assessment.decision, Hold)
        assert "expected clicks epoch 1" in assessment.decision.reason
        assert not assessment.acts

    def test_the_window_is_the_policys_interval(self):
        assert scaled(interval=15).window == 15.0
        assert structured().window == DEFAULT_WINDOW
        early = (batch(25, ago=40),)
        assert assessed(scaled(interval=15), batches=early).evaluation.ratio is None
        assert assessed(scaled(interval=45), batches=early).evaluation.ratio == 2.5

    def test_batches_since_the_evaluation_before_count_though_they_are_older(self):
        sighting = Sighting("clicks", driver(), status(batches=(batch(25, ago=62),), last_seq=9))

        def ratio(before):
            return assess(STREAM, sighting, now=NOW, before=before).evaluation.ratio

        assert ratio(NEVER) is None
        assert ratio(Evaluated(1935.0, 8)) == 2.5
        assert ratio(Evaluated(1950.0, 8)) == 2.5  # Spark told of it late
        assert ratio(Evaluated(1950.0, 9)) is None


class TestFailed:
    def test_a_failed_driver_that_is_due_is_restarted(self):
        assessment = unseen(driver=FAILED, history=(Submission(1, 900.0, "manual"),))
        assert assessment.decision.attempt == 1
        assert assessment.acts
        assert str(assessment.decision) == "restart"
        assert assessment.decision.reason == "driver 1 failed (exit code 1); restart 1 of 5"
        assert assessment.health[Health.RUNNING].passed is False

    def test_one_that_is_not_due_yet_waits(self):
        failed = driver(DriverState.FAILED, ended_at=1995.0)
        assessment = unseen(driver=failed)
        assert isinstance(assessment.decision, Hold)
        assert "at 00:33:25 UTC" in assessment.decision.reason

    def test_one_that_is_not_to_be_restarted_is_left(self):
        assessment = unseen(structured(recovery=None), driver=FAILED)
        assert not assessment.acts
        assert "its declaration says not to restart it" in assessment.decision.reason

    def test_a_restart_does_not_wait_for_the_policys_interval(self):
        sighting = Sighting("clicks", FAILED)
        assert assess(STREAM, sighting, now=NOW, due=False).decision.operation == "restart"


class TestOperationInFlight:
    def test_a_rescale_is_held_and_what_it_would_be_is_told(self):
        assessment = assessed(batches=SLOW, operation="rescale run 1a2b3c4d")
        assert not assessment.acts
        assert assessment.decision.reason.startswith(
            "rescale run 1a2b3c4d is in progress; otherwise: scale to 5: 2 registered -> 5: R 2.50"
        )

    def test_a_restart_is_held_and_what_it_would_be_is_told(self):
        assessment = unseen(driver=FAILED, operation="restart run 1a2b3c4d")
        assert not assessment.acts
        assert assessment.decision.reason == (
            "restart run 1a2b3c4d is in progress; otherwise: restart: "
            "driver 1 failed (exit code 1); restart 1 of 5"
        )

    def test_what_is_held_anyway_keeps_its_own_reason(self):
        assert assessed(batches=(batch(5),), operation="stop run 1").decision.reason.startswith(
            "R 0.50"
        )

    @pytest.mark.parametrize("sighted", [{}, {"driver": driver(DriverState.STOPPED)}])
    def test_a_stream_that_is_being_started_is_not_said_to_wait_for_somebody(self, sighted):
        starting = unseen(**sighted, operation="start run 1a2b3c4d")
        assert starting.decision == Hold("start run 1a2b3c4d is in progress")
        assert starting.health[Health.RUNNING].passed is None

    def test_health_is_that_of_the_stream_and_not_of_what_is_in_flight(self):
        free = assessed(batches=SLOW)
        assert assessed(batches=SLOW, operation="rescale run 1").health == free.health


class TestNotDue:
    @pytest.mark.parametrize("batches", [SLOW, IDLE], ids=["up", "down"])
    def test_a_rescale_waits_for_the_policys_interval(self, batches):
        target = assessed(batches=batches).decision.target
        assessment = assessed(batches=batches, due=False)
        assert not assessment.acts
        assert assessment.decision.reason.startswith(
            f"not due yet; otherwise: scale to {target}: 2 registered -> {target}: R "
        )

    def test_what_is_held_anyway_keeps_its_own_reason(self):
        assert assessed(batches=(batch(5),), due=False).decision.reason.startswith("R 0.50")

    def test_it_is_observed_all_the_same(self):
        assert assessed(batches=SLOW, due=False).evaluation == assessed(batches=SLOW).evaluation


def test_a_pinned_stream_is_at_its_maximum():
    assessment = assessed(batches=SLOW, registered=10, requested=10)
    assert assessment.decision.pinned
    assert assessment.health[Health.BELOW_MAXIMUM].passed is False


class TestLook:
    """What one look brings: a fault is a finding, never an exception."""

    def seen(self, cluster):
        return look(cluster, STREAM, timeout=1.0)

    def broken(self, world, method, error):
        def fail(self, *args, **kwargs):
            raise error

        cluster = world.cluster
        return type("Broken", (type(cluster),), {method: fail})(world=world.key)

    def test_a_stream_that_never_ran(self):
        assert self.seen(World().cluster) == Sighting("clicks")

    def test_a_stream_that_runs(self):
        world = World()
        world.run(STREAM)
        sighting = self.seen(world.cluster)
        assert (sighting.driver.epoch, sighting.status.epoch) == (1, 1)
        assert sighting.error is None
        assert (sighting.history, sighting.log_tail) == ((), "")

    @pytest.mark.parametrize(("window", "asked"), [(None, 60.0), (75.0, 75.0)])
    def test_the_agent_is_asked_for_the_streams_window_or_for_as_much_as_it_takes(
        self, monkeypatch, window, asked
    ):
        world, given = World(), []
        world.run(STREAM)
        plain = MemoryAgent.status

        def status(agent, timeout, window):
            given.append((timeout, window))
            return plain(agent, timeout, window)

        monkeypatch.setattr(MemoryAgent, "status", status)
        look(world.cluster, STREAM, timeout=1.0, window=window)
        assert given == [(1.0, asked)]

    def test_a_stream_that_was_stopped_is_not_asked(self):
        world = World()
        world.run(STREAM)
        world.end("clicks", DriverState.STOPPED)
        world.on_look = lambda kept: pytest.fail("a driver that has ended was asked")
        assert self.seen(world.cluster).driver.state is DriverState.STOPPED

    def test_a_stream_that_failed_brings_its_history_and_log(self):
        world = World()
        world.run(STREAM).log = ["Traceback", "it broke"]
        world.end("clicks")
        sighting = self.seen(world.cluster)
        assert [s.epoch for s in sighting.history] == [1]
        assert sighting.log_tail == "Traceback\nit broke"
        assert sighting.error is None

    @pytest.mark.parametrize("error", [ClusterError("no disk"), OSError("no disk")])
    def test_a_log_that_cannot_be_read_does_not_keep_a_stream_from_its_recovery(self, error):
        world = World()
        world.run(STREAM)
        world.end("clicks", ended_at=1000.0)
        sighting = self.seen(self.broken(world, "logs", error))
        assert sighting.error is None
        assert sighting.log_tail == "the log can't be read: no disk"
        assert assess(STREAM, sighting, now=NOW).decision.operation == "restart"

    @pytest.mark.parametrize(
        ("method", "error", "text"),
        [
            ("find", ClusterError("record.json is broken"), "record.json is broken"),
            ("find", KeyError("epoch"), "KeyError: 'epoch'"),
            ("status", AgentUnreachable("no answer in 1 s"), "no answer in 1 s"),
            ("status", MalformedStatus("epoch: missing"), "MalformedStatus: epoch: missing"),
            ("status", RuntimeError("odd"), "RuntimeError: odd"),
        ],
    )
    def test_a_fault_is_a_finding(self, method, error, text):
        world = World()
        world.run(STREAM)
        sighting = self.seen(self.broken(world, method, error))
        assert sighting.error == text
        assert sighting.status is None
        assert (sighting.driver is None) == (method == "find")


def test_what_an_odd_answer_was_cannot_be_judged_and_is_told_as_unknown():
    queries = (Query(QUERY, active=True, interval_ms="x"),)
    odd = Sighting("clicks", driver(), status(batches=(batch(25),), queries=queries))
    with pytest.raises(TypeError):
        assess(structured(), odd, now=2000.0)
    assessment = assess_or_say_why(structured(), odd, now=2000.0, operation="stop run 1")
    told = assessment.sighting
    assert (assessment.state, assessment.evaluation, told.driver) == ("unknown", None, None)
    assert str(told.error).startswith("it can't be judged: TypeError: ")
    assert assessment.decision.reason == told.error


def test_what_can_be_judged_is_as_it_is_assessed():
    sighting = Sighting("clicks", driver(), status(batches=(batch(25),)))
    stream, how = scaled(max_executors=8), {"now": 2000.0, "operation": "stop run 1", "due": False}
    found = assess_or_say_why(stream, sighting, **how)
    assert (found, found.sighting) == (assess(stream, sighting, **how), sighting)


class TestWholeWaves:
    """Of five executors for eight partitions one does nothing in the second wave of tasks."""

    def decided(self, align: bool, *queries: Query, ratio: int = 25, minimum: int | None = None):
        kept = State(key_groups=8, align_executors=align)
        policy = RatioPolicy(max_executors=10)
        stream = structured(state=kept, autoscale=policy, checkpoint_location="/tmp/clicks")
        seen = status(batches=(batch(ratio),), queries=queries, requested=2, registered=2)
        bounds = Steered("ann", "a demo", 1.0, minimum=minimum)
        record = replace(Record.new("r"), steering={"bounds": bounds} if minimum else {})
        found = replace(driver(), record=record)
        return assess(stream, Sighting("clicks", found, seen), now=2000.0).decision

    def test_a_minimum_that_a_person_has_set_stands(self):
        query = Query(QUERY, active=True, state=QueryState(partitions=8))
        assert self.decided(True, query, minimum=5).target == 5

    def test_executors_that_make_no_wave_fewer_are_left_out(self):
        query = Query(QUERY, active=True, state=QueryState(partitions=8))
        plain, whole = self.decided(False, query), self.decided(True, query)
        assert (plain.target, whole.target) == (5, 4)
        assert whole.reason.startswith(plain.reason)
        assert (
            "4 instead of 5 executors" in whole.reason and "8 state partitions: 2" in whole.reason
        )

    @pytest.mark.parametrize(
        "queries",
        [
            (Query(QUERY, active=True, state=QueryState(partitions=None)),),
            (Query(QUERY, active=True), Query("kept", active=True, state=QueryState(partitions=8))),
            (Query(QUERY, active=True),),
        ],
    )
    def test_where_not_all_is_known_the_policy_has_its_way(self, queries):
        assert self.decided(True, *queries) == self.decided(False, *queries)

    def test_what_is_held_is_held(self):
        query = Query(QUERY, active=True, state=QueryState(partitions=8))
        assert isinstance(self.decided(True, query, ratio=6), Hold)
