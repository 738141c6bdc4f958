"""Backpressure that a stream declares, and that its limits are retuned."""

from typing import Any

import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.backpressure import BackpressurePolicy, Retune
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold
from dagster_sparkscale.declare.limits import SourceLimits, StreamingLimits
from dagster_sparkscale.declare.policies import AutoscalePolicy
from dagster_sparkscale.observe.evaluation import Evaluation
from tests.declare.refusing import refusal
from tests.fakes import dstream, structured

ENABLED = "spark.streaming.backpressure.enabled"
DEFAULT = "its default; give a lower min_rate as well"
BOTH = "two estimators would fight over the same limits"


class TestBackpressurePolicy:
    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"min_rate": 100, "max_rate": 99}, "max_rate = 99: must be at least min_rate = 100"),
            ({"max_rate": 99}, f"max_rate = 99: must be at least min_rate = 100, {DEFAULT}"),
            ({"initial_rate": 9}, f"initial_rate = 9: must be at least min_rate = 100, {DEFAULT}"),
            (
                {"initial_rate": 301, "max_rate": 300},
                "initial_rate = 301: must be at most max_rate = 300",
            ),
            ({"estimator": "PID"}, "estimator = 'PID': must be 'work' or 'pid'"),
            (
                {"integral": 0.2},
                "integral = 0.2: drop it, or give estimator='pid', which it is for",
            ),
            (
                {"estimator": "pid", "target_ratio": 0.9},
                "target_ratio = 0.9: drop it, or give estimator='work', which it is for",
            ),
            ({"sources": ("a", "b", "a")}, "sources = ('a', 'b', 'a'): 'a' must be there once"),
            ({"sources": ("",)}, "sources.0 = '': must be text that is not empty"),
        ],
    )
    def test_what_there_cannot_be(self, fields: dict[str, Any], said: str) -> None:
        assert refusal(BackpressurePolicy, **fields) == f"BackpressurePolicy: {said}"

    def test_bounds_may_meet(self) -> None:
        policy = BackpressurePolicy(min_rate=5, initial_rate=5, max_rate=5)
        assert structured(backpressure=policy).backpressure == policy

    @pytest.mark.parametrize(
        ("policy", "fields", "said"),
        [
            ({}, {"spark_conf": {ENABLED: True}}, f"spark_conf: drop {ENABLED} = true, or backpr"),
            (
                {},
                {"limits": StreamingLimits(backpressure_enabled=True)},
                f"limits.backpressure_enabled = True: drop it, or backpressure; {BOTH}",
            ),
            (
                {},
                {"spark_conf": {"spark.streaming.backpressure.initialRate": 100}},
                "spark_conf: drop spark.streaming.backpressure.initialRate; it is set by backpres",
            ),
            (
                {},
                {"limits": StreamingLimits(initial_rate=500)},
                "limits.initial_rate = 500: drop it; with a BackpressurePolicy it is backpressure."
                "initial_rate",
            ),
            (
                {},
                {"limits": StreamingLimits(min_rate=500)},
                "limits.min_rate = 500: drop it; with a BackpressurePolicy it is backpressure.min",
            ),
            (
                {},
                {"limits": StreamingLimits(max_rate=99)},
                "backpressure.min_rate = 100: must be at most limits.max_rate = 99, which no rece",
            ),
            (
                {"initial_rate": 200},
                {"limits": StreamingLimits(max_rate=199)},
                "backpressure.initial_rate = 200: must be at most limits.max_rate = 199",
            ),
            (
                {"max_rate": 200},
                {"limits": StreamingLimits(max_rate=199)},
                "backpressure.max_rate = 200: must be at most limits.max_rate = 199",
            ),
            (
                {"min_rate": 0.05},
                {},
                "backpressure.min_rate = 0.05: must be at least 0.1, which is one record in a bat",
            ),
            (
                {"sources": ("receiver-0",)},
                {"receivers": 0},
                "backpressure.sources: drop 'receiver-0'; the stream has no receivers",
            ),
            (
                {"sources": ("receiver-x",)},
                {},
                "backpressure.sources: 'receiver-x': must be a receiver by its stream id, as 're",
            ),
        ],
    )
    def test_what_contradicts_the_stream(
        self, policy: dict[str, Any], fields: dict[str, Any], said: str
    ) -> None:
        given = {"receivers": 1, **fields, "backpressure": BackpressurePolicy(**policy)}
        assert refusal(dstream, **given).startswith(f"DStream 'clicks': {said}")

    def test_a_structured_stream_has_no_receivers(self) -> None:
        policy = BackpressurePolicy(sources=("receiver-0",))
        assert "drop 'receiver-0'" in refusal(structured, backpressure=policy)

    @pytest.mark.parametrize(
        "fields",
        [
            {"spark_conf": {ENABLED: "false"}},
            {"limits": StreamingLimits(max_rate=100, backpressure_enabled=False)},
        ],
    )
    def test_what_goes_together(self, fields: dict[str, Any]) -> None:
        policy = BackpressurePolicy(sources=("receiver-0", "clicks.de"))
        assert dstream(receivers=1, backpressure=policy, **fields).backpressure == policy

    @pytest.mark.parametrize(
        ("target", "least", "autoscale", "above"),
        [
            (0.6, None, {}, "0.6"),
            (0.2, None, {}, "0.6"),
            (0.39, 3, {}, "0.4"),
            (0.5, 4, {"scale_down_ratio": 0.5}, "0.625"),
        ],
    )
    def test_a_share_at_which_an_executor_that_was_added_is_removed_again(
        self, target: float, least: int | None, autoscale: dict[str, float], above: str
    ) -> None:
        policy = BackpressurePolicy(target_ratio=target)
        scaling = RatioPolicy(min_executors=least, **autoscale)
        said = refusal(structured, backpressure=policy, autoscale=scaling)
        assert f"backpressure.target_ratio = {target:g}: must be above {above}; with one" in said

    @pytest.mark.parametrize(
        ("policy", "autoscale"),
        [
            (BackpressurePolicy(target_ratio=0.61), RatioPolicy()),
            (BackpressurePolicy(target_ratio=0.41), RatioPolicy(min_executors=3)),
            # These thresholds do that by themselves.
            (BackpressurePolicy(), RatioPolicy.spark_12133()),
            (BackpressurePolicy(estimator="pid"), RatioPolicy()),
            (BackpressurePolicy(target_ratio=0.2), None),
            (BackpressurePolicy(), RatioPolicy(scale_up_ratio=0.8, scale_down_ratio=0.4)),
        ],
    )
    def test_a_share_that_leaves_the_autoscaler_room(
        self, policy: BackpressurePolicy, autoscale: RatioPolicy | None
    ) -> None:
        assert structured(backpressure=policy, autoscale=autoscale).backpressure == policy

    def test_a_policy_of_ones_own_has_no_thresholds_to_look_at(self) -> None:
        class Own(AutoscalePolicy):
            def decide(self, bounds: Bounds, seen: Evaluation) -> Hold:
                return Hold("always")

        policy = BackpressurePolicy(target_ratio=0.1)
        assert structured(backpressure=policy, autoscale=Own()).backpressure == policy

    @pytest.mark.parametrize(
        ("sources", "receivers", "covered"),
        [
            ((), 0, False),
            ((), 1, True),
            ((), 2, True),
            (("receiver-0",), 2, False),
            (("receiver-0", "receiver-1"), 2, True),
            (("clicks",), 1, False),
        ],
    )
    def test_which_streams_have_all_their_receivers_limited(
        self, sources: tuple[str, ...], receivers: int, covered: bool
    ) -> None:
        assert BackpressurePolicy(sources=sources).covers_receivers(receivers) is covered


