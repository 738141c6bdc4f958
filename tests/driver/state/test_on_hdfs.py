"""A query whose checkpoint is on a real HDFS: its state is changed there, and put back there."""

from collections.abc import Iterator

import pytest

from dev.hdfs.rig import Address, tethered
from tests.driver.state.copied_elsewhere import CONTENT, COPIED, QUOTA, told
from tests.driver.state.elsewhere import (
    cut_off_beside_and_done_again,
    cut_off_in_place_and_done_again,
    on_hdfs,
)
from tests.releases import CHANGES_STATE

pytestmark = [pytest.mark.spark, pytest.mark.hdfs, CHANGES_STATE]


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with tethered(tmp_path_factory.mktemp("hdfs") / "rig") as address:
        yield address


def test_a_change_in_place_that_was_cut_off_is_undone_and_the_program_goes_on_through_another(
    cluster, tmp_path, hdfs
):
    cut_off_in_place_and_done_again(cluster.driver, tmp_path, on_hdfs(hdfs))


def test_so_it_does_through_one_beside_the_stream(cluster, tmp_path, hdfs):
    cut_off_beside_and_done_again(cluster.driver, tmp_path, on_hdfs(hdfs))


def test_its_room_is_that_of_a_quota(hdfs):
    found = told(on_hdfs(hdfs))
    left = found.pop("free with a quota")
    # HDFS counts a block of 128 MB for each of the files that are being written.
    written = 16 + 2 * found.pop("slots")
    assert 0 < (QUOTA - written * (128 << 20)) - left < 10 * len(CONTENT)
    assert found.pop("free by a view") == left
    assert found.pop("free") > left
    assert found == {**COPIED, "there": ["1.zip", "2.zip", "4.zip"]}
