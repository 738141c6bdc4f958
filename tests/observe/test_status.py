import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.observe.status import Batch, Executor, MalformedStatus, Query, Spark, Status


def answer() -> dict:
    """A whole answer, as an agent sends it."""
    return {
        "stream": "clicks",
        "epoch": 3,
        "phase": "running",
        "now": 2000.5,
        "started_at": 1000.5,
        "app_id": "app-1",
        "ui_url": "http://driver:4040",
        "spark": {
            "age": 1.5,
            "registered": 2,
            "requested": 4,
            "removing": 1,
            "blocked": "executor 1 holds receivers",
            "executors": [
                {"id": "1", "host": "a", "cores": 2, "active_tasks": 3, "receivers": 1},
                {"id": "2", "host": "b", "cores": 2},
            ],
        },
        "queries": [
            {
                "name": "counts",
                "active": True,
                "interval_ms": 10000,
                "running_ms": 500,
                "pending_batches": 1,
                "backlog_records": 7,
                "error": None,
                "behind_ms": 1234,
                "source_shards": 4,
                "source_lost": 2,
                "trigger": "processing time",
                "heard_at": 1999.5,
                "doing": "Waiting for next trigger",
            },
            {"name": "other", "active": False, "error": "it broke"},
        ],
        "batches": [
            {
                "query": "counts",
                "completed_at": 1999.5,
                "processing_ms": 900,
                "scheduling_ms": 10,
                "records": 100,
                "failed": True,
                "triggers": 1,
                "batch_id": 12,
                "behind_ms": 1300,
                "planning_ms": 150,
            },
            {"query": "counts", "completed_at": 1998, "processing_ms": 0, "triggers": 6},
        ],
        "last_seq": 77,
        "rates": {"clicks": {"maxRecordsPerTrigger": 1000, "maxSpanPerTrigger": 2.5}},
        "reconfigurations": [],
    }


def read(content) -> Status:
    return Status.from_json(json.dumps(content))


def malformed(content) -> str:
    with pytest.raises(MalformedStatus) as refused:
        read(content)
    return str(refused.value)


def test_a_whole_answer_is_read_field_by_field():
    assert read(answer()) == Status(
        stream="clicks",
        epoch=3,
        phase="running",
        now=2000.5,
        started_at=1000.5,
        app_id="app-1",
        ui_url="http://driver:4040",
        spark=Spark(
            age=1.5,
            registered=2,
            requested=4,
            removing=1,
            blocked="executor 1 holds receivers",
            executors=(Executor("1", "a", 2, 3, 1), Executor("2", "b", 2, 0, 0)),
        ),
        queries=(
            Query(
                *("counts", True, 10000, 500, 1, 7, None, 1234, 4, 2, "processing time", 1999.5),
                doing="Waiting for next trigger",
            ),
            Query("other", False, error="it broke"),
        ),
        batches=(
            Batch("counts", 1999.5, 900, 10, 100, True, 1, 12, 1300, 150),
            Batch("counts", 1998.0, 0, triggers=6),
        ),
        last_seq=77,
        rates={"clicks": {"maxRecordsPerTrigger": 1000, "maxSpanPerTrigger": 2.5}},
        reconfigurations=(),
    )


def test_what_was_not_measured_stays_unknown():
    least = {"stream": "s", "epoch": 1, "phase": "starting", "now": 1, "started_at": 1}
    status = read(least | {"last_seq": 0})
    assert status.registered is status.requested is status.spark_age is status.blocked is None
    assert status.queries == status.batches == status.executors == ()
    nulls = {"registered": None, "requested": None, "age": None}
    assert read(least | {"last_seq": 0, "spark": nulls, "rates": None}) == status


def test_fields_of_a_newer_agent_are_passed_over():
    newer = answer() | {"weather": "fine"}
    newer["spark"]["gpus"] = 4
    for items in ("queries", "batches"):
        newer[items][0]["mood"] = {"any": ["thing"]}
    assert read(newer) == read(answer())


def test_half_a_character_in_a_name_is_no_reason_to_be_blind():
    status = read(answer() | {"rates": {"\ud83d": {"maxRecordsPerTrigger": 5}}})
    assert list(status.rates.values()) == [{"maxRecordsPerTrigger": 5}]
    assert read(answer() | {"phase": "\udce4"}).phase == "?"


REQUIRED = {
    (): ["stream", "epoch", "phase", "now", "started_at", "last_seq"],
    ("spark", "executors", 0): ["id", "host", "cores"],
    ("queries", 0): ["name", "active"],
    ("batches", 0): ["query", "completed_at", "processing_ms"],
}
OPTIONAL = {
    (): ["app_id", "ui_url", "spark", "queries", "batches", "rates"],
    ("spark",): ["age", "registered", "requested", "removing", "blocked", "executors"],
    ("spark", "executors", 0): ["active_tasks", "receivers"],
    ("queries", 0): [
        *("interval_ms", "running_ms", "pending_batches", "backlog_records", "error"),
        *("behind_ms", "source_shards", "source_lost", "trigger", "heard_at", "doing"),
    ],
    ("batches", 0): [
        *("scheduling_ms", "records", "failed", "triggers", "batch_id", "behind_ms"),
        "planning_ms",
    ],
}


