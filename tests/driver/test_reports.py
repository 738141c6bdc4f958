"""What sources tell of themselves, and what becomes of it in the status of their queries."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.batches.progress import backlog
from dagster_sparkscale.driver.batches.reports import (
    MOST_INPUTS,
    NOTHING_TOLD,
    DoneBatch,
    Input,
    SourceReport,
    combine,
    input_of,
    inputs_of,
    read_report,
    report_of,
)
from tests.driver.test_progress import KAFKA_END
from tests.driver.told import Told

TOLD = {"v": 1, "stream": "clicks", "behind_ms": 1234, "shards": 4, "lost": 0}


@pytest.mark.parametrize(
    ("told", "report"),
    [
        (TOLD, SourceReport(1234, 4, 0)),
        (json.dumps(TOLD), SourceReport(1234, 4, 0)),
        ({**TOLD, "behind_ms": None}, SourceReport(None, 4, 0)),
        ({"shards": 4}, SourceReport(None, 4, None)),
        ({"behind_ms": 5, "weather": "fine"}, SourceReport(5)),
        ({"behind_ms": 5.9, "shards": "4", "lost": True}, SourceReport(5, None, None)),
        ({"behind_ms": -20}, SourceReport(0)),  # clocks differ
        ({"behind_ms": float("nan"), "shards": float("inf")}, SourceReport()),
        ({"behind_ms": 10**400}, SourceReport()),
    ],
)
def test_a_report_is_read(told: Any, report: SourceReport) -> None:
    assert read_report(told) == report


@pytest.mark.parametrize(
    "other",
    [
        *(None, 5, "5", "", "no JSON", "[" * 100_000, [], {}, True, KAFKA_END, {"logOffset": 3}),
        {"stream": "clicks", "lost": 3},
        {"shards": {"0": 5}},  # a topic of Kafka's that has such a name
    ],
)
def test_an_offset_is_no_report(other: Any) -> None:
    assert read_report(other) is None


def test_a_report_is_no_backlog_and_a_backlog_no_report() -> None:
    def progress(latest: Any, end: Any) -> dict[str, Any]:
        return {"sources": [{"endOffset": end, "latestOffset": latest}]}

    for end in (None, {"shard-0": {"seq": "49"}}, {"at": 5}, 5, {"behind_ms": 7}, TOLD):
        for told in (TOLD, json.dumps(TOLD), {"behind_ms": None, "shards": None}):
            assert backlog(progress(told, end)) is None
    topics = {"shards": {"0": 10}, "behind_ms": {"0": 5}}
    kafka = progress({"shards": {"0": 14}, "behind_ms": {"0": 5}}, topics)
    assert (backlog(kafka), report_of(kafka)) == (4, NOTHING_TOLD)


def test_several_sources_are_as_far_behind_as_the_last_of_them() -> None:
    one, other = SourceReport(500, 4, 1), SourceReport(None, 2, None)
    assert combine([one, other]) == SourceReport(500, 6, 1)
    assert combine([one, None, other, SourceReport(200, None, 2)]) == SourceReport(500, None, 3)
    assert combine([None, None]) == combine([]) == NOTHING_TOLD
    assert combine([SourceReport(0, 0, 0)]) == SourceReport(0, 0, 0)  # a zero is not unknown


def test_a_progress_without_sources_tells_nothing() -> None:
    for progress in ({}, {"sources": None}, {"sources": []}, {"sources": [{}]}):
        assert report_of(progress) == NOTHING_TOLD


counts = st.none() | st.integers(0, 10**12)
reports = st.none() | st.builds(SourceReport, counts, counts, counts)


@given(st.lists(reports, max_size=5))
def test_the_shards_are_told_if_all_are_and_the_rest_wherever_a_part_is(
    parts: list[SourceReport | None],
) -> None:
    whole = combine(parts)
    shards = [p.shards if p else None for p in parts]
    assert whole.shards == (None if None in shards or not shards else sum(shards))
    for name in ("behind_ms", "lost"):
        told = [getattr(p, name) for p in parts if p and getattr(p, name) is not None]
        assert (getattr(whole, name) is None) == (not told)
        assert all(getattr(whole, name) >= value for value in told)
    assert combine(reversed(parts)) == whole


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists))
def test_any_json_is_a_report_or_none(value: Any) -> None:
    for told in (value, {"behind_ms": value, "shards": value}, {"lost": value}):
        found = read_report(told)
        assert found is None or all(
            part is None or 0 <= part < 2**63
            for part in (found.behind_ms, found.shards, found.lost)
        )


def listed(told: Told) -> tuple[Any, ...]:
    """The first query's lag, shards and losses in the status."""
    query = told.queries.listed({})[0]
    return query.behind_ms, query.source_shards, query.source_lost


def source(**told: Any) -> dict[str, Any]:
    return {"endOffset": {"at": 1}, "latestOffset": told}


