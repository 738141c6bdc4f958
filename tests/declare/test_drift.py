"""A declaration that has changed since the driver was started is seen, secrets are not."""

import json
from typing import Any

import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.backpressure import BackpressurePolicy, Retune
from dagster_sparkscale.declare.drift import declared, drift, executors_at_start, until_restart
from dagster_sparkscale.declare.limits import SourceLimits, StreamingLimits
from dagster_sparkscale.declare.state import State
from tests.fakes import dstream, structured


def changes(before: dict[str, Any], now: dict[str, Any]) -> tuple[str, ...]:
    return drift(declared(structured(**before)), structured(**now))


@pytest.mark.parametrize(
    ("before", "now", "line"),
    [
        (
            {"autoscale": RatioPolicy(max_executors=4)},
            {"autoscale": RatioPolicy(max_executors=8)},
            "max_executors 4 -> 8",
        ),
        ({}, {"autoscale": RatioPolicy(max_executors=8)}, "max_executors none -> 8"),
        ({"executors": 3}, {"executors": 5}, "executors 3 -> 5"),
        ({"executors": 3}, {}, "executors 3 -> 1"),
        (
            {"autoscale": RatioPolicy(initial_executors=2)},
            {"autoscale": RatioPolicy(initial_executors=4)},
            "initial_executors 2 -> 4",
        ),
        (
            {"autoscale": RatioPolicy()},
            {"autoscale": RatioPolicy(initial_executors=4)},
            "initial_executors none -> 4",
        ),
        ({}, {"executor_memory": "2g"}, "executor_memory 1g -> 2g"),
        ({}, {"executor_cores": 2}, "executor_cores 1 -> 2"),
        ({}, {"driver_memory": "2g"}, "driver_memory 1g -> 2g"),
        ({}, {"batch_interval": "2.5s"}, "batch_interval 10 -> 2.5"),
        ({}, {"program": "jobs/other.py"}, "program jobs/clicks.py -> jobs/other.py"),
        ({}, {"checkpoint_location": "/x"}, "checkpoint_location none -> file:///x"),
        ({}, {"arguments": ("--x",)}, "arguments has changed"),
        ({"spark_conf": {"spark.a": "1"}}, {}, "spark_conf spark.a is not set any more"),
        ({}, {"env": {"TOKEN": "hunter2"}}, "env TOKEN is set now"),
        ({"env": {"TOKEN": "a"}}, {"env": {"TOKEN": "b"}}, "env TOKEN has changed"),
    ],
)
def test_what_a_restart_would_change_is_told(
    before: dict[str, Any], now: dict[str, Any], line: str
) -> None:
    assert changes(before, now) == (line,)
    assert changes(now, now) == changes(before, before) == ()


@pytest.mark.parametrize(
    "now",
    [
        {"description": "other words"},
        {"autoscale": RatioPolicy(scale_up_ratio=0.8)},
        {"autoscale": RatioPolicy(min_executors=2)},
        {"autoscale": RatioPolicy()},
        {"tasks_per_shard": 2},
    ],
)
def test_what_needs_no_restart_is_no_drift(now: dict[str, Any]) -> None:
    assert changes({}, now) == ()


GROUPS = "for queries that have none yet; what one has is fixed"
PLAIN = "for what its page says; reconfigure_state goes by it already"
PARTITIONS = "for queries that have not run yet; reconfigure_state changes others"


@pytest.mark.parametrize(
    ("before", "now", "lines"),
    [
        (None, {}, (f"state.key_groups is 128 now ({GROUPS})",)),
        ({}, None, ("state.key_groups is not set any more",)),
        ({}, {"key_groups": 256}, (f"state.key_groups 128 -> 256 ({GROUPS})",)),
        ({}, {"partitions": 8}, (f"state.partitions is 8 now ({PARTITIONS})",)),
        ({"partitions": 8}, {"partitions": 16}, (f"state.partitions 8 -> 16 ({PARTITIONS})",)),
        ({"partitions": 8}, {}, ("state.partitions is not set any more",)),
        ({}, {"plain_hash": True}, (f"state.plain_hash is true now ({PLAIN})",)),
        # What Dagster alone goes by.
        ({}, {"maintenance": "@daily", "timezone": "UTC", "within": "1h"}, ()),
        ({}, {"rows_per_partition": 9, "align_executors": True}, ()),
        ({}, {"standstill": "restart"}, ()),
        ({}, {"beside_rows": 0, "beside_executors": 2, "replay": True}, ()),
    ],
)
def test_of_state_it_is_told_how_far_a_restart_goes(
    before: dict[str, Any] | None, now: dict[str, Any] | None, lines: tuple[str, ...]
) -> None:
    def fields(state: dict[str, Any] | None) -> dict[str, Any]:
        made = None if state is None else State(**{"key_groups": 128, **state})
        return {"checkpoint_location": "/c", "state": made}

    assert changes(fields(before), fields(now)) == lines
    assert changes(fields(now), fields(now)) == ()


