"""What is read out of a progress event of a query: backlog, planning, trigger, why it died."""

from datetime import datetime
from math import inf
from typing import Any

import pytest

from dagster_sparkscale.driver.batches import progress
from dagster_sparkscale.driver.batches.progress import (
    backlog,
    limit_by_options,
    milliseconds,
    planning,
    trigger_interval,
    trigger_kind,
    why_it_died,
)

KAFKA_END = {"t": {"0": 10, "1": 20}}


@pytest.mark.parametrize(
    ("end", "latest", "behind"),
    [
        (5, 9, None),  # seconds, batches: not records
        (5, 5, None),
        ("5", "9", None),
        (KAFKA_END, KAFKA_END, 0),
        (KAFKA_END, {"t": {"0": 15, "1": 27}}, 12),
        (KAFKA_END, {"t": {"0": 15, "1": 27, "2": 3}}, None),  # a partition that is new
        ('{"t":{"0":1}}', '{"t":{"0":3}}', 2),
        (5, None, None),
        (None, None, None),
        (None, {"t": {"0": 3}}, None),
        ({"logOffset": 1}, {"logOffset": 4}, None),  # files, not records
        (True, 4, None),
        ("no offset", "none either", None),
    ],
)
def test_backlog(end: Any, latest: Any, behind: int | None) -> None:
    assert backlog({"sources": [{"endOffset": end, "latestOffset": latest}]}) == behind


def test_backlog_of_several_sources_is_known_only_if_each_ones_is() -> None:
    known = {"endOffset": {"t": {"0": 1}}, "latestOffset": {"t": {"0": 3}}}
    unknown = {"endOffset": 1, "latestOffset": 3}
    assert backlog({"sources": [known, known]}) == 4
    assert backlog({"sources": [known, unknown]}) is None
    assert backlog({"sources": []}) is None


def test_times_of_events_are_read_by_python_3_10_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Python310(datetime):
        @classmethod
        def fromisoformat(cls, text: str) -> "Python310":  # type: ignore[override]
            if text.endswith("Z"):
                raise ValueError(f"Invalid isoformat string: {text!r}")
            return super().fromisoformat(text)

    assert milliseconds("2027-01-15T08:00:00.250Z") == 1_800_000_000_250
    monkeypatch.setattr(progress, "datetime", Python310)
    assert milliseconds("2027-01-15T08:00:00.250Z") == 1_800_000_000_250


def test_intervals_of_triggers() -> None:
    assert trigger_interval("ProcessingTimeTrigger(2000)") == 2000
    assert trigger_interval("ProcessingTimeTrigger(0)") is None
    assert trigger_interval("AvailableNowTrigger") is None
    assert trigger_interval("ContinuousTrigger(1000)") is None
    assert trigger_interval("RealTimeTrigger(300000)") == 300_000


@pytest.mark.parametrize(
    ("trigger", "kind"),
    [
        ("ProcessingTimeTrigger(2000)", "processing time"),
        ("ProcessingTimeTrigger(0)", "processing time"),
        ("RealTimeTrigger(300000)", "real time"),
        ("ContinuousTrigger(1000)", "continuous"),
        ("AvailableNowTrigger", "available now"),
        ("OneTimeTrigger", "once"),
        ("TriggerOfTheFuture(5)", None),
        ("", None),
    ],
)
def test_kinds_of_triggers_by_the_names_that_spark_gives_them(
    trigger: str, kind: str | None
) -> None:
    assert trigger_kind(trigger) == kind


@pytest.mark.parametrize(
    ("durations", "told"),
    [
        ({"triggerExecution": 900, "addBatch": 250, "latestOffset": 600}, 650),
        ({"addBatch": 901}, 0),  # each is cut to whole milliseconds
        ({"addBatch": 0}, 900),
        ({"triggerExecution": 900}, None),
        ({"addBatch": None}, None),
    ],
)
def test_planning_is_what_is_not_work_on_the_batch(
    durations: dict[str, Any], told: int | None
) -> None:
    assert planning(durations, 900) == told


