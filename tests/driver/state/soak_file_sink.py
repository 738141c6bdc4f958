"""A change takes the number of a batch: of each kind that the log of a file sink has."""

import pytest

from tests.driver.state.test_file_sink import EVERY, changed_after

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("batches", range(1, EVERY + 1))
def test_it_goes_on_whichever_batch_the_change_takes(cluster, tmp_path, batches):
    changed_after(cluster, tmp_path, batches)
