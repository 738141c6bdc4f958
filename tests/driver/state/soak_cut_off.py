"""Drivers that are killed at each step of a change of their query's state."""

import pytest

from tests.driver.state.operators import VARIANTS
from tests.driver.state.test_cut_off import cut_off, cut_off_beside, cut_off_in_place

pytestmark = pytest.mark.spark

STEPS = ["checking", "measuring", "writing down", "rewriting", "verifying", "undoing", "closing"]
IN_PLACE = [step for step in STEPS if step != "measuring"]
"""What was read while the query ran is good where no batch has come since."""
BESIDE_STEPS = [
    *("preparing", "adding executors", "copying", "rewriting beside", "comparing", "catching up"),
    *("ending", "checking", "writing down", "replaying", "comparing changes", "moving in"),
    *("accepting", "closing", "starting"),
]


@pytest.mark.parametrize("step", STEPS)
def test_nothing_is_lost_or_counted_twice(cluster, tmp_path, step):
    cut_off(cluster, tmp_path, step)


@pytest.mark.parametrize("step", ["preparing", "ending", *IN_PLACE, "starting"])
def test_nor_in_place(cluster, tmp_path, step):
    cut_off_in_place(cluster, tmp_path, step)


@pytest.mark.parametrize("step", BESIDE_STEPS)
def test_nor_beside_the_stream(cluster, tmp_path, step):
    cut_off_beside(cluster, tmp_path, step)


@pytest.mark.parametrize("variant", VARIANTS)
def test_also_as_the_state_can_be_stored_otherwise(cluster, tmp_path, variant):
    cut_off(cluster, tmp_path, "verifying", VARIANTS[variant])
