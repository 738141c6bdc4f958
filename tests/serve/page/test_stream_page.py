"""What the page of a stream shows, by looks and stored minutes, and what it never makes up."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale import CapacityPolicy, RatioPolicy
from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.observe.status import Query
from dagster_sparkscale.serve.page.charts import FEW, Chart, summary, table
from dagster_sparkscale.serve.page.operated import Operated, Operations, of_run, of_story
from dagster_sparkscale.serve.page.stream import (
    LISTED,
    Live,
    Stored,
    StreamPage,
    live,
    stream_page,
    thresholds,
)
from dagster_sparkscale.serve.page.thinned import points
from dagster_sparkscale.watch.assess import assess
from dagster_sparkscale.watch.fleet.rows import row
from dagster_sparkscale.watch.sighting import Sighting
from tests.fakes import QUERY, batch, driver, scaled, status, structured

NOW = 200_000.0
HOUR = 3600


def looked_at(sighting: Sighting | None = None, stream: Any = None) -> Live:
    said = status(
        batches=(batch(4.0, now=NOW),),
        now=NOW,
        started_at=NOW - 1000,
        requested=3,
        queries=(Query(QUERY, active=True, interval_ms=10_000, behind_ms=1500),),
    )
    found = assess(
        stream or scaled(max_executors=10, max_lag=60),
        sighting or Sighting("clicks", driver(), said),
        capabilities=CAPABILITIES,
        now=NOW,
    )
    return live(found, row(found), CAPABILITIES)


LIVE = looked_at()
NOT_STARTED = looked_at(Sighting("clicks"))


def page(
    minutes: list[Minute], *, live: Live = LIVE, seconds: float = HOUR, **past: Any
) -> StreamPage:
    known = Stored(points(minutes), **past)
    return stream_page("c", live, known, now=NOW, since=NOW - seconds, shown="1h")


def chart(of: StreamPage, key: str) -> Chart:
    return next(each for each in of.charts if each.key == key)


def values(of: StreamPage, key: str, label: str) -> list[float | None]:
    return next([*each.values] for each in chart(of, key).series if each.label == label)


def minute(ago: int, **measured: Any) -> Minute:
    return Minute(int(NOW) - ago, "running", 1, **measured)


def test_what_was_stored_and_what_is_now_stand_in_one_chart() -> None:
    shown = page([minute(120, ratio=0.5, registered=2), minute(60, ratio=0.7, registered=3)])
    assert [*shown.times] == [NOW - 120, NOW - 60, NOW]
    assert values(shown, "ratio", "R")[:2] == [0.5, 0.7]
    assert values(shown, "executors", "registered") == [2, 3, 2]
    assert values(shown, "executors", "minimum, now") == [1, 1, 1]
    assert values(shown, "executors", "maximum, now") == [10, 10, 10]
    assert values(shown, "ratio", "more executors from") == [0.9] * 3
    assert values(shown, "lag", "max_lag") == [60] * 3


def test_pending_minutes_stand_between_them() -> None:
    shown = stream_page(
        *("c", LIVE, Stored(points([minute(180, ratio=0.5)]))),
        now=NOW,
        since=NOW - HOUR,
        shown="1h",
        pending=[minute(120, ratio=0.6), minute(60, ratio=0.7)],
    )
    assert values(shown, "ratio", "R")[:3] == [0.5, 0.6, 0.7]


def test_a_gap_is_drawn_and_said() -> None:
    shown = page([minute(1200, ratio=0.5), minute(60, ratio=0.7)])
    assert [*shown.times] == [NOW - 1200, NOW - 1140, NOW - 60, NOW]
    assert values(shown, "ratio", "R")[:3] == [0.5, None, 0.7]
    assert any("Nothing was measured from " in note and "19 min" in note for note in shown.notes)


def test_what_the_policy_decided_is_a_point() -> None:
    shown = page([minute(120, registered=2, decision="scale to 4"), minute(60, registered=4)])
    assert values(shown, "executors", "decided") == [4, None, None]


def test_where_nothing_was_measured_the_chart_says_why_and_has_no_zeros() -> None:
    shown = page([], live=NOT_STARTED)
    assert {each.key for each in shown.charts} == {
        *("ratio", "executors", "lag", "rates", "limits")
    }
    for each in shown.charts:
        assert not each.series and each.absent.startswith("Not measured in this time: ")
    assert shown.as_json()["charts"] == []
    assert any(text.startswith("what its driver measures") for text in shown.unknown)


def test_receivers_and_a_backlog_have_charts_where_there_are_any() -> None:
    shown = page([minute(60, receivers=2, backlog=5)])
    assert values(shown, "receivers", "that ran")[0] == 2
    assert values(shown, "backlog", "records in the source")[0] == 5


def test_an_event_log_that_fails_is_said_and_what_is_live_is_shown() -> None:
    shown = page([], fault="OperationalError: locked")
    assert any("OperationalError: locked" in text for text in shown.unknown)
    assert values(shown, "executors", "registered") == [2]


def test_what_was_not_read_yet_is_said() -> None:
    shown = page([minute(60)], whole_since=NOW - 600)
    assert any("was not read so far back" in text for text in shown.unknown)
    assert not any("so far back" in text for text in page([], whole_since=NOW - HOUR).unknown)


def test_a_long_time_is_thinned_and_that_is_said() -> None:
    shown = page([minute(ago, ratio=0.5) for ago in range(100_000, 0, -60)], seconds=100_000)
    assert len(shown.times) < 1000
    assert any("Each point is the worst of 2 min" in note for note in shown.notes)


def rescale(number: int, **tags: str) -> tuple[Operated, Operated]:
    began = NOW - 60 * number
    story = {"ending": "reached", "executors_before": 2, "executors_target": 3, "seconds": number}
    run = of_run(f"r{number}", tags, "SUCCESS", "rescale", began, began, began + number)
    return run, of_story(f"r{number}", "rescale", began + number, story)


def test_operations_are_listed_marked_and_summed_up() -> None:
    of_all = [rescale(n, **{"dagster/sensor_name": "autoscaler"}) for n in range(1, 31)]
    of_all[4] = rescale(5)
    known = Operations({r.run: r for r, _ in of_all}, {e.run: e for _, e in of_all})
    known.runs["s"] = of_run("s", {}, "SUCCESS", "set_limits", NOW - 30, NOW - 30, NOW - 29)
    shown = page([minute(90), replace(minute(60), epoch=2)], operations=known)
    assert len(shown.rescales) == LISTED and [each.run for each in shown.others] == ["s"]
    assert (shown.took.rescales, shown.took.p50, shown.took.p95) == (30, 15, 29)
    kinds = [each.kind for each in shown.marks]
    assert kinds.count("rescale") == 29 and kinds.count("person") == 2
    drivers = [each.text for each in shown.marks if each.kind == "driver"]
    assert drivers == ["driver 1 -> 2", "driver 2 -> 1"]  # what is live is of the first one
    assert "rescale 2 -> 3: reached after 5 s, by a person" in [each.text for each in shown.marks]


def test_each_policy_has_its_thresholds() -> None:
    policy = RatioPolicy(scale_up_ratio=0.8, scale_down_ratio=0.2)
    assert [at for _, at in thresholds(policy)] == [0.8, 0.2]
    assert [at for _, at in thresholds(CapacityPolicy())] == [1.0]
    assert [at for _, at in thresholds(None)] == [1.0]


def test_a_stream_without_a_policy_has_no_bounds() -> None:
    found = looked_at(Sighting("clicks", driver(), status()), structured())
    labels = [each.label for each in chart(page([], live=found), "executors").series]
    assert labels == ["requested", "registered"] or labels == ["registered"]


NUMBERS = st.none() | st.integers(0, 10**9) | st.floats(0, 1e9)
MINUTES = st.lists(
    st.builds(
        Minute,
        at=st.integers(int(NOW) - 30 * 86400, int(NOW) + 100),
        epoch=st.none() | st.integers(1, 3),
        ratio=NUMBERS,
        overdue=NUMBERS,
        lag=NUMBERS,
        delay=NUMBERS,
        registered=st.none() | st.integers(0, 99),
        requested=st.none() | st.integers(0, 99),
        input_rate=NUMBERS,
        limit=NUMBERS,
        throttled=st.none() | st.just("q"),
        backlog=st.none() | st.integers(0, 10**9),
        decision=st.none() | st.sampled_from(["scale to 3", "odd"]),
    ),
    max_size=60,
    unique_by=lambda each: each.at,
)


@given(MINUTES, st.sampled_from([3600, 86400, 28 * 86400]), st.booleans())
def test_any_minutes_make_a_page(minutes: list[Minute], seconds: int, started: bool) -> None:
    shown = page(minutes, live=LIVE if started else NOT_STARTED, seconds=seconds)
    assert [*shown.times] == sorted(set(shown.times))
    assert json.loads(json.dumps(shown.as_json(), allow_nan=False))["times"] == [*shown.times]
    for each in shown.charts:
        assert all(len(series.values) == len(shown.times) for series in each.series)
        assert summary(each)
        step, lines = table(each, shown.times)
        assert len(lines) <= FEW and (step == 1) == (len(shown.times) <= FEW)
        if not each.absent:
            measured = [v for series in each.series for v in series.values if v is not None]
            listed = [v for _, line in lines for v in line if v is not None]
            assert max(measured) == max(listed)
