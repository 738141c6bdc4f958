"""A change of a query's state that is refused, and why: nothing was touched."""

from dataclasses import replace
from pathlib import Path

import pytest

from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.fingerprint import Keyless, Partition, Rows
from dagster_sparkscale.driver.state.journal import Journal
from dagster_sparkscale.driver.state.plans import StatePlan
from tests.driver.state.disk import Disk, checkpoint, content, entry, put
from tests.driver.state.played import PLAN, Spark, changed


@pytest.fixture
def disk(tmp_path) -> Disk:
    checkpoint(tmp_path)
    return Disk(tmp_path)


def refused(
    disk: Disk,
    spark: Spark | None = None,
    plan: StatePlan = PLAN,
    version: str = "4.3.0",
    outcome: str = "refused",
) -> tuple[str, bool]:
    """Why, and whether a later driver need not try it again."""
    was = content(Path(disk.path))
    came = changed(disk, spark, plan, version=version)
    assert came.change.outcome == outcome
    assert content(Path(disk.path)) == was and Journal(disk).begun() is None
    return came.change.reason or "", came.counts


def test_by_a_spark_that_can_t(disk):
    why, counts = refused(disk, version="4.1.9")
    assert "changing the partitions of state needs Spark 4.2 or newer" in why and counts


def test_for_now_where_the_query_has_not_run(tmp_path):
    why, counts = refused(Disk(tmp_path))
    assert why.startswith("it has not run a batch yet") and not counts


def test_for_now_where_a_batch_is_in_progress(disk, tmp_path):
    (tmp_path / "commits/2").unlink()
    why, counts = refused(disk)
    assert why.startswith("its last batch, 2, was cut off in the middle") and not counts


def test_where_partitions_are_not_noted(disk, tmp_path):
    put(tmp_path, "offsets/2", "v1\n\n{}")
    why, counts = refused(disk)
    assert "did not note its partitions" in why and counts


def test_where_its_checkpoint_has_other_key_groups(disk):
    Journal(disk).remember(16)
    assert refused(disk) == ("its checkpoint has 16 key groups, and not 8", True)


def test_where_keys_would_move_unless_they_may(disk):
    plan = replace(PLAN, partitions=3)
    why, counts = refused(disk, plan=plan)
    assert why.startswith("3 partitions don't divide its 8 key groups") and counts
    assert changed(disk, plan=replace(plan, plain_hash=True)).change.outcome == "changed"


def test_there_is_nothing_to_do_where_it_has_that_number(disk):
    came = refused(disk, plan=replace(PLAN, partitions=4), outcome="unchanged")
    assert came == ("it has 4 partitions already", False)


def test_where_another_provider_keeps_the_state(disk, tmp_path):
    put(tmp_path, "offsets/2", entry(4, layout.HDFS))
    why, counts = refused(disk)
    assert why.startswith("its state is kept by HDFSBackedStateStoreProvider,") and counts


def test_where_spark_would_mistake_the_path_which_is_told_without_its_secret(disk):
    disk.escaped = "s3a://key:secret@bucket/my%20checkpoint"
    why, counts = refused(disk)
    assert "would look for its state in s3a://" in why and "my%20checkpoint" in why and counts
    assert "secret" not in why


def test_where_the_query_keeps_no_state(disk):
    assert refused(disk, Spark(disk, stores=())) == ("it keeps no state", True)


def test_where_it_has_not_come_to_keep_any_yet_for_now(tmp_path):
    disk = Disk(tmp_path)
    put(tmp_path, "offsets/0", entry(4))
    assert refused(disk, Spark(disk, stores=())) == ("no batch of it is done yet", False)


@pytest.mark.parametrize(
    ("operator", "of", "why"),
    [
        (layout.JOIN, 4, "it joins streams by state of format 4"),
        (layout.JOIN, 3, None),
        ("stateStoreSave", 4, None),
        ("globalLimit", 1, "operator 1 is a limit() of the stream: it keeps one count of all rows"),
        ("StatefulStreamlineAggregate", 1, "operator 1 is an aggregation that was begun in real"),
    ],
)
@pytest.mark.parametrize("file", ["metadata", "v2/10"])
def test_where_the_keys_of_an_operator_can_t_be_told(disk, tmp_path, operator, of, why, file):
    noted = entry(4).replace('"conf":{', f'"conf":{{"{layout.JOIN_FORMAT}":"{of}",')
    put(tmp_path, "offsets/2", noted)
    if file == "metadata":
        put(tmp_path, "state/1/_metadata/metadata", named(operator))
    else:
        put(tmp_path, "state/1/_metadata/v2/9", named("dedupe", "v2"))
        put(tmp_path, f"state/1/_metadata/{file}", named(operator, "v2"))
    came = changed(disk)
    assert (came.change.outcome, came.counts) == ("refused" if why else "changed", True)
    assert (came.change.reason or "").startswith(why or "")


def named(operator: str, version: str = "v1") -> str:
    """What Spark notes of an operator."""
    info = f'"operatorInfo":{{"operatorId":1,"operatorName":"{operator}"}}'
    return f'{version}\n{{{info},"stateStoreInfo":[{{"storeName":"default"}}]}}'


@pytest.mark.parametrize("key", ["", '{"name":"word","type":"string","nullable":true}'])
def test_where_an_aggregation_is_of_all_rows(disk, tmp_path, key):
    put(tmp_path, "state/1/_metadata/metadata", named("stateStoreSave"))
    schema = [f'{{"type":"struct","fields":[{of}]}}' for of in (key, "")]
    put(tmp_path, "state/1/0/_metadata/schema", "\x00\x02v2\x00\x1d" + "\x00\x01\x00Y".join(schema))
    came = changed(disk)
    assert came.change.outcome == ("changed" if key else "refused")
    why = "operator 1 keeps one state of all rows, which has no keys: more partitions than one are"
    assert (came.change.reason or "").startswith("" if key else why)


@pytest.mark.parametrize("text", ["", "v1", "v1\n[]", "v1\n{", 'v9\n{"operatorInfo":7}'])
def test_not_by_what_spark_notes_in_another_way(disk, tmp_path, text):
    put(tmp_path, "state/0/_metadata/metadata", text)
    assert changed(disk).change.outcome == "changed"


def test_where_the_state_has_no_keys(disk):
    def keyless(_batch: int, _rows: Rows) -> Rows:
        raise Keyless("operator 0 keeps one state of all rows")

    why, counts = refused(disk, Spark(disk, read=keyless))
    assert why == "operator 0 keeps one state of all rows" and counts


def test_where_keys_are_not_where_they_belong_so_that_nothing_could_be_verified(disk):
    def elsewhere(_batch: int, rows: Rows) -> Rows:
        return replace(rows, partitions={0: Partition(8, misplaced=8)})

    why, counts = refused(disk, Spark(disk, read=elsewhere))
    assert why.startswith("8 of its 8 rows are not where Spark looks for their keys") and counts


def test_for_now_where_the_state_can_t_be_read(disk):
    def unreadable(_batch: int, _rows: Rows) -> Rows:
        raise OSError("no answer\nat java.net.Socket")

    why, counts = refused(disk, Spark(disk, read=unreadable))
    assert (why, counts) == ("before anything was touched: no answer", False)
