"""Every stateful operator through many changes, up and down, of divisors and of plain hash."""

from pathlib import Path

import pytest

from tests.driver.state.elsewhere import Elsewhere
from tests.driver.state.operators import OPERATORS, VARIANTS
from tests.driver.state.test_operators import check, check_beside, twins

pytestmark = pytest.mark.spark

NUMBERS = [16, 8, 1, 8, 5, 2]
JOIN = "spark.sql.streaming.join.stateFormatVersion"
"""2, unless it is set."""

_AN_OPERATOR_ELSEWHERE = 3600.0
"""Seconds for its changes, all together: each takes minutes, most of them requests."""

CHANGELOGS = {"without-changelogs": {}, "changelogs": VARIANTS["changelogs"]}
WAYS = pytest.mark.parametrize(
    "how", ["", "_in_place", "_beside"], ids=["by-restart", "in-place", "beside"]
)


def through_elsewhere(
    folder: Path, elsewhere: Elsewhere, operator: str, changelogs: str, how: str
) -> None:
    """One operator on HDFS or in an object store."""
    (told,) = twins(
        *(folder, ",".join(map(str, NUMBERS)), operator),
        settings={**elsewhere.settings, **CHANGELOGS[changelogs]},
        how=how,
        seconds=_AN_OPERATOR_ELSEWHERE,
    )
    (check_beside if how == "_beside" else check)(told, NUMBERS)


@WAYS
@pytest.mark.parametrize("changelogs", CHANGELOGS)
def test_results_are_those_of_a_query_that_was_never_changed(tmp_path, changelogs, how):
    """Of every operator, in one session."""
    settings = CHANGELOGS[changelogs]
    numbers = ",".join(map(str, NUMBERS))
    all_told = twins(tmp_path, numbers, *OPERATORS, settings=settings, how=how)
    for told in all_told:
        (check_beside if how == "_beside" else check)(told, NUMBERS)


@pytest.mark.parametrize("variant", VARIANTS)
def test_also_as_the_state_of_one_that_runs_can_be_stored_otherwise(tmp_path, variant):
    numbers = ",".join(map(str, NUMBERS))
    settings = VARIANTS[variant]
    both = twins(tmp_path, numbers, "aggregation", "inner_join", settings=settings, how="_in_place")
    for told in both:
        check(told, NUMBERS)


@pytest.mark.parametrize("variant", VARIANTS)
def test_also_as_the_state_can_be_stored_otherwise(tmp_path, variant):
    numbers = ",".join(map(str, NUMBERS))
    settings = VARIANTS[variant]
    for told in twins(tmp_path, numbers, "aggregation", "inner_join", settings=settings):
        check(told, NUMBERS)


@pytest.mark.parametrize("version", ["1", "3"])
def test_also_as_a_join_can_be_stored_otherwise(tmp_path, version):
    numbers = ",".join(map(str, NUMBERS))
    for told in twins(tmp_path, numbers, "inner_join", "left_join", settings={JOIN: version}):
        check(told, NUMBERS)


def test_a_join_whose_keys_spark_can_t_tell_from_its_state_is_left_as_it_is(tmp_path):
    """Spark 4.3 would write state of format 4 that it can't read itself: `Invalid byte array backed
    UnsafeRow` in the next batch."""
    for told in twins(tmp_path, "16,8", "inner_join", settings={JOIN: "4"}):
        for report in told["changes"]:
            assert report["outcome"] == "refused"
            assert "it joins streams by state of format 4" in report["reason"]
        assert any(kept for kept, _ in told["chunks"]), "it writes nothing"
        assert all(kept == changed for kept, changed in told["chunks"])
