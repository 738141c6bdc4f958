"""A declaration that has changed since the driver was started is seen, secrets are not."""

import json
from typing import Any

import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.drift import declared, drift, until_restart
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
        ({}, {"executor_memory": "2g"}, "executor_memory 1g -> 2g"),
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
        {"tasks_per_shard": 2},
    ],
)
def test_what_needs_no_restart_is_no_drift(now: dict[str, Any]) -> None:
    assert changes({}, now) == ()


def test_another_spelling_of_a_checkpoint_is_no_drift() -> None:
    assert changes({"checkpoint_location": "/x"}, {"checkpoint_location": "file:///x/"}) == ()


@pytest.mark.parametrize(
    ("before", "now", "lines"),
    [
        ("/x/", "/x", ()),
        ("s3://b/x", "s3a://b/x", ()),
        ("ck", "ck", ()),
        ("/x/", "/y", ("checkpoint_location /x/ -> file:///y",)),
        ("none", "/y", ("checkpoint_location none -> file:///y",)),
        ("/x/", None, ("checkpoint_location /x/ -> none",)),
        ("//[", "/y", ("checkpoint_location //[ -> file:///y",)),
    ],
)
def test_a_checkpoint_that_was_remembered_as_it_was_declared_is_compared_as_what_it_means(
    before: str, now: str | None, lines: tuple[str, ...]
) -> None:
    """As releases before 0.1.0 did."""
    stream = structured(checkpoint_location=now)
    assert drift({**declared(stream), "checkpoint_location": before}, stream) == lines


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
    restart = "restart the stream to apply it"
    assert (restart in (bounds.note or "")) == (started_with == 4 and now != 4)


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