def test_of_a_python_traceback_the_raised_error_is_told() -> None:
    text = (
        "py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: "
        "Traceback (most recent call last):\n"
        '  File "app.py", line 3, in work\n    raise ValueError("poisoned\\nmore")\n'
        "ValueError: poisoned\nmore\n\n\tat py4j.Protocol.getReturnValue(Protocol.java:476)"
    )
    assert why_it_died(text) == "ValueError: poisoned"
    assert why_it_died("") == "unknown error"
    assert len(why_it_died("x" * 10_000)) == 500


def test_backlog_of_a_topic_that_is_new_is_not_known() -> None:
    source = {"endOffset": KAFKA_END, "latestOffset": {**KAFKA_END, "new": {"0": 3}}}
    assert backlog({"sources": [source]}) is None


FRAMES = "".join(f'  File "app.py", line {line}, in work\n    work()\n' for line in range(3))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"P: Traceback (most recent call last):\n{FRAMES}ValueError: bad", "ValueError: bad"),
        (
            f"P: Traceback (most recent call last):\n{FRAMES}",
            "P: Traceback (most recent call last):",
        ),
        ("it broke\n  here\nand there", "it broke"),
        ("it broke\n\tat a.B.c(B.java:1)\n\tat a.B.d(B.java:2)", "it broke"),
    ],
)
def test_of_whatever_a_query_died_of_one_line_is_told(text: str, told: str) -> None:
    assert why_it_died(text) == told


def at(begin: Any, end: Any) -> dict[str, Any]:
    return {"startOffset": begin, "endOffset": end}


@pytest.mark.parametrize(
    ("most", "sources", "rows", "limit"),
    [
        (100, [at({"t": {"0": 0, "1": 5}}, {"t": {"0": 40, "1": 45}})], 80, 100),
        # Each record was read twice; and some offsets have none.
        (100, [at({"t": {"0": 0}}, {"t": {"0": 100}})], 200, 200),
        (100, [at({"t": {"0": 0}}, {"t": {"0": 100}})], 90, 90),
        (
            100,
            [at({"t": {"0": 0}}, {"t": {"0": 50}}), at({"u": {"0": 7}}, {"u": {"0": 57}})],
            100,
            100,
        ),
        # Where a new partition begins is not told; it is left out.
        (100, [at({"t": {"0": 0}}, {"t": {"0": 50, "1": 9}})], 50, 100),
        (100, [at({"t": {"0": 50}}, {"t": {"0": 9}})], 50, 100),
        (100, [at(None, {"t": {"0": 50}})], 50, 100),
        (100, [at(3, 4)], 50, 100),
        (100, [at({"t": {"0": 0}}, {"t": {"0": 0}})], 0, 100),
        (100, [at({"t": {"0": 0}}, {"t": {"0": 9}})], None, 100),
        (100, [], 0, 100),
        (inf, [at({"t": {"0": 0}}, {"t": {"0": 50}})], 50, None),
        (None, [at({"t": {"0": 0}}, {"t": {"0": 50}})], 50, None),
    ],
)
def test_what_a_batch_might_have_by_the_options_of_its_sources(
    most: float | None, sources: list[Any], rows: int | None, limit: float | None
) -> None:
    assert limit_by_options(most, {"sources": sources, "numInputRows": rows}) == limit


@pytest.mark.parametrize(
    ("ends", "newest", "limit"),
    [
        ((9, 9, 9), 50, 27),
        ((9, 9, 9), 9, 29),  # it took all that there was
        ((9, 9, 9), None, 29),  # a batch that is repeated
        ((9, 9, 8), 50, 29),  # less than rounding makes it
        ((20, 20, 20), 50, 29),
    ],
)
def test_shares_of_partitions_that_are_rounded_down_are_all_that_a_batch_might_have(
    ends: tuple[int, ...], newest: int | None, limit: int
) -> None:
    source = at({"t": {"0": 0, "1": 0, "2": 0}}, {"t": dict(zip("012", ends, strict=True))})
    if newest is not None:
        source["latestOffset"] = {"t": dict.fromkeys("012", newest)}
    told = {"sources": [source], "numInputRows": sum(ends)}
    assert limit_by_options(29, told) == limit
