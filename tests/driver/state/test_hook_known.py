"""What is known of a query's state when it starts, and by which names it is found."""

import json
from pathlib import Path

import pytest

from dagster_sparkscale.driver.batches.history import History
from dagster_sparkscale.driver.batches.queries import Queries
from dagster_sparkscale.driver.batches.tracked import NewQuery
from dagster_sparkscale.driver.state import hook, layout
from dagster_sparkscale.driver.state.hook import Declared, StateHook
from dagster_sparkscale.driver.state.journal import Begun, Journal
from dagster_sparkscale.driver.state.logs import read_logs
from dagster_sparkscale.driver.state.plans import StatePlan
from dagster_sparkscale.driver.state.undo import files_of
from dagster_sparkscale.driver.wire import QueryState
from tests.driver.state.disk import Disk, checkpoint, content, entry, put, rewrite
from tests.driver.state.played import PLAN, Spark

ID = '{"id": "d2f1"}'
LIMIT = (
    'v1\n{"operatorInfo":{"operatorId":0,"operatorName":"globalLimit"},'
    '"stateStoreInfo":[{"storeName":"default"}]}'
)
DECLARED = Declared(16)


def unreachable(*_: object) -> None:
    raise OSError("no answer")


@pytest.fixture(autouse=True)
def _on_this_disk(monkeypatch):
    def folder(session: object, place: str) -> Disk:
        assert isinstance(session, Spark)
        return Disk(Path(place))

    monkeypatch.setattr(hook, "Folder", folder)


@pytest.fixture
def place(tmp_path) -> Path:
    checkpoint(tmp_path / "counts")
    return tmp_path / "counts"


def before_start(
    its: StateHook, spark: Spark, place: Path, table: str | None = None, **options: str
) -> hook.Known | None:
    with spark.playing():
        options = {"checkpointLocation": str(place), **options}
        return its.before_start(NewQuery(spark, options, table))


def known(place: Path, declared: Declared, version: str = "4.3.0", **conf: str) -> hook.Known:
    spark = Spark(Disk(place))
    spark.conf |= conf
    found = before_start(StateHook(version, declared), spark, place)
    assert found is not None
    return found


class TestWhichCheckpoint:
    """Spark takes the option, or a folder of the query's name in the common one."""

    def started(self, options: dict[str, str], **conf: str) -> hook.Known | None:
        spark = Spark(Disk(Path("/nowhere")))
        spark.conf |= conf
        return StateHook("4.3.0", Declared()).before_start(NewQuery(spark, options))

    def test_that_of_the_option_however_it_is_written(self, place):
        found = self.started({"CHECKPOINTlocation": str(place)})
        assert found is not None and found.partitions == 4

    @pytest.mark.parametrize("end", ["", "/", "//"])
    def test_a_folder_of_its_name_in_the_common_one(self, place, end):
        found = self.started({"QueryName": "counts"}, **{hook.CHECKPOINTS: f"{place.parent}{end}"})
        assert found is not None and found.partitions == 4
        assert found.folder.path == str(place)

    def test_the_option_wins(self, place):
        options = {"checkpointLocation": str(place), "queryName": "other"}
        found = self.started(options, **{hook.CHECKPOINTS: "/elsewhere"})
        assert found is not None and found.folder.path == str(place)

    def test_none_that_lasts(self, place):
        assert self.started({}, **{hook.CHECKPOINTS: str(place.parent)}) is None
        assert self.started({"queryName": "counts"}) is None