def test_a_query_reports_what_its_sources_told_last() -> None:
    told = Told()
    told.started()
    assert listed(told) == (None, None, None)
    told.batch(3, 1, sources=[source(behind_ms=9000, shards=4, lost=0), source(shards=2)])
    assert listed(told) == (9000, 6, 0)
    told.batch(6, 1, sources=[source(behind_ms=None, shards=4), {"latestOffset": None}])
    assert listed(told) == (None, None, None)  # nobody knows how many the other one reads
    assert [batch.behind_ms for batch in told.batches] == [9000, None]


def test_while_a_query_finds_nothing_its_last_progress_tells_how_far_behind_it_is() -> None:
    told = Told()
    told.started()
    told.batch(0, 1, sources=[source(behind_ms=9000, shards=4)])
    assert told.queries.outdated() == []
    told.idle(12)
    assert told.queries.outdated() == ["run"]
    told.reported(11, [source(behind_ms=0, shards=4)])
    assert (listed(told), told.queries.outdated()) == ((0, 4, None), [])
    told.idle(24)
    told.batch(27, 1, sources=[source(behind_ms=70, shards=5)])
    told.reported(23, [source(behind_ms=0, shards=4)])  # it came late
    assert listed(told) == (70, 5, None)


def test_a_query_that_finds_nothing_from_its_start_on_is_asked() -> None:
    told = Told()
    told.started()
    told.idle(12)
    assert told.queries.outdated() == ["run"]
    told.reported(12, [source(behind_ms=0, shards=4)])
    assert (listed(told), told.queries.outdated()) == ((0, 4, None), [])


def test_a_query_whose_sources_tell_nothing_is_not_asked_again() -> None:
    told = Told()
    told.started()
    told.batch(0, 1)
    told.idle(12)
    assert told.queries.outdated() == []


def test_of_a_query_that_ended_what_it_lost_is_still_told() -> None:
    told = Told()
    told.started()
    told.batch(0, 1, sources=[source(behind_ms=9000, shards=4, lost=2)])
    told.idle(12)
    told.died(13, None)
    assert (listed(told), told.queries.outdated()) == ((None, None, 2), [])


@pytest.mark.parametrize(("lost", "told"), [(2**63 - 1024, 2**63 - 1024), (2**63, None)])
def test_a_number_that_no_field_of_64_bits_holds_is_not_told(lost: int, told: int | None) -> None:
    assert read_report({"shards": 1, "lost": lost}) == SourceReport(None, 1, told)


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"stream": "clicks", "shards": 4, "limit": 9}, Input("clicks", 7, 9, tells=True)),
        ('{"stream": "clicks", "shards": 4, "limit": 9}', Input("clicks", 7, 9, tells=True)),
        ({"stream": "clicks", "shards": 4, "limit": None}, Input("clicks", 7, None, tells=True)),
        ({"stream": "clicks", "shards": 4}, Input("clicks", 7)),
        ({"stream": "clicks", "shards": 4, "limit": 0}, Input("clicks", 7, None, tells=True)),
        ({"stream": "clicks", "shards": 4, "limit": "9"}, Input("clicks", 7, None, tells=True)),
        ({"stream": "", "shards": 4, "limit": 9}, Input(None, 7, 9, tells=True)),
        ({"stream": 7, "shards": 4}, Input(None, 7)),
        ({"stream": "x" * 300, "shards": 4}, Input("x" * 255, 7)),
        ({"shards": {"0": 17}, "stream": {"0": 4}, "limit": {"0": 1}}, Input(None, 7)),
        ({"stream": "clicks", "limit": 9}, Input(None, 7)),  # no report, but an offset
        (17, Input(None, 7)),
        ("[", Input(None, 7)),
        (None, Input(None, 7)),
    ],
)
def test_what_a_source_gave_a_batch(told: Any, found: Input) -> None:
    assert input_of(told, 7) == found


def test_what_all_sources_gave_a_batch() -> None:
    sources = [
        {**source(stream="clicks", shards=4, limit=9), "numInputRows": 7},
        {**source(stream="orders", shards=4), "numInputRows": None},
        {"description": "KafkaV2[Subscribe[t]]"},
    ]
    assert inputs_of({"sources": sources}) == (
        Input("clicks", 7, 9, tells=True),
        Input("orders", 0),
        Input(None, 0),
    )
    assert inputs_of({"sources": None}) == inputs_of({}) == ()
    assert len(inputs_of({"sources": sources * 100})) == MOST_INPUTS


def test_who_is_told_of_a_batch_adds_to_it() -> None:
    heard: list[Any] = []

    def completed(done: DoneBatch) -> Any:
        heard.append((done.batch.batch_id, done.interval_ms, done.inputs, done.queues))
        return replace(done.batch, executors=3, limit=9.0)

    told = Told(completed=completed)
    told.started()
    told.queries.note("run", kind="processing time", interval_ms=2000)
    told.batch(3, 1, 17, sources=[{**source(stream="clicks", shards=4), "numInputRows": 7}])
    assert heard == [(17, 2000, (Input("clicks", 7),), False)]
    assert [(b.executors, b.limit) for b in told.batches if b.records] == [(3, 9.0)]
