"""Every stateful operator through many changes, up and down, of divisors and of plain hash."""

import pytest

from tests.driver.state.operators import OPERATORS
from tests.driver.state.test_operators import check, twins

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("operator", OPERATORS)
def test_results_are_those_of_a_query_that_was_never_changed(tmp_path, operator):
    (told,) = twins(tmp_path, "16,8,1,8,5,2", operator)
    check(told, [16, 8, 1, 8, 5, 2])
