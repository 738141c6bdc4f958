"""The limits that a stream declares: what there can be, and what contradicts each other."""

from typing import Any

import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.backpressure import BackpressurePolicy, Retune
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.limits import SourceLimits, StreamingLimits
from dagster_sparkscale.declare.policies import AutoscalePolicy
from dagster_sparkscale.observe.evaluation import Evaluation
from tests.fakes import dstream, structured

ENABLED = "spark.streaming.backpressure.enabled"


def refusal(make: Any, **fields: Any) -> str:
    with pytest.raises(DeclarationError) as refused:
        make(**fields)
    return str(refused.value)


class TestSourceLimits:
    @pytest.mark.parametrize(
        ("fields", "options"),
        [
            ({}, {}),
            ({"max_offsets_per_trigger": 10_000}, {"maxOffsetsPerTrigger": "10000"}),
            ({"max_offsets_per_trigger": 2**63 - 1}, {"maxOffsetsPerTrigger": str(2**63 - 1)}),
            (
                {
                    "max_offsets_per_trigger": 10,
                    "min_offsets_per_trigger": 10,
                    "max_trigger_delay": "2 min",
                },
                {
                    "maxOffsetsPerTrigger": "10",
                    "minOffsetsPerTrigger": "10",
                    "maxTriggerDelay": "120000ms",
                },
            ),
            (
                {"options": {"maxFilesPerTrigger": 100, "maxBytesPerTrigger": "10m", "rate": 2.5}},
                {"maxFilesPerTrigger": "100", "maxBytesPerTrigger": "10m", "rate": "2.5"},
            ),
        ],
    )
    def test_what_a_source_is_given(self, fields: dict[str, Any], options: dict[str, str]) -> None:
        limits = SourceLimits(**fields)
        assert limits.as_options() == options
        assert structured(limits={"clicks": limits}).limits == {"clicks": limits}

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"max_offsets_per_trigger": 0}, "max_offsets_per_trigger = 0: must be at least 1"),
            (
                {"max_offsets_per_trigger": 2**63},
                f"max_offsets_per_trigger = {2**63}: must be at most 9.22337e+18",
            ),
            (
                {"max_offsets_per_trigger": 10, "min_offsets_per_trigger": 11},
                "min_offsets_per_trigger = 11: must be at most max_offsets_per_trigger = 10",
            ),
            (
                {"min_offsets_per_trigger": 11},
                "min_offsets_per_trigger = 11: must have max_offsets_per_trigger beside it; a "
                "batch that has waited would take all that there is",
            ),
            (
                {"max_offsets_per_trigger": 10, "max_trigger_delay": 60},
                "max_trigger_delay = 60: drop it, or give min_offsets_per_trigger, which is what a "
                "batch waits for",
            ),
            ({"max_trigger_delay": 0.0001}, "max_trigger_delay = 0.0001: must be at least 0.001"),
            (
                {"options": {"kafka.sasl.jaas.config": "x"}},
                "options = {'kafka.sasl.jaas.config': 'x'}: 'kafka.sasl.jaas.config': must be the "
                "name of an option that bounds a batch",
            ),
            (
                {"options": {"topic": "clicks"}},
                "options = {'topic': 'clicks'}: topic: 'clicks': must be a number, or one with its "
                'unit, such as "10m"',
            ),
            ({"options": {"latest": True}}, "options = {'latest': True}: latest: True: must be a"),
            (
                {"options": {"MaxOffsetsPerTrigger": 5}},
                "options: drop MaxOffsetsPerTrigger; it is set by max_offsets_per_trigger",
            ),
            (
                {"options": {"maxFilesPerTrigger": 5, "maxfilespertrigger": 6}},
                "options: drop maxfilespertrigger or maxFilesPerTrigger; to Spark they are one",
            ),
        ],
    )
    def test_what_there_cannot_be(self, fields: dict[str, Any], said: str) -> None:
        assert refusal(SourceLimits, **fields).startswith(f"SourceLimits: {said}")

    @pytest.mark.parametrize("name", ["", "a.b", "a b", "ä", "x" * 64, 5])
    def test_names_that_no_setting_can_have(self, name: Any) -> None:
        said = refusal(structured, limits={name: SourceLimits()})
        assert f"{name!r}: must be the name of a source: letters, digits, underscores and" in said

    def test_names_that_differ_in_case_alone(self) -> None:
        said = refusal(structured, limits={"clicks": SourceLimits(), "Clicks": SourceLimits()})
        assert "'Clicks' and 'clicks': must have names that differ by more than" in said

    @pytest.mark.parametrize("name", ["clicks", "Clicks-2_b", "0", "x" * 63])
    def test_names_that_they_can_have(self, name: str) -> None:
        assert list(structured(limits={name: SourceLimits()}).limits) == [name]

    def test_a_setting_beside_them(self) -> None:
        key = "spark.sparkscale.options.clicks.maxOffsetsPerTrigger"
        assert refusal(structured, spark_conf={key: "1"}).endswith(
            f"spark_conf: drop {key}; it is set by limits"
        )


