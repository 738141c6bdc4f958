"""The declared state of a stream: what there can be, and what can't."""

from typing import Any

import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.key_groups import KeyGroups
from dagster_sparkscale.declare.state import State
from tests.declare.refusing import refusal
from tests.fakes import dstream, structured


def test_the_defaults() -> None:
    state = State(key_groups=128)
    assert state.groups == KeyGroups(128)
    assert (state.partitions, state.plain_hash, state.align_executors) == (None, False, False)
    assert (state.maintenance, state.timezone) == (None, None)
    assert (state.within, state.rows_per_partition) == (1800, 1_000_000)


@pytest.mark.parametrize(
    "fields",
    [
        {"partitions": 16},
        {"partitions": 128},
        {"partitions": 48, "plain_hash": True},
        {"maintenance": "0 3 * * SUN"},
        {"maintenance": "@daily", "timezone": "Europe/Berlin"},
        {"maintenance": "@daily", "timezone": "UTC"},
        {"within": "1 h"},
        {"within": "1 d"},
        {"rows_per_partition": 50_000},
        {"align_executors": True},
        {"beside_executors": 2},
    ],
)
def test_what_there_can_be(fields: dict[str, Any]) -> None:
    state = State(key_groups=128, **fields)
    assert structured(checkpoint_location="/c", state=state).state == state


CRON = (
    'must be a cron schedule of five fields, such as "0 3 * * SUN", or a word for one, such as '
    '"@daily"'
)
ZONE = 'must be the name of a timezone, such as "Europe/Berlin" or "UTC"'


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"key_groups": 0}, "key_groups = 0: must be at least 1"),
        ({"key_groups": 32769}, "key_groups = 32769: must be at most 32768"),
        ({"partitions": 0}, "partitions = 0: must be at least 1, or None"),
        (
            {"partitions": 48},
            "partitions = 48: must divide 128, the number of key groups, as 32 and 64 do; "
            "State(plain_hash=True) allows any other, for which every key may move",
        ),
        (
            {"partitions": 129, "plain_hash": True},
            "partitions = 129: must be at most 128, as there are 128 key groups",
        ),
        ({"plain_hash": "no"}, "plain_hash = 'no': must be True or False"),
        ({"align_executors": 1}, "align_executors = 1: must be True or False"),
        ({"maintenance": "sundays"}, f"maintenance = 'sundays': {CRON}"),
        ({"maintenance": ""}, f"maintenance = '': {CRON}"),
        ({"maintenance": "* * * * * *"}, f"maintenance = '* * * * * *': {CRON}"),
        ({"maintenance": "0 3 30 2 *"}, f"maintenance = '0 3 30 2 *': {CRON}"),
        ({"maintenance": "0 25 * * *"}, f"maintenance = '0 25 * * *': {CRON}"),
        ({"maintenance": ["@daily"]}, "maintenance = ['@daily']: must be text, or None"),
        (
            {"timezone": "UTC"},
            "timezone = 'UTC': drop it, or give maintenance, which it is for",
        ),
        ({"maintenance": "@daily", "timezone": "Mars/Base"}, f"timezone = 'Mars/Base': {ZONE}"),
        ({"maintenance": "@daily", "timezone": ""}, f"timezone = '': {ZONE}"),
        ({"within": "2 d"}, "within = '2 d': must be at most 1 d"),
        ({"within": 0}, "within = 0: must be above 0"),
        ({"beside_executors": -1}, "beside_executors = -1: must be at least 0"),
        ({"beside_executors": 1.5}, "beside_executors = 1.5: must be a whole number"),
        (
            {"beside_executors": 2, "standstill": "restart"},
            "beside_executors = 2: must be 0 where standstill = 'restart', as nothing is changed "
            "beside the stream then",
        ),
        (
            {"replay": True, "standstill": "restart"},
            "replay = True: must be False where standstill = 'restart', as nothing is changed "
            "beside the stream then",
        ),
        ({"rows_per_partition": 0}, "rows_per_partition = 0: must be at least 1"),
        ({"groups": 3}, "groups: no such field; did you mean 'key_groups'? the fields are "),
    ],
)
def test_what_there_can_not_be(fields: dict[str, Any], said: str) -> None:
    assert refusal(State, **{"key_groups": 128, **fields}).startswith(f"State: {said}")


def test_the_number_of_key_groups_must_be_given() -> None:
    assert refusal(State) == "State: key_groups: missing; it has no default"


def test_a_stream_with_state_says_where_its_checkpoint_is() -> None:
    assert refusal(structured, state=State(key_groups=8)) == (
        "StructuredStream 'clicks': checkpoint_location = None: must be given for a stream with "
        "state, which is in it"
    )


@pytest.mark.parametrize("given", [True, 128, {"key_groups": 128}, KeyGroups(128)])
def test_state_is_a_state(given: Any) -> None:
    said = refusal(structured, checkpoint_location="/c", state=given)
    assert said.endswith(": must be a State, such as State(key_groups=128), or None")
    assert said.startswith("StructuredStream 'clicks': state = ")