class TestWhoIsMeant:
    def outcomes(self, place: Path, query: str, **options: str) -> list[tuple[str, str]]:
        its = StateHook("4.3.0", Declared(8, False, StatePlan("plan", 8, 8, queries=(query,))))
        before_start(its, Spark(Disk(place)), place, **options)
        return [(each.query, each.outcome or "") for each in its.reconfigurations]

    def test_a_query_by_its_name(self, place):
        assert self.outcomes(place, "clicks", queryName="clicks") == [("clicks", "changed")]

    @pytest.mark.parametrize(("meant", "changes"), [("counts", 0), ("counts d2f1a3b4", 1)])
    def test_one_of_two_of_one_name_as_the_agent_calls_it(self, tmp_path, meant, changes):
        """Of two sessions: the one that starts later is told apart by its id."""
        queries = Queries(History(), 1000)
        its = StateHook("4.3.0", Declared(8, False, StatePlan("plan", 8, 8, queries=(meant,))))
        ids = ("a1b2c3d4-0000", "d2f1a3b4-0000")
        for id in ids:
            checkpoint(tmp_path / id)
            put(tmp_path / id, "metadata", json.dumps({"id": id}))
            spark = Spark(Disk(tmp_path / id))
            with spark.playing():
                options = {"checkpointLocation": str(tmp_path / id), "queryName": "counts"}
                its.before_start(NewQuery(spark, options, None, queries.label))
            at = "2026-01-01T00:00:00.000Z"
            queries.started({"name": "counts", "id": id, "runId": id, "timestamp": at})
        assert [each.name for each in queries.listed({})] == ["counts", "counts d2f1a3b4"]
        (told,) = its.reconfigurations
        assert (told.query, told.outcome) == (meant, "changed")
        partitions = [read_logs(Disk(tmp_path / id)).bound.partitions for id in ids]
        assert partitions == [8 if number == changes else 4 for number in range(2)]

    def test_one_without_a_name_by_its_id(self, place):
        put(place, "metadata", ID)
        assert self.outcomes(place, "d2f1") == [("d2f1", "changed")]

    @pytest.mark.parametrize("metadata", ["{}", "{", "[]", ""])
    def test_one_of_which_no_id_is_known_by_its_folder(self, place, metadata):
        put(place, "metadata", metadata)
        assert self.outcomes(place, "counts") == [("counts", "changed")]

    def test_no_other(self, place):
        assert self.outcomes(place, "orders", queryName="clicks") == []


class TestSink:
    """The batch of a change is passed over in what the query writes to."""

    @pytest.fixture
    def noted(self, monkeypatch) -> list[tuple[object, str, int]]:
        noted: list[tuple[object, str, int]] = []
        monkeypatch.setattr(hook.sink, "pass_over", lambda *of: noted.append(of))
        monkeypatch.setattr(hook.sink, "location", self.location)
        return noted

    def location(self, session: object, table: str) -> str | None:
        assert isinstance(session, Spark)
        return {"clicks": "/tables/clicks"}.get(table)

    @pytest.mark.parametrize(
        ("table", "options", "into"),
        [
            (None, {"path": "/out"}, "/out"),
            (None, {}, None),
            ("clicks", {"path": "/out"}, "/tables/clicks"),
            ("elsewhere.clicks", {"path": "/out"}, None),
        ],
    )
    def test_of_a_change_and_of_one_that_an_earlier_driver_has_done(
        self, tmp_path, noted, table, options, into
    ):
        for name in ("changed", "resumed"):
            place, its = tmp_path / name, StateHook("4.3.0", Declared(8, False, PLAN))
            checkpoint(place)
            disk = Disk(place)
            if name == "resumed":
                its, journal = StateHook("4.3.0", Declared(8)), Journal(disk)
                begun = Begun("plan", 2, 4, 8, files_of(disk))
                journal.begin(begun)
                rewrite(disk, 8)
                journal.verify(begun)
            spark = Spark(disk)
            before_start(its, spark, place, table, queryName="counts", **options)
            [told] = its.reconfigurations
            assert (told.outcome, told.before, told.after) == ("changed", 4, 8)
            assert noted == ([(spark, into, 3)] if into else [])
            noted.clear()


