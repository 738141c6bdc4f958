"""What is read of a query's logs."""

import pytest

from dagster_sparkscale.driver.state.layout import Unreadable
from dagster_sparkscale.driver.state.logs import read_format
from tests.driver.state.disk import Disk, put


@pytest.mark.parametrize(
    ("commits", "format"),
    [
        ({}, None),
        ({0: "v1\n{}", 1: "v2\n{}"}, "2"),
        ({9: "v2\n{}", 10: "v1\n{}"}, "1"),
        ({0: "v1\n{}", 1: "v3\n{}"}, "3"),
    ],
)
def test_the_last_batch_tells_the_format_of_state_stores(tmp_path, commits, format):
    for batch, text in commits.items():
        put(tmp_path, f"commits/{batch}", text)
    assert read_format(Disk(tmp_path)) == format


@pytest.mark.parametrize("text", ["", "v", "2", "v2", '{"nextBatchWatermarkMs":0}'])
def test_an_entry_that_is_none_does_not_tell_it(tmp_path, text):
    put(tmp_path, "commits/10", text)
    with pytest.raises(Unreadable, match="commits/10: is no entry of a commit log"):
        read_format(Disk(tmp_path))


def test_nor_does_one_that_is_deleted_meanwhile(tmp_path, monkeypatch):
    disk = Disk(tmp_path)
    monkeypatch.setattr(disk, "names", lambda _folder: ["10"])
    with pytest.raises(Unreadable, match="commits/10"):
        read_format(disk)