def test_a_dstream_has_none() -> None:
    said = refusal(dstream, checkpoint_location="/c", state=State(key_groups=8))
    assert said == (
        "DStream 'clicks': state: drop it; only the state of Structured Streaming can be "
        "repartitioned, by a StructuredStream"
    )


def test_partitions_are_not_declared_twice() -> None:
    twice = {"spark.sql.shuffle.partitions": 16}
    state = State(key_groups=128, partitions=16)
    said = refusal(structured, checkpoint_location="/c", state=state, spark_conf=twice)
    assert said == (
        "StructuredStream 'clicks': spark_conf: drop spark.sql.shuffle.partitions, or "
        "state.partitions, which sets it"
    )
    alone = structured(checkpoint_location="/c", state=State(key_groups=128), spark_conf=twice)
    assert alone.spark_conf["spark.sql.shuffle.partitions"] == "16"


def test_no_more_executors_than_its_maximum_ever_leaves() -> None:
    def declared(more: int, policy: RatioPolicy | None, **conf: str) -> dict[str, Any]:
        state = State(key_groups=128, beside_executors=more)
        its = {"checkpoint_location": "/c", "state": state, "spark_conf": conf}
        return its if policy is None else its | {"autoscale": policy}

    policy = RatioPolicy(min_executors=2, max_executors=5)
    assert structured(**declared(3, policy)).state is not None
    assert refusal(structured, **declared(4, policy)) == (
        "StructuredStream 'clicks': state.beside_executors = 4: must be at most 3, as the stream "
        "has at least 2 and at most 5 executors"
    )
    assert structured(**declared(100, None)).state is not None
    said = refusal(structured, **declared(1, None, **{"spark.cores.max": "1"}))
    assert said.endswith("must be at most 0, as the stream has at least 1 and at most 1 executors")


@pytest.mark.parametrize(
    ("conf", "why"),
    [
        ({"minBatchesToRetain": "9"}, "only 9 batches are retained"),
        ({"stateStore.checkpointFormatVersion": "2"}, "its state is kept in format 2 of state"),
        ({"minBatchesToRetain": "10", "stateStore.checkpointFormatVersion": "1"}, None),
        ({"minBatchesToRetain": "what Spark refuses"}, None),
    ],
)
def test_no_more_executors_where_nothing_is_changed_beside_the_stream(
    conf: dict[str, str], why: str | None
) -> None:
    given = {f"spark.sql.streaming.{name}": value for name, value in conf.items()}
    its = {"checkpoint_location": "/c", "spark_conf": given}
    assert structured(**its, state=State(key_groups=128)).state is not None
    more = State(key_groups=128, beside_executors=2)
    if why is None:
        assert structured(**its, state=more).state is not None
        return
    said = refusal(structured, **its, state=more)
    assert said.startswith(
        "StructuredStream 'clicks': state.beside_executors = 2: must be 0, or spark_conf be "
        f"changed, by which nothing is changed beside the stream: {why}"
    )


@pytest.mark.parametrize("package", ["org.apache.spark.sql.execution.streaming.state.", ""])
def test_a_provider_whose_partitions_spark_cant_change_is_refused_beside_state(
    package: str,
) -> None:
    provider = "spark.sql.streaming.stateStore.providerClass"
    given = {provider: f"{package}HDFSBackedStateStoreProvider"}
    state = State(key_groups=128)
    said = refusal(structured, checkpoint_location="/c", state=state, spark_conf=given)
    assert said == (
        f"StructuredStream 'clicks': spark_conf: drop {provider}: the partitions of what "
        "HDFSBackedStateStoreProvider keeps can't be changed; a query that has run keeps its "
        "provider anyway"
    )
    assert structured(checkpoint_location="/c", spark_conf=given).spark_conf == given
    other = {provider: "com.example.Provider"}
    structured(checkpoint_location="/c", state=state, spark_conf=other)


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        ("keyGroups", "state.key_groups"),
        ("plainHash", "state.plain_hash"),
        ("plan", "the operation reconfigure_state"),
    ],
)
def test_what_the_driver_is_told_of_state_is_no_setting_of_the_users(
    setting: str, field: str
) -> None:
    conf = {f"spark.sparkscale.state.{setting}": "8"}
    assert refusal(structured, spark_conf=conf) == (
        f"StructuredStream 'clicks': spark_conf: drop spark.sparkscale.state.{setting}; "
        f"it is set by {field}"
    )


@pytest.mark.parametrize(
    ("cores", "conf", "tasks"),
    [
        (4, {}, 4),
        (4, {"spark.task.cpus": 2}, 2),
        (4, {"spark.task.cpus": 3}, 1),
        (1, {"spark.task.cpus": 2}, 1),
        (4, {"spark.task.cpus": "many"}, 4),
    ],
)
def test_how_many_tasks_an_executor_runs_at_a_time(
    cores: int, conf: dict[str, Any], tasks: int
) -> None:
    assert structured(executor_cores=cores, spark_conf=conf).tasks_at_a_time == tasks