@pytest.mark.parametrize(
    ("before", "now", "lines"),
    [
        (None, {}, ("backpressure none -> work",)),
        ({}, None, ("backpressure is not set any more (it was work)",)),
        ({}, {"estimator": "pid"}, ("backpressure work -> pid",)),
        (
            {},
            {"min_rate": 50, "max_rate": 500},
            (
                "backpressure.max_rate none -> 500",
                "backpressure.min_rate 100 -> 50",
            ),
        ),
        ({"max_rate": 500}, {}, ("backpressure.max_rate is not set any more (it was 500)",)),
        ({}, {"sources": ("a", "b")}, ("backpressure.sources all -> a, b",)),
        (
            {"estimator": "pid"},
            {"estimator": "pid", "integral": 0.5},
            ("backpressure.integral 0.2 -> 0.5",),
        ),
    ],
)
def test_another_backpressure_needs_a_restart(
    before: dict[str, Any] | None, now: dict[str, Any] | None, lines: tuple[str, ...]
) -> None:
    def fields(policy: dict[str, Any] | None) -> dict[str, Any]:
        return {"backpressure": None if policy is None else BackpressurePolicy(**policy)}

    assert changes(fields(before), fields(now)) == lines
    assert changes(fields(now), fields(now)) == ()


@pytest.mark.parametrize(
    ("before", "now", "lines"),
    [
        ({}, {"clicks": {}}, ("limits.clicks none -> no limit",)),
        (
            {},
            {"clicks": {"max_offsets_per_trigger": 1000}},
            ("limits.clicks.maxOffsetsPerTrigger none -> 1000",),
        ),
        (
            {"clicks": {"max_offsets_per_trigger": 1000}},
            {"clicks": {"max_offsets_per_trigger": 2000, "min_offsets_per_trigger": 5}},
            (
                "limits.clicks.maxOffsetsPerTrigger 1000 -> 2000",
                "limits.clicks.minOffsetsPerTrigger none -> 5",
            ),
        ),
        (
            {"clicks": {"options": {"maxFilesPerTrigger": 5}}},
            {},
            ("limits.clicks.maxFilesPerTrigger is not set any more (it was 5)",),
        ),
    ],
)
def test_other_limits_of_sources_need_a_restart(
    before: dict[str, Any], now: dict[str, Any], lines: tuple[str, ...]
) -> None:
    def fields(limits: dict[str, Any]) -> dict[str, Any]:
        return {"limits": {name: SourceLimits(**given) for name, given in limits.items()}}

    assert changes(fields(before), fields(now)) == lines


def test_other_limits_of_a_dstream_need_a_restart() -> None:
    before = dstream(receivers=1, limits=StreamingLimits(max_rate=500, initial_rate=100))
    limits = StreamingLimits(max_rate=600, backpressure_enabled=True)
    now = dstream(receivers=1, limits=limits)
    assert drift(declared(before), now) == (
        "limits.backpressure_enabled none -> true",
        "limits.initial_rate is not set any more (it was 100)",
        "limits.max_rate 500 -> 600",
    )
    assert drift(declared(before), before) == drift(declared(now), now) == ()


def test_of_a_policy_is_remembered_what_its_estimator_goes_by() -> None:
    def fields(**policy: Any) -> set[str]:
        plain = declared(structured(backpressure=BackpressurePolicy(**policy)))
        return {name for name in plain if name.startswith("backpressure")}

    both = {"backpressure", "backpressure.min_rate", "backpressure.sources"}
    assert fields() == both | {"backpressure.target_ratio"}
    weights = {f"backpressure.{name}" for name in ("proportional", "integral", "derivative")}
    assert fields(estimator="pid", max_rate=500) == both | weights | {"backpressure.max_rate"}


def test_each_source_is_remembered() -> None:
    limits = {name: SourceLimits(max_offsets_per_trigger=5) for name in ("a", "b")}
    stream = structured(limits=limits, backpressure=BackpressurePolicy())
    plain = declared(stream)
    assert {"limits.a.maxOffsetsPerTrigger", "limits.b.maxOffsetsPerTrigger"} < plain.keys()
    beside = dstream(
        receivers=1, limits=StreamingLimits(max_rate=500), backpressure=BackpressurePolicy()
    )
    assert {"limits.max_rate", "backpressure"} < declared(beside).keys()


