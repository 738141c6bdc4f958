"""Drivers that are killed at each step of a change of their query's state."""

import pytest

from tests.driver.state.operators import VARIANTS
from tests.driver.state.test_cut_off import cut_off

pytestmark = pytest.mark.spark

STEPS = ["checking", "measuring", "writing down", "rewriting", "verifying", "undoing", "closing"]


@pytest.mark.parametrize("step", STEPS)
def test_nothing_is_lost_or_counted_twice(cluster, tmp_path, step):
    cut_off(cluster, tmp_path, step)


@pytest.mark.parametrize("variant", VARIANTS)
def test_also_as_the_state_can_be_stored_otherwise(cluster, tmp_path, variant):
    cut_off(cluster, tmp_path, "verifying", VARIANTS[variant])