class TestKnown:
    def test_of_a_new_query_only_what_is_set(self, tmp_path):
        found = known(tmp_path / "new", Declared(16), **{layout.PROVIDER: layout.ROCKSDB})
        assert (found.partitions, found.key_groups, found.note) == (None, None, None)
        assert found.provider == layout.ROCKSDB and found.begun_with() is None
        assert not (tmp_path / "new").exists(), "nothing is remembered of it yet"
        assert known(tmp_path / "new", Declared()).provider == layout.HDFS

    def test_of_one_that_has_run_what_its_checkpoint_has_and_key_groups_from_then_on(self, place):
        found = known(place, Declared(16), **{layout.PROVIDER: layout.HDFS})
        assert (found.provider, found.partitions, found.key_groups) == (layout.ROCKSDB, 4, 16)
        assert Journal(Disk(place)).key_groups() == 16
        assert found.begun_with() == QueryState(
            partitions=4, provider="RocksDBStateStoreProvider", key_groups=16
        )

    def test_of_one_that_keeps_no_state_no_partitions(self, tmp_path):
        put(tmp_path, "offsets/0", entry(4))
        found = known(tmp_path, Declared(16))
        assert (found.partitions, found.key_groups) == (None, None)
        assert not found.stateless, "it has not completed a batch"
        put(tmp_path, "commits/0", "v1\n{}")
        assert known(tmp_path, Declared(16)).stateless

    def test_of_one_that_keeps_state_that_it_does(self, place):
        assert not known(place, Declared(16)).stateless

    def test_why_it_can_t_be_changed_also_of_one_that_was_new(self, tmp_path, place):
        put(tmp_path, "counts/offsets/2", entry(4, layout.HDFS))
        assert "kept by HDFSBackedStateStoreProvider" in (known(place, DECLARED).unchangeable or "")
        new = known(tmp_path / "new", DECLARED)
        assert new.unchangeable is None
        checkpoint(tmp_path / "new")
        assert new.remember().unchangeable is None
        put(tmp_path / "new", "state/0/_metadata/metadata", LIMIT)
        told = new.remember().completed(QueryState(partitions=4)).unchangeable
        assert told is not None and told.startswith("operator 0 is a limit() of the stream")

    def test_why_it_can_t_be_changed_also_where_no_state_was_declared_yet(self, place):
        """By the time of a change it may be: then it is refused before a restart."""
        assert known(place, Declared()).unchangeable is None
        put(place, "offsets/2", entry(4, layout.HDFS))
        found = known(place, Declared())
        assert "kept by HDFSBackedStateStoreProvider" in (found.unchangeable or "")

    def test_what_can_t_be_looked_up_keeps_no_query_from_starting(self, place, monkeypatch, capfd):
        monkeypatch.setattr(hook, "why_unchangeable", unreachable)
        found = known(place, DECLARED)
        assert (found.unchangeable, found.key_groups) == (None, 16)
        said = capfd.readouterr().err
        assert "whether the state in counts can be changed is not known: no answer" in said

    def test_nothing_is_remembered_where_nothing_is_declared(self, place):
        was = {each.name for each in place.iterdir()}
        assert known(place, Declared()).key_groups is None
        assert {each.name for each in place.iterdir()} == was

    def test_key_groups_that_can_t_be_remembered_keep_no_query_from_starting(
        self, place, monkeypatch, capfd
    ):
        def full(*_: object) -> None:
            raise OSError("No space left on device")

        monkeypatch.setattr(Disk, "write", full)
        assert known(place, Declared(16)).key_groups is None
        assert "counts can't be remembered: No space left" in capfd.readouterr().err

    @pytest.mark.parametrize(
        ("declared", "note"),
        [
            (Declared(16), None),
            (Declared(6), "4 partitions don't divide its 6 key groups"),
            (Declared(6, plain_hash=True), None),
            (Declared(3, plain_hash=True), "4 partitions are more than its 3 key groups"),
        ],
    )
    def test_partitions_that_do_not_fit_what_is_declared_are_noted(self, place, declared, note):
        said = known(place, declared).note
        assert said == note or (said or "").startswith(f"{note}")
        assert said is None or said.endswith(". Reconfigure it to a number that fits")

    def test_a_spark_that_can_t_change_them_is_named_in_place_of_a_change(self, place):
        said = known(place, Declared(6), version="4.1.9").note or ""
        assert said.endswith(". Another number needs Spark 4.2 or newer; this is Spark 4.1.9")

    @pytest.mark.parametrize("asked", [16, 8, None])
    def test_key_groups_that_are_declared_otherwise_later_are_noted(self, place, asked):
        known(place, Declared(16))
        found = known(place, Declared(asked))
        assert found.key_groups == 16
        text = "8 key groups are declared, and its checkpoint has 16"
        assert (found.note or "").startswith(text) == (asked == 8)
        assert (found.note is None) == (asked != 8)
        assert found.completed(QueryState(partitions=4)).note == found.note

    @pytest.mark.parametrize(
        ("provider", "counted", "rows"),
        [
            (layout.ROCKSDB, None, 5),
            (layout.ROCKSDB, "TRUE", 5),
            (layout.ROCKSDB, "false", None),
            (layout.HDFS, "false", 5),
        ],
    )
    def test_rows_that_spark_does_not_count_are_not_told(self, tmp_path, provider, counted, rows):
        conf = {layout.PROVIDER: provider} | ({} if counted is None else {hook.COUNTED: counted})
        found = known(tmp_path, Declared(), **conf)
        assert found.completed(QueryState(partitions=4, rows=5)).rows == rows

    def test_what_the_last_change_came_to_is_told_until_the_next(self, place):
        its = StateHook("4.3.0", Declared(8, False, PLAN))
        found = before_start(its, Spark(Disk(place)), place)
        assert found is not None and found.last is not None
        assert (found.last.outcome, found.partitions) == ("changed", 8)
        again = known(place, Declared(8))
        assert again.last == found.last
        assert again.completed(QueryState(partitions=8)).last == found.last


