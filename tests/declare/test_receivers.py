"""What is declared of receivers, and what is refused of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.drift import declared, drift, executors_at_start
from dagster_sparkscale.declare.receivers import (
    ReceiverCount,
    ReceiverPolicy,
    fitting_executors,
)
from dagster_sparkscale.declare.streams import DStream
from dagster_sparkscale.driver.settings import WRITE_AHEAD_LOG
from tests.declare.refusing import refusal
from tests.fakes import dstream, structured

FITTING = ReceiverPolicy(removal="fitting")
LOGGED = {"checkpoint_location": "/c", "spark_conf": {WRITE_AHEAD_LOG: "true"}}


def counting(receivers: int = 2, **fields: Any) -> DStream:
    """A stream whose number of receivers may change."""
    count = fields.pop("count", ReceiverCount(maximum=4))
    removal = fields.pop("removal", "fitting")
    policy = ReceiverPolicy(count=count, removal=removal)
    return dstream(receivers=receivers, receiver_policy=policy, **{**LOGGED, **fields})


def refused(make: Any, *args: Any, **fields: Any) -> str:
    return refusal(make, *args, **fields).partition(": ")[2]


class TestPolicy:
    def test_receivers_stay_where_they_are_and_as_many_unless_told_otherwise(self) -> None:
        assert (dstream(receivers=2).receiver_policy, ReceiverPolicy().removal) == (None, "never")
        assert (ReceiverPolicy().rebalance, ReceiverPolicy().count) == (True, None)

    def test_bounds_and_thresholds_in_order(self) -> None:
        assert refused(ReceiverCount, minimum=3, maximum=2) == (
            "maximum = 2: must be at least minimum = 3"
        )
        for down in (0.9, 0.95):
            said = refused(ReceiverCount, maximum=2, scale_down_ratio=down)
            assert said == f"scale_up_ratio = 0.9: must be above scale_down_ratio = {down:g}"
        assert ReceiverCount(minimum=2, maximum=2).clamp(7) == 2
        assert [ReceiverCount(minimum=2, maximum=4).clamp(n) for n in (1, 2, 4, 5)] == [2, 2, 4, 4]

    def test_what_needs_receivers_is_refused_without(self) -> None:
        assert refused(dstream, receiver_policy=FITTING) == (
            "receiver_policy: drop it, or say how many receivers there are; the stream has none"
        )

    def test_structured_streams_have_none(self) -> None:
        assert "receiver_policy: no such field" in refused(structured, receiver_policy=FITTING)


class TestCount:
    def test_the_number_to_begin_with_is_within_its_bounds(self) -> None:
        for receivers, count in (
            (1, ReceiverCount(minimum=2, maximum=4)),
            (5, ReceiverCount(maximum=4)),
        ):
            said = refused(counting, receivers, count=count)
            assert said == (
                f"receivers = {receivers}: must be within receiver_policy.count, {count.minimum} "
                "to 4; it is what the stream begins with"
            )
        assert counting(4).receivers == 4

    def test_it_needs_a_checkpoint(self) -> None:
        assert refused(counting, checkpoint_location=None).startswith(
            "checkpoint_location = None: must be given with receiver_policy.count"
        )

    @pytest.mark.parametrize(
        ("conf", "said"), [({}, "missing"), ({WRITE_AHEAD_LOG: "false"}, "'false'")]
    )
    def test_it_needs_the_write_ahead_log(self, conf: dict[str, str], said: str) -> None:
        assert refused(counting, spark_conf=conf) == (
            f"spark_conf: {WRITE_AHEAD_LOG}: {said}; must be true with receiver_policy.count, or a "
            "change of the number could lose what was received"
        )
        assert counting(spark_conf={WRITE_AHEAD_LOG: True}).receivers == 2

    @pytest.mark.parametrize(("executors", "cores", "most"), [(4, 1, 3), (2, 2, 3), (5, 1, 4)])
    def test_a_maximum_that_would_take_every_core_is_refused_with_the_numbers(
        self, executors: int, cores: int, most: int
    ) -> None:
        fields = {
            "executor_cores": cores,
            "autoscale": RatioPolicy(max_executors=executors),
        }
        assert counting(count=ReceiverCount(maximum=most), **fields).receivers == 2
        said = refused(counting, count=ReceiverCount(maximum=most + 1), **fields)
        assert said == (
            f"receiver_policy.count.maximum = {most + 1}: must be at most {most}; so many "
            f"receivers would take every core of the maximum of {executors} executor(s) of "
            f"{cores} core(s), and no batch could run"
        )

    def test_cores_of_the_application_bound_it_as_well(self) -> None:
        conf = {**LOGGED["spark_conf"], "spark.cores.max": "4"}  # type: ignore[dict-item]
        assert "must be at most 3" in refused(counting, spark_conf=conf)

    def test_a_task_of_several_cores_takes_as_many(self) -> None:
        conf = {**LOGGED["spark_conf"], "spark.task.cpus": "2"}  # type: ignore[dict-item]
        fields = {"executor_cores": 4, "autoscale": RatioPolicy(max_executors=2)}
        said = refused(counting, spark_conf=conf, **fields)
        assert (
            "must be at most 3; so many receivers would take every core of the maximum of 2 "
            in said
        )
        assert "executor(s) of 4 core(s), which run 2 task(s)" in said


class TestExecutors:
    @pytest.mark.parametrize(
        ("receivers", "cores", "never", "fitting"),
        [(1, 1, 2, 2), (5, 4, 5, 2), (4, 4, 4, 2), (3, 4, 3, 1), (2, 1, 3, 3), (1, 4, 1, 1)],
    )
    def test_the_fewest_are_as_the_rule_of_removal_has_it(
        self, receivers: int, cores: int, never: int, fitting: int
    ) -> None:
        given = {"receivers": receivers, "executor_cores": cores}
        assert dstream(**given).bounds.minimum == never
        assert dstream(**given, receiver_policy=ReceiverPolicy()).bounds.minimum == never
        assert dstream(**given, receiver_policy=FITTING).bounds.minimum == fitting

    @given(st.integers(1, 20), st.integers(1, 8))
    def test_they_run_all_receivers_and_one_task_more_and_no_fewer_do(
        self, receivers: int, tasks: int
    ) -> None:
        least = fitting_executors(receivers, tasks)
        assert least * tasks >= receivers + 1 > (least - 1) * tasks

    def test_of_tasks_with_several_cores_fewer_fit(self) -> None:
        conf = {"spark.task.cpus": "2"}
        given = {"receivers": 2, "executor_cores": 4, "spark_conf": conf}
        assert dstream(**given, receiver_policy=FITTING).bounds.minimum == 2
        said = refused(dstream, **given, autoscale=RatioPolicy(min_executors=1))
        assert said.startswith(
            "receivers = 2: would take every core of the minimum of 1 executor(s) of 4 core(s), "
            "which run 2 task(s)"
        )

    def test_executors_to_begin_with_that_all_receivers_would_take_are_refused(self) -> None:
        given = {"receivers": 4, "executor_cores": 2, "receiver_policy": FITTING}
        policy = RatioPolicy(initial_executors=2, max_executors=8)
        assert refused(dstream, **given, autoscale=policy).startswith(
            "autoscale.initial_executors = 2: must be at least 3"
        )

    def test_what_fewest_executors_come_of_is_said(self) -> None:
        given = {"receivers": 5, "executor_cores": 4}
        most = {"autoscale": RatioPolicy(max_executors=1)}
        assert refused(dstream, **given, **most) == (
            "autoscale.max_executors = 1: must be at least 5, the fewest executors this stream can "
            "run with: one for each of 5 receivers; with receiver_policy.removal = 'fitting' 2 "
            "would do"
        )
        assert refused(dstream, **given, **most, receiver_policy=FITTING).endswith(
            "must be at least 2, the fewest executors this stream can run with: 5 receiver(s) and "
            "a task of a batch have to fit on them"
        )
        said = refused(dstream, **given, autoscale=RatioPolicy(initial_executors=4))
        assert "one for each of 5 receivers" in said

    @pytest.mark.parametrize(("receivers", "least"), [(1, 1), (2, 2), (3, 2), (4, 3)])
    def test_more_receivers_need_more_executors(self, receivers: int, least: int) -> None:
        stream = counting(1, executor_cores=2, autoscale=RatioPolicy(max_executors=8))
        assert stream.bounds_for(None, receivers).minimum == least
        assert executors_at_start(stream, 1, declared(stream), receivers) == least
        assert executors_at_start(stream, None, None, receivers) == least

    def test_a_declared_minimum_gives_way_to_what_they_need(self) -> None:
        policy = RatioPolicy(min_executors=2, max_executors=8)
        stream = counting(1, executor_cores=2, autoscale=policy)
        assert [stream.bounds_with(n).minimum for n in (1, 3, 4)] == [2, 2, 3]

    def test_executors_of_a_stream_without_a_policy_are_as_many_as_they_need(self) -> None:
        stream = counting(1, executor_cores=2, executors=1)
        assert [stream.bounds_with(n).initial for n in (1, 3, 4)] == [1, 2, 3]
        assert executors_at_start(stream, 1, declared(stream), 4) == 3

    def test_one_for_each_is_no_reason_to_need_more_than_there_can_be(self) -> None:
        policy = RatioPolicy(max_executors=3)
        stream = counting(1, executor_cores=2, removal="never", autoscale=policy)
        assert [stream.bounds_with(n).minimum for n in (2, 3, 4)] == [2, 3, 3]


class TestDrift:
    def test_a_changed_number_and_rule_are_told(self) -> None:
        before = declared(dstream(receivers=2, executors=5))
        now = dstream(receivers=3, executors=5, receiver_policy=FITTING)
        assert drift(before, now) == (
            "receiver_policy.removal never -> fitting",
            "receivers 2 -> 3",
        )
        assert drift(declared(now), dstream(receivers=3, executors=5)) == (
            "receiver_policy.removal fitting -> never",
        )

    def test_what_needs_no_restart_is_not(self) -> None:
        before = declared(counting(removal="never"))
        count = ReceiverCount(maximum=9, capacity=5)
        policy = ReceiverPolicy(rebalance=False, count=count)
        assert drift(before, dstream(receivers=2, receiver_policy=policy, **LOGGED)) == ()

    def test_what_an_older_release_did_not_remember_is_not_known(self) -> None:
        before = {**declared(dstream(receivers=2, executors=5))}
        del before["receivers"]
        assert drift(before, dstream(receivers=3, executors=5)) == ()


@pytest.mark.parametrize(
    ("setting", "by"),
    [
        ("spark.sparkscale.receivers.removal", "receiver_policy.removal"),
        ("spark.sparkscale.receivers", "receivers, and the operation set_receivers"),
        ("spark.sparkscale.receivers.generation", "the operation set_receivers"),
    ],
)
def test_settings_of_ours_are_not_for_spark_conf(setting: str, by: str) -> None:
    said = refused(dstream, receivers=1, spark_conf={setting: "1"})
    assert said == f"spark_conf: drop {setting}; it is set by {by}"
