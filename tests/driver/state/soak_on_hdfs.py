"""A query whose checkpoint is on a real HDFS: changed by a restart, cut off and done again."""

import pytest

from tests.driver.state.elsewhere import cut_off_and_done_again, on_hdfs
from tests.driver.state.test_on_hdfs import hdfs

__all__ = ["hdfs"]

pytestmark = [pytest.mark.spark, pytest.mark.hdfs]


def test_a_change_that_was_cut_off_is_undone_and_done_again(cluster, tmp_path, hdfs):
    cut_off_and_done_again(cluster.driver, tmp_path, on_hdfs(hdfs))