class TestRetune:
    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"schedule": "daily"}, "schedule = 'daily': must be a cron schedule of five"),
            ({"timezone": "Mars"}, "timezone = 'Mars': must be the name of a timezone"),
            (
                {"timezone": "UTC", "schedule": None},
                "timezone = 'UTC': drop it, or give schedule, which it is for",
            ),
            (
                {"history": "1h", "verify_after": "1h"},
                "verify_after = 1 h: must be below history = 1 h",
            ),
            ({"least_gain": 0}, "least_gain = 0: must be above 0"),
            ({"apply": "no"}, "apply = 'no': must be True or False"),
        ],
    )
    def test_what_there_cannot_be(self, fields: dict[str, Any], said: str) -> None:
        assert refusal(Retune, **fields).startswith(f"Retune: {said}")

    @pytest.mark.parametrize("make", [structured, dstream])
    def test_without_anything_to_tune(self, make: Any) -> None:
        said = "retune: drop it, or give backpressure or limits; there is nothing to tune"
        assert refusal(make, retune=Retune()).endswith(said)

    def test_with_something_to_tune(self) -> None:
        retune = Retune()
        for stream in (
            structured(retune=retune, backpressure=BackpressurePolicy()),
            structured(retune=retune, limits={"clicks": SourceLimits()}),
            dstream(retune=retune, limits=StreamingLimits()),
        ):
            assert stream.retune == retune
