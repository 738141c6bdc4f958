"""What is read out of a checkpoint."""

import pytest

from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.layout import Logs, QuerySettings, Unreadable
from tests.driver.state.disk import entry


def test_the_settings_of_a_batch():
    assert layout.bound(entry(16), "offsets/3") == QuerySettings(16, layout.ROCKSDB)
    told = layout.bound('v1\n{"conf":{"spark.sql.shuffle.partitions":"5"}}\n{}', "offsets/3")
    assert told == QuerySettings(5, layout.HDFS), "Spark's default, where nothing is noted"
    assert told.join_format == 1
    joins = 'v2\n{"conf":{"spark.sql.streaming.join.stateFormatVersion":"3"}}\n{}'
    assert layout.bound(joins, "offsets/3").join_format == 3
    assert layout.bound("v1\n\n{}", "offsets/3").partitions is None
    assert layout.bound('v1\n{"conf":{}}\n{}', "offsets/3").partitions is None


@pytest.mark.parametrize(
    "text", ["", "v1", "1\n{}", "v1\n[]\n", 'v1\n{"conf":7}', "v1\n{", 'v1\n{"conf":{"%s":"x"}}']
)
def test_what_is_no_entry_is_told_with_its_place(text):
    with pytest.raises(Unreadable, match="offsets/3"):
        layout.bound(text.replace("%s", layout.PARTITIONS), "offsets/3")


def test_the_latest_batch_is_the_highest_number():
    assert layout.latest(["9", "10", ".10.crc", "8.compact", "x"]) == 10
    assert layout.latest([]) is None


@pytest.mark.parametrize(
    ("batch", "committed", "why"),
    [(3, 3, None), (3, None, "batch 3 is in progress"), (3, 2, "batch, 3, was cut off")],
)
def test_the_last_batch_must_be_done(batch, committed, why):
    told = layout.why_not_settled(Logs(batch, QuerySettings(4, layout.ROCKSDB), committed))
    assert (told is None) if why is None else (told is not None and why in told)


def test_what_was_added_goes_in_an_order_that_is_safe_to_be_cut_off():
    gone = layout.added({"offsets/2": 1}, {"state/0/1/4.zip": 9, "offsets/3": 1, "commits/3": 1})
    assert gone == ("commits/3", "offsets/3", "state/0/1/4.zip")


@pytest.mark.parametrize(
    ("lacks", "missing"),
    [
        (None, ()),
        ("commits/2", ("commits/2",)),
        ("state/0/3/", ("state/0/3",)),
        ("state/1/0/", ("state/1/0",)),
        ("state/1/", ("state/1/0", "state/1/1", "state/1/2", "state/1/3")),
    ],
)
def test_each_partition_of_each_operator_has_files(lacks, missing):
    files = {"offsets/2", "commits/2", "state/1/_metadata/v2/0"}
    files |= {f"state/{op}/{part}/left/3.zip" for op in range(2) for part in range(4)}
    files = {name for name in files if lacks is None or not name.startswith(lacks)}
    assert layout.unlisted(files, 2, (0, 1), 4) == missing


def test_folders_that_held_nothing_else_go_from_the_deepest():
    gone = layout.emptied(["state/0/1/2.zip"], ["state/0/1/4.zip", "state/0/7/a/4.zip"])
    assert gone == ("state/0/7/a", "state/0/7")


def test_a_class_by_its_short_name():
    assert layout.short(layout.ROCKSDB) == "RocksDBStateStoreProvider"
    assert layout.short("Own") == "Own"
