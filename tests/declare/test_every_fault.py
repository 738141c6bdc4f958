"""Each thing that is wrong with a declaration is a line of its own."""

import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.limits import SourceLimits
from dagster_sparkscale.declare.state import State
from dagster_sparkscale.declare.streams import StructuredStream
from tests.declare.refusing import refusal
from tests.fakes import structured


def test_of_a_state() -> None:
    lines = refusal(State, key_groups=128, maintenance="daily", timezone="Mars").splitlines()
    assert [line.partition(" must")[0] for line in lines] == [
        "State: maintenance = 'daily':",
        "State: timezone = 'Mars':",
    ]


def test_of_a_state_whose_fields_do_not_go_together() -> None:
    first, second = refusal(State, key_groups=128, partitions=3, timezone="UTC").splitlines()
    assert first.startswith("State: partitions = 3: must divide 128")
    assert second.startswith("State: timezone = 'UTC': drop it, or give maintenance")


def test_of_a_policy() -> None:
    wrong = {"min_executors": 4, "max_executors": 2, "initial_executors": 3}
    assert refusal(RatioPolicy, **wrong, scale_up_ratio=0.2, scale_down_ratio=0.3).splitlines() == [
        "RatioPolicy: max_executors = 2: must be at least min_executors = 4",
        "RatioPolicy: initial_executors = 3: must be at least min_executors = 4",
        "RatioPolicy: initial_executors = 3: must be at most max_executors = 2",
        "RatioPolicy: scale_up_ratio = 0.2: must be above scale_down_ratio = 0.3",
    ]


def test_of_the_settings_of_spark() -> None:
    settings = {"executor.memory": "2g", "spark.a b": 1, "spark.c": ["hunter2"]}
    assert refusal(structured, spark_conf=settings, batch_interval="x").splitlines() == [
        "StructuredStream 'clicks': batch_interval = 'x': must be seconds or a duration such as "
        '"10s", "500ms" or "2 min"',
        "StructuredStream 'clicks': spark_conf: executor.memory: a Spark setting begins with "
        '"spark."',
        "StructuredStream 'clicks': spark_conf: 'spark.a b': the name of a setting has no blanks",
        "StructuredStream 'clicks': spark_conf: spark.c: a value must be text, a number or a "
        "boolean, not list",
    ]


def test_of_the_settings_that_something_else_makes() -> None:
    settings = {"spark.executor.memory": "2g", "spark.dynamicAllocation.enabled": True}
    said = refusal(structured, spark_conf=settings, autoscale=RatioPolicy(), executors=2)
    assert [line.partition(": ")[2][:50] for line in said.splitlines()] == [
        "spark_conf: drop spark.executor.memory; it is set ",
        "spark_conf: drop spark.dynamicAllocation.enabled =",
        "executors = 2: drop it, or drop autoscale; with a ",
    ]


def test_of_the_variables_of_a_driver_without_their_values() -> None:
    said = refusal(structured, env={"A=hunter2": "x", "B": 5})
    assert said.splitlines() == [
        "StructuredStream 'clicks': env: 'A': must be the name of a variable, such as \"TOKEN\"",
        "StructuredStream 'clicks': env: B: its value must be text, not int",
    ]


def test_values_without_a_name() -> None:
    assert refusal(StructuredStream, "hunter2", "jobs/x.py") == (
        "StructuredStream: 2 value(s) without the name of a field: give each by its name, such as "
        "StructuredStream(name=...)"
    )
    assert refusal(State, 128).endswith("such as State(key_groups=...)")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("max_files_per_trigger", 'is given by options={"maxFilesPerTrigger": ...}'),
        ("maxBytesPerTrigger", 'is given by options={"maxBytesPerTrigger": ...}'),
        ("max_offset_per_trigger", "did you mean 'max_offsets_per_trigger'?"),
    ],
)
def test_a_limit_of_another_source_is_an_option(name: str, said: str) -> None:
    assert said in refusal(SourceLimits, **{name: 10})


@pytest.mark.parametrize("name", ["receivers", "receiver_policy"])
def test_a_field_of_the_other_kind_of_stream(name: str) -> None:
    said = f"StructuredStream 'clicks': {name}: no such field; only a DStream has it"
    assert refusal(structured, **{name: 1}) == said
