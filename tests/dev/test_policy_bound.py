"""What is reached with settings that are chosen from the end of each load."""

import pytest

from benchmarks.policies.bound import cheapest

SPIKES = [(3.0, 1.1), (1.8, 1.4), (0.2, 3.0)]
CALM = [(1.0, 1.0), (0.2, 1.1), (0.0, 1.5)]


@pytest.mark.parametrize(
    ("most", "found"),
    [
        (2.0, (2.0, 1.05)),  # each load is cheapest
        (1.7, (1.6, 1.1)),  # a tenth more is best spent on the calm one
        (1.0, (1.0, 1.25)),
    ],
)
def test_lateness_is_spared_where_that_costs_least(most, found):
    assert cheapest([SPIKES, CALM], most) == pytest.approx(found)
