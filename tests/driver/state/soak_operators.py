"""Every stateful operator through many changes, up and down, of divisors and of plain hash."""

import pytest

from tests.driver.state.operators import OPERATORS, VARIANTS
from tests.driver.state.test_operators import check, twins

pytestmark = pytest.mark.spark

NUMBERS = [16, 8, 1, 8, 5, 2]


@pytest.mark.parametrize("operator", OPERATORS)
def test_results_are_those_of_a_query_that_was_never_changed(tmp_path, operator):
    (told,) = twins(tmp_path, ",".join(map(str, NUMBERS)), operator)
    check(told, NUMBERS)


@pytest.mark.parametrize("variant", VARIANTS)
def test_also_as_the_state_can_be_stored_otherwise(tmp_path, variant):
    numbers = ",".join(map(str, NUMBERS))
    settings = VARIANTS[variant]
    for told in twins(tmp_path, numbers, "aggregation", "inner_join", settings=settings):
        check(told, NUMBERS)


@pytest.mark.parametrize("version", ["1", "2", "3", "4"])
def test_also_as_a_join_can_be_stored_otherwise(tmp_path, version):
    settings = {"spark.sql.streaming.join.stateFormatVersion": version}
    for told in twins(
        tmp_path, ",".join(map(str, NUMBERS)), "inner_join", "left_join", settings=settings
    ):
        check(told, NUMBERS)
