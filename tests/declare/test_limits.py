"""The limits that a stream declares: what there can be, and what contradicts each other."""

from typing import Any

import pytest

from dagster_sparkscale.declare.limits import SourceLimits, StreamingLimits
from tests.declare.refusing import refusal
from tests.fakes import dstream, structured

ENABLED = "spark.streaming.backpressure.enabled"


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
                "max_trigger_delay = 1 min: drop it, or give min_offsets_per_trigger, which is "
                "what a batch waits for",
            ),
            ({"max_trigger_delay": 0.0001}, "max_trigger_delay = 0.0001: must be at least 0.001"),
            (
                {"options": {"kafka.sasl.jaas.config": "x"}},
                "options: 'kafka.sasl.jaas.config': must be the name of an option that bounds a "
                "batch",
            ),
            (
                {"options": {"topic": "clicks"}},
                'options: topic: must be a number, or one with its unit, such as "10m"',
            ),
            ({"options": {"latest": True}}, "options: latest: must be a number"),
            ({"options": "secret"}, "options: must be a dict"),
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
                    "min_rate": 50,
                    "proportional": 0.5,
                    "integral": 0,
                    "derivative": 1,
                },
                {
                    ENABLED: "true",
                    "spark.streaming.backpressure.initialRate": "500",
                    "spark.streaming.receiver.maxRate": "1000",
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
        stream = dstream(receivers=1, limits=limits)
        assert limits.settings(stream) == settings
        assert stream.limits == limits

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            (
                {"initial_rate": 11, "max_rate": 10},
                "initial_rate = 11: must be at most max_rate = 10",
            ),
            ({"min_rate": 11, "max_rate": 10}, "min_rate = 11: must be at most max_rate = 10"),
            # PySpark has no direct stream of Kafka.
            ({"max_rate_per_partition": 2}, "max_rate_per_partition: no such field; the fields"),
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
        ],
    )
    def test_what_goes_together(self, limits: dict[str, Any], fields: dict[str, Any]) -> None:
        made = StreamingLimits(**limits)
        assert dstream(**{"receivers": 1, **fields, "limits": made}).limits == made