class TestNoted:
    def test_a_change_that_can_t_be_noted_is_said_and_stays(self, place, monkeypatch, capfd):
        write = Disk.write

        def full(disk: Disk, name: str, written: bytes) -> None:
            if name.endswith("/last"):
                raise OSError("No space left on device")
            write(disk, name, written)

        monkeypatch.setattr(Disk, "write", full)
        its = StateHook("4.3.0", Declared(8, False, PLAN))
        before_start(its, Spark(Disk(place)), place)
        assert [each.outcome for each in its.reconfigurations] == ["changed"]
        assert "can't be noted: No space left" in capfd.readouterr().err

    @pytest.mark.parametrize(("partitions", "is_noted"), [(8, True), (4, False)])
    def test_one_that_is_done_or_would_be_refused_again_and_no_other(
        self, place, partitions, is_noted
    ):
        its = StateHook(
            "4.3.0", Declared(8, False, StatePlan("plan", partitions, 8, queries=("counts",)))
        )
        before_start(its, Spark(Disk(place)), place)
        assert (Journal(Disk(place)).last() is not None) == is_noted

    def test_none_is_begun_by_a_driver_that_was_asked_to_stop(self, place):
        was = content(place)
        its = StateHook("4.3.0", Declared(8, False, PLAN), stopping=lambda: True)
        before_start(its, Spark(Disk(place)), place)
        [told] = its.reconfigurations
        assert told.outcome == "refused" and "asked to stop" in (told.reason or "")
        assert content(place) == was

    def test_nor_on_a_spark_that_can_t(self, place):
        its = StateHook("4.1.0", Declared(8, False, PLAN))
        before_start(its, Spark(Disk(place)), place)
        [told] = its.reconfigurations
        assert "this is Spark 4.1.0" in (told.reason or "")
