"""What a stream's page says of the limits of its sources: short, true, shown as it was written."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.backpressure.page import of_sources, set_by
from dagster_sparkscale.in_force.limits import LimitInForce
from dagster_sparkscale.markdown import INLINE
from dagster_sparkscale.observe.status import Limit, Query
from tests.fakes import QUERY, status
from tests.watch.reader import written

HEAD = "|source|limit (records/s)|took (records/s)|\n|-|-|-|\n"
LIMIT = Limit(
    "clicks",
    QUERY,
    4218.9,
    "estimator",
    taken=True,
    estimator="work",
    estimate=4218.9,
    reason="a batch takes 0.05 s",
    records=8000,
)
QUERIES = (Query(QUERY, active=True, interval_ms=2000),)


def shown(*limits):
    return of_sources(status(limits=limits, queries=QUERIES))


def test_where_nothing_limits_a_source_there_is_nothing():
    assert of_sources(None) == ""
    assert shown() == ""
    assert shown(Limit("clicks", QUERY)) == ""


def test_a_line_a_source_and_why_the_lowest_is_what_it_is():
    other = replace(LIMIT, source="a|b", rate=99.25, taken=False, reason="less fits", records=7)
    assert shown(LIMIT, other) == (
        f"{HEAD}|clicks |4,219, estimate |4,000, heeded |\n"
        "|a\\|b |99.2, estimate |3.5, **not heeded** |\n\na\\|b: less fits"
    )


def test_what_was_set_and_what_it_began_with_are_told_from_estimates():
    begins = Limit("a", QUERY, 100.0, "start", estimator="work")
    was_set = Limit("b", None, 50.0, "set")
    free = Limit("c", QUERY, records=10)
    assert shown(begins, was_set, free) == (
        f"{HEAD}|a |100, to begin with |- |\n|b |50, set |- |\n|c |none |5 |"
    )


def test_what_it_would_be_beside_a_limit_that_is_lower_is_shown():
    assert "|50, set, estimate 4,219 |" in shown(replace(LIMIT, rate=50.0, by="set"))


def test_who_set_what_is_not_declared():
    by_hand = LimitInForce("*", 50.0, "person", "set_limits run 1", 60.0, "it is taken away")
    records = LimitInForce("a|b", None, "person", "somebody")
    assert set_by([]) == ""
    assert set_by([by_hand, records]) == (
        "|limit|number|set|\n|-|-|-|\n"
        "|\\* |50|by set\\_limits run 1 since 1970-01-01 00:01 UTC, until it is taken away |\n"
        "|a\\|b |-|by somebody, until another is declared |"
    )


def test_a_source_that_an_estimator_has_not_limited_yet_is_shown():
    assert shown(Limit("a", QUERY, estimator="pid")) == f"{HEAD}|a |none |- |"


def test_of_a_query_that_is_not_known_it_is_not_told_what_it_took():
    assert "|-, heeded |" in shown(replace(LIMIT, query="gone"))
    unpaced = (Query(QUERY, active=True),)
    assert "|-, heeded |" in of_sources(status(limits=(LIMIT,), queries=unpaced))


@given(
    st.lists(
        st.builds(
            Limit,
            source=st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1),
            query=st.sampled_from([QUERY, None]),
            rate=st.none() | st.floats(0.01, 1e12),
            by=st.sampled_from(["estimator", "set", "start", "nobody", "some|body"]),
            taken=st.none() | st.booleans(),
            estimate=st.none() | st.floats(0.01, 1e12),
            reason=st.none() | st.text(max_size=400),
            records=st.none() | st.integers(0, 10**12),
        ),
        max_size=40,
    )
)
def test_it_is_shown_in_place_whatever_the_names(limits):
    text = shown(*limits)
    assert len(text) <= INLINE
    if text:
        assert text.startswith(HEAD)
        texts, kinds = written(text)
        assert texts[3] == limits[0].source or len(limits[0].source) > 20
        assert "html_inline" not in kinds
