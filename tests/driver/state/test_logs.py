"""What is read of a query's logs."""

import pytest

from dagster_sparkscale.driver.state.logs import read_format
from tests.driver.state.disk import Disk, put


@pytest.mark.parametrize(
    ("commits", "format"),
    [
        ({}, "1"),
        ({0: "v1\n{}", 1: "v2\n{}"}, "2"),
        ({9: "v2\n{}", 10: "v1\n{}"}, "1"),
        ({0: "v1\n{}", 1: "v3\n{}"}, "2"),
    ],
)
def test_the_last_batch_tells_the_format_of_state_stores(tmp_path, commits, format):
    for batch, text in commits.items():
        put(tmp_path, f"commits/{batch}", text)
    assert read_format(Disk(tmp_path)) == format