class TestStreamingLimits:
    @pytest.mark.parametrize(
        ("fields", "settings"),
        [
            ({}, {}),
            ({"backpressure_enabled": False}, {ENABLED: "false"}),
            (
                {
                    "backpressure_enabled": True,
                    "initial_rate": 500,
                    "max_rate": 1000,
                    "max_rate_per_partition": 200,
                    "min_rate_per_partition": 200,
                    "min_rate": 50,
                    "proportional": 0.5,
                    "integral": 0,
                    "derivative": 1,
                },
                {
                    ENABLED: "true",
                    "spark.streaming.backpressure.initialRate": "500",
                    "spark.streaming.receiver.maxRate": "1000",
                    "spark.streaming.kafka.maxRatePerPartition": "200",
                    "spark.streaming.kafka.minRatePerPartition": "200",
                    "spark.streaming.backpressure.pid.minRate": "50.0",
                    "spark.streaming.backpressure.pid.proportional": "0.5",
                    "spark.streaming.backpressure.pid.integral": "0.0",
                    "spark.streaming.backpressure.pid.derived": "1.0",
                },
            ),
        ],
    )
    def test_what_spark_is_given(self, fields: dict[str, Any], settings: dict[str, str]) -> None:
        limits = StreamingLimits(**fields)
        assert limits.as_settings() == settings
        assert dstream(receivers=1, limits=limits).limits == limits

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            (
                {"initial_rate": 11, "max_rate": 10},
                "initial_rate = 11: must be at most max_rate = 10",
            ),
            ({"min_rate": 11, "max_rate": 10}, "min_rate = 11: must be at most max_rate = 10"),
            (
                {"min_rate_per_partition": 3, "max_rate_per_partition": 2},
                "min_rate_per_partition = 3: must be at most max_rate_per_partition = 2",
            ),
            ({"initial_rate": 0}, "initial_rate = 0: must be at least 1"),
            ({"max_rate": 2.5}, "max_rate = 2.5: must be a whole number"),
            ({"integral": -1}, "integral = -1: must be at least 0"),
            ({"backpressure_enabled": "yes"}, "backpressure_enabled = 'yes': must be True or Fal"),
        ],
    )
    def test_what_there_cannot_be(self, fields: dict[str, Any], said: str) -> None:
        assert refusal(StreamingLimits, **fields).startswith(f"StreamingLimits: {said}")

    @pytest.mark.parametrize(
        ("limits", "fields", "said"),
        [
            (
                {"max_rate": 10},
                {"spark_conf": {"spark.streaming.receiver.maxRate": 10}},
                "spark_conf: drop spark.streaming.receiver.maxRate, or limits.max_rate, which sets",
            ),
            (
                {"max_rate": 10},
                {"receivers": 0},
                "limits.max_rate = 10: drop it, or say how many receivers there are; it is of rec",
            ),
            (
                {"initial_rate": 10},
                {"receivers": 0},
                "limits.initial_rate = 10: drop it, or give limits.backpressure_enabled=True; with",
            ),
            (
                {"min_rate": 10},
                {},
                "limits.min_rate = 10: drop it, or give limits.backpressure_enabled=True; it is of",
            ),
            (
                {"proportional": 2, "backpressure_enabled": False},
                {},
                "limits.proportional = 2: drop it, or give limits.backpressure_enabled=True; it is",
            ),
            (
                {"max_rate": 1},
                {"batch_interval": "500ms"},
                "limits.max_rate = 1: must be at least 2, which is one record in a batch interval "
                "of 0.5 s",
            ),
            (
                {"backpressure_enabled": True, "min_rate": 0.05},
                {},
                "limits.min_rate = 0.05: must be at least 0.1, which is one record in a batch int",
            ),
            (
                {"max_rate_per_partition": 1},
                {"batch_interval": "500ms"},
                "limits.max_rate_per_partition = 1: must be at least 2, which is one record in a ",
            ),
            (
                {"initial_rate": 1},
                {"batch_interval": "500ms"},
                "limits.initial_rate = 1: must be at least 2, which is one record in a batch int",
            ),
        ],
    )
    def test_what_has_no_effect_or_contradicts_the_stream(
        self, limits: dict[str, Any], fields: dict[str, Any], said: str
    ) -> None:
        given = {"receivers": 1, **fields, "limits": StreamingLimits(**limits)}
        assert refusal(dstream, **given).startswith(f"DStream 'clicks': {said}")

    @pytest.mark.parametrize(
        ("limits", "fields"),
        [
            ({"initial_rate": 10, "backpressure_enabled": True}, {"receivers": 0}),
            ({"min_rate": 10}, {"spark_conf": {ENABLED: " TRUE"}}),
            ({"max_rate": 1}, {"batch_interval": "1s"}),
            ({"max_rate_per_partition": 5}, {"receivers": 0}),
        ],
    )
    def test_what_goes_together(self, limits: dict[str, Any], fields: dict[str, Any]) -> None:
        made = StreamingLimits(**limits)
        assert dstream(**{"receivers": 1, **fields, "limits": made}).limits == made


BOTH = "two estimators would fight over the same limits"


class TestBackpressurePolicy:
    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"min_rate": 100, "max_rate": 99}, "max_rate = 99: must be at least min_rate = 100"),
            ({"max_rate": 99}, "max_rate = 99: must be at least min_rate = 100"),
            ({"initial_rate": 99}, "initial_rate = 99: must be at least min_rate = 100"),
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
            {"limits": StreamingLimits(max_rate_per_partition=3)},
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
            ({"schedule": "nightly"}, "schedule = 'nightly': must be a cron schedule of five"),
            ({"timezone": "Mars"}, "timezone = 'Mars': must be the name of a timezone"),
            (
                {"timezone": "UTC", "schedule": None},
                "timezone = 'UTC': drop it, or give schedule, which it is for",
            ),
            (
                {"history": "1h", "verify_after": "1h"},
                "verify_after = 3600: must be below history = 3600",
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
