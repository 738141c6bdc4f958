"""Checkpoints in an object store: every operator through many changes, by each way, and kills."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.s3.server import Store
from tests.driver.state.elsewhere import (
    OWN,
    RENAMING,
    cut_off_and_done_again,
    cut_off_beside_and_done_again,
    cut_off_in_place_and_done_again,
    on_s3,
)
from tests.driver.state.operators import OPERATORS
from tests.driver.state.s3 import served
from tests.driver.state.soak_operators import CHANGELOGS, WAYS, through_elsewhere

pytestmark = pytest.mark.spark


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[Store]:
    """One for each test, which answers fast: a change makes thousands of requests."""
    (folder := tmp_path / "s3").mkdir()
    with served(tmp_path, "--files", str(folder)) as store:
        yield store


@pytest.mark.parametrize("operator", OPERATORS)
@WAYS
@pytest.mark.parametrize("changelogs", CHANGELOGS)
def test_results_are_those_of_a_query_that_was_never_changed(
    tmp_path, s3, changelogs, how, operator
):
    # Spark's own choice is slow, as each store makes its own client of S3: one operator has it.
    manager = OWN if operator == "aggregation" else RENAMING
    through_elsewhere(tmp_path, on_s3(s3, manager), operator, changelogs, how)


@pytest.mark.parametrize(
    "story",
    [
        cut_off_and_done_again,
        cut_off_in_place_and_done_again,
        cut_off_beside_and_done_again,
    ],
)
@pytest.mark.parametrize("manager", [OWN, RENAMING])
def test_what_was_cut_off_is_undone_by_each_way_to_write_a_checkpoint(
    cluster, tmp_path, s3, manager, story
):
    story(cluster.driver, tmp_path, on_s3(s3, manager))
