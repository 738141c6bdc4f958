"""Checkpoints on a real HDFS: every operator through many changes, by each way, and a kill."""

import pytest

from tests.driver.state.elsewhere import cut_off_and_done_again, on_hdfs
from tests.driver.state.operators import OPERATORS
from tests.driver.state.soak_operators import CHANGELOGS, WAYS, through_elsewhere
from tests.driver.state.test_on_hdfs import hdfs

__all__ = ["hdfs"]

pytestmark = [pytest.mark.spark, pytest.mark.hdfs]


@pytest.mark.parametrize("operator", OPERATORS)
@WAYS
@pytest.mark.parametrize("changelogs", CHANGELOGS)
def test_results_are_those_of_a_query_that_was_never_changed(
    tmp_path, hdfs, changelogs, how, operator
):
    through_elsewhere(tmp_path, on_hdfs(hdfs), operator, changelogs, how)


def test_a_change_that_was_cut_off_is_undone_and_done_again(cluster, tmp_path, hdfs):
    cut_off_and_done_again(cluster.driver, tmp_path, on_hdfs(hdfs))
