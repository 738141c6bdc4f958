"""A query whose checkpoint is in an object store, by S3A: its state is changed there, and put back
there. What takes longer is in `soak_on_s3.py`."""

from collections.abc import Iterator

import pytest

from dev.s3.server import Store
from tests.driver.state.elsewhere import cut_off_in_place_and_done_again, on_s3
from tests.driver.state.s3 import served

pytestmark = [pytest.mark.spark, pytest.mark.clusters]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with served(tmp_path_factory.mktemp("s3")) as store:
        yield store


def test_a_change_in_place_that_was_cut_off_is_undone_and_the_program_goes_on_through_another(
    cluster, tmp_path, s3
):
    cut_off_in_place_and_done_again(cluster.driver, tmp_path, on_s3(s3))