LISTS = {"queries", "batches", "executors"}
NEVER_NULL = LISTS | {"spark", "removing", "active_tasks", "receivers", "failed", "triggers"}
"""What every agent knows, if it speaks of it at all."""


def at(content, place):
    for step in place:
        content = content[step]
    return content


def fields_of(*tables):
    return [(place, name) for table in tables for place, names in table.items() for name in names]


@pytest.mark.parametrize("null", [True, False], ids=["null", "absent"])
@pytest.mark.parametrize(("place", "name"), fields_of(REQUIRED))
def test_a_required_field_that_is_missing_is_named(place, name, null):
    content = answer()
    if null:
        at(content, place)[name] = None
    else:
        del at(content, place)[name]
    assert malformed(content) == f"{name}: missing"


@pytest.mark.parametrize(("place", "name"), fields_of(OPTIONAL))
def test_an_optional_field_may_be_missing(place, name):
    content = answer()
    del at(content, place)[name]
    absent = read(content)
    at(content, place)[name] = None
    if name in NEVER_NULL:
        assert malformed(content) == f"{name}: missing" or name in LISTS
    else:
        assert read(content) == absent


@pytest.mark.parametrize(("place", "name"), fields_of(REQUIRED, OPTIONAL))
def test_a_field_of_a_wrong_type_is_named(place, name):
    right = type(at(answer(), place)[name])
    for wrong in ("text", 1, 0.5, True, {}, ["x"]):
        if type(wrong) is right or (name in FLOATS and type(wrong) is int):
            continue
        if name in ("error", "trigger") and type(wrong) is str:
            continue
        content = answer()
        at(content, place)[name] = wrong
        assert malformed(content).startswith(name)


FLOATS = {"now", "started_at", "age", "completed_at", "heard_at"}


@pytest.mark.parametrize(
    ("place", "name"),
    [(p, n) for p, n in fields_of(REQUIRED, OPTIONAL) if type(at(answer(), p)[n]) in (int, float)],
)
def test_numbers_that_no_arithmetic_survives_are_refused(place, name):
    content = answer()
    for wrong in (math.nan, math.inf, -math.inf, 10**400, -(10**400), 2**63):
        at(content, place)[name] = wrong
        assert malformed(content).startswith(name)


@pytest.mark.parametrize("content", [None, [], "status", 5, True, [{}]])
def test_what_is_no_object_is_refused(content):
    assert malformed(content).startswith("it must be a JSON object, not ")


@pytest.mark.parametrize(
    "rates", [[], "x", 1, {"s": 1}, {"s": []}, {"s": {"a": "1"}}, {"s": {"a": True}}]
)
def test_what_are_no_limits_of_sources_is_refused(rates):
    assert malformed(answer() | {"rates": rates}).startswith("rates = ")


def test_shards_are_known_only_if_every_active_query_tells():
    def shards(*queries):
        return Status("s", 1, "running", 1.0, 1.0, 0, queries=queries).source_shards

    told = Query("a", True, source_shards=3), Query("b", True, source_shards=2)
    ended = Query("d", False, source_shards=50), Query("e", False)
    assert shards(*told, *ended) == 5
    assert shards(*told, Query("c", True), *ended) is None
    assert shards(Query("c", True), *told) is None
    assert shards(*ended) is None
    assert shards() is None
    assert shards(Query("a", True, source_shards=0)) == 0  # a zero is not unknown


@pytest.mark.parametrize("items", [{}, "x", [1], [None], [[]]])
@pytest.mark.parametrize(
    ("place", "name"), [((), "queries"), ((), "batches"), (("spark",), "executors")]
)
def test_what_is_no_list_of_objects_is_refused(place, name, items):
    content = answer()
    at(content, place)[name] = items
    assert malformed(content) == f"{name}: must be a list of objects"


def test_a_huge_wrong_value_does_not_fill_the_error():
    assert len(malformed(answer() | {"stream": ["x" * 50_000]})) < 200
    assert len(malformed(answer() | {"spark": "x" * 50_000})) < 200


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_any_json_is_a_status_or_malformed(content):
    try:
        status = read(content)
    except MalformedStatus as error:
        assert str(error)
    else:
        assert isinstance(status, Status)


@given(st.data())
def test_an_answer_with_any_one_part_replaced_is_a_status_or_malformed(data):
    places = [
        *(place for place in REQUIRED if place),
        *((*place, name) for place, name in fields_of(REQUIRED, OPTIONAL)),
    ]
    place = data.draw(st.sampled_from(places))
    content = answer()
    at(content, place[:-1])[place[-1]] = data.draw(json_values | st.integers(10**300, 10**310))
    try:
        assert read(content).stream
    except MalformedStatus as error:
        assert str(error)


def test_an_older_agent_that_knows_nothing_of_state_is_told_from_one_that_has_changed_none():
    assert read(answer()).tells_state
    content = answer()
    del content["reconfigurations"]
    older = read(content)
    assert not older.tells_state and older.state_changes == ()