def test_how_limits_are_looked_over_needs_no_restart() -> None:
    policy = {"backpressure": BackpressurePolicy()}
    assert changes(policy, {**policy, "retune": Retune(least_gain=0.5)}) == ()


def test_another_spelling_of_a_checkpoint_is_no_drift() -> None:
    assert changes({"checkpoint_location": "/x"}, {"checkpoint_location": "file:///x/"}) == ()


def test_a_number_to_begin_with_that_is_not_declared_any_more_changes_nothing() -> None:
    policy = RatioPolicy(initial_executors=4)
    assert changes({"autoscale": policy}, {"autoscale": RatioPolicy()}) == ()


@pytest.mark.parametrize(
    ("started_with", "now", "maximum"),
    [(4, 8, 4), (4, None, 4), (8, 4, 4), (None, 4, 4), (4, 4, 4), (None, None, None)],
)
def test_a_driver_goes_no_further_than_it_was_started_with(
    started_with: int | None, now: int | None, maximum: int | None
) -> None:
    before = declared(structured(autoscale=RatioPolicy(max_executors=started_with)))
    bounds = until_restart(before, structured(autoscale=RatioPolicy(max_executors=now)).bounds)
    assert bounds.maximum == maximum
    raised = started_with == 4 and now != 4
    said = "no maximum" if now is None else f"a maximum of {now}"
    note = (
        f"{said} is declared by now, but the driver was started with 4: restart the stream to "
        "apply it"
    )
    assert bounds.note == (note if raised else None)


def test_a_minimum_that_the_driver_can_not_reach_is_not_asked_of_it() -> None:
    """Bounds of 3 to 4 became 6 to 8: the driver stays at 4 until it is restarted."""
    before = declared(structured(autoscale=RatioPolicy(min_executors=3, max_executors=4)))
    raised = structured(autoscale=RatioPolicy(min_executors=6, max_executors=8)).bounds
    bounds = until_restart(before, raised)
    assert (bounds.minimum, bounds.maximum) == (4, 4)
    assert bounds.note is not None and "started with 4: restart the stream" in bounds.note


def test_of_what_is_not_known_nothing_is_said() -> None:
    assert drift(None, structured()) == ()


def test_arguments_that_a_function_makes_are_known_at_a_start_only() -> None:
    assert changes({"arguments": ("a",)}, {"arguments": lambda: ["b"]}) == ()


def test_no_secret_is_in_it() -> None:
    told = declared(
        dstream(env={"A": "hunter2"}, spark_conf={"spark.b": "hunter3"}, arguments=("hunter4",))
    )
    assert "hunter" not in json.dumps(told)


def test_how_many_executors_to_begin_with_is_no_drift_where_an_older_release_started_it() -> None:
    stream = structured(executors=3)
    before = {name: value for name, value in declared(stream).items() if name != "executors"}
    assert drift(before, stream) == ()


POLICY = RatioPolicy(min_executors=2, max_executors=8)


@pytest.mark.parametrize(
    ("fields", "last", "before", "executors"),
    [
        # Nothing is known: as declared.
        ({"executors": 3}, None, None, 3),
        ({"autoscale": POLICY}, None, None, 2),
        # The driver before had some.
        ({"executors": 3}, 5, {"executors": 3}, 5),
        ({"autoscale": POLICY}, 5, {"autoscale": POLICY}, 5),
        ({"autoscale": POLICY}, 9, {"autoscale": RatioPolicy()}, 8),
        ({"autoscale": POLICY}, 1, {"autoscale": RatioPolicy()}, 2),
        # Another number is declared now.
        ({"executors": 4}, 5, {"executors": 3}, 4),
        ({"autoscale": RatioPolicy(initial_executors=3)}, 5, {"autoscale": RatioPolicy()}, 3),
        (
            {"autoscale": RatioPolicy(initial_executors=3)},
            5,
            {"autoscale": RatioPolicy(initial_executors=3)},
            5,
        ),
        ({"autoscale": RatioPolicy()}, 5, {"autoscale": RatioPolicy(initial_executors=3)}, 5),
        ({"autoscale": POLICY}, 5, {"executors": 3}, 5),
        # What was declared then was not remembered, by an older release.
        ({"executors": 3}, 5, None, 5),
        ({"autoscale": RatioPolicy(initial_executors=3)}, 5, None, 5),
    ],
)
def test_a_new_driver_begins_with_the_executors_that_the_one_before_had(
    fields: dict[str, Any], last: int | None, before: dict[str, Any] | None, executors: int
) -> None:
    then = None if before is None else declared(structured(**before))
    assert executors_at_start(structured(**fields), last, then) == executors
