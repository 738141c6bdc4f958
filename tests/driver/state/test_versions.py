"""Which files of state stores are needed, and whose those are that come beside a change."""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.state import versions
from dagster_sparkscale.driver.state.undo import undo
from dagster_sparkscale.driver.state.versions import StateFile, cleaned_up, of_others, state_file
from tests.driver.state.disk import Disk, checkpoint, content, entry, put, snapshot
from tests.driver.state.test_undo import change_of

STORE = "state/0/1"
BATCH = 9
"""The last one that is done: it has left version 10."""


def no_parts(_name: str) -> frozenset[str]:
    return frozenset()


def unread(_name: str) -> None: ...


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("state/0/1/5.zip", StateFile("state/0/1", "zip", 5)),
        ("state/0/1/5_a1-b2.zip", StateFile("state/0/1", "zip", 5)),
        ("state/0/1/5.zip.crc", StateFile("state/0/1", "sum", 5)),
        ("state/1/12/left-keyWithIndexToValue/7.changelog", None),
        ("state/0/1/SSTs/000008-a1.sst", StateFile("state/0/1", "part")),
        ("state/1/2/right/logs/1-b.log", StateFile("state/1/2/right", "part")),
        ("state/0/1/_metadata/schema", None),
        ("state/0/_metadata/v2/3", None),
        ("state/0/1/.5.zip.a1.TID7.tmp", None),
        ("state/0", None),
        ("offsets/5", None),
    ],
)
def test_files_are_told_apart_by_their_names(name, found):
    if name.endswith("changelog"):
        found = StateFile("state/1/12/left-keyWithIndexToValue", "changelog", 7)
    assert state_file(name) == found


@pytest.mark.parametrize("broken", [None, b"", b"all of it", "another file"])
def test_what_is_no_whole_snapshot_tells_nothing(broken):
    if broken == "another file":
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as files:
            files.writestr("CURRENT", "x")
        broken = made.getvalue()
    assert versions.parts_of(broken) is None
    assert versions.parts_of(snapshot("8-a.sst", "9-b.sst")) == {"8-a.sst", "9-b.sst"}


@dataclass(frozen=True)
class Store:
    """Versions 1 to 10 of a store: their files, and what its snapshots name."""

    files: Mapping[str, int]
    parts: Mapping[str, frozenset[str]]

    def parts_of(self, name: str) -> frozenset[str]:
        return frozenset(part.rpartition("/")[2] for part in self.parts[name])

    def loads(self, now: Mapping[str, int], version: int = BATCH + 1) -> bool:
        """Whether Spark gets a version from what there is: by the latest snapshot up to it, and the
        changes since."""
        base = max((n for n in range(version + 1) if f"{STORE}/{n}.zip" in now), default=None)
        if base is None:
            return False
        changes = (f"{STORE}/{n}.changelog" for n in range(base + 1, version + 1))
        return {*changes, *self.parts[f"{STORE}/{base}.zip"]} <= now.keys()

    def after_maintenance(self, retained: int) -> Mapping[str, int]:
        """What Spark leaves that has seen the version of the change."""
        snapshots = sorted(state_file(name).version for name in self.parts)
        least = max((n for n in snapshots if n <= BATCH + 2 - retained + 1), default=0)
        kept = {n for n in self.files if "SSTs" not in n and state_file(n).version >= least}
        named = {part for name, parts in self.parts.items() if name in kept for part in parts}
        return {name: self.files[name] for name in kept | named}


@st.composite
def stores(draw: st.DrawFn) -> Store:
    with_changelogs = draw(st.booleans())
    snapshots = set(range(1, BATCH + 2))
    if with_changelogs:
        snapshots = {1} | draw(st.sets(st.integers(2, BATCH + 1), max_size=4))
    files: dict[str, int] = {}
    parts: dict[str, frozenset[str]] = {}
    before: frozenset[str] = frozenset()
    for version in range(1, BATCH + 2):
        if with_changelogs:
            files[f"{STORE}/{version}.changelog"] = 1
        if version in snapshots:
            # A part is used again by the next ones only.
            before = frozenset(n for n in before if draw(st.booleans())) | {
                f"{STORE}/SSTs/{version}-a.sst"
            }
            parts[f"{STORE}/{version}.zip"] = before
            files |= dict.fromkeys((f"{STORE}/{version}.zip", *before), 1)
    return Store(files, parts)


@given(stores(), st.integers(3, 12))
def test_what_spark_cleans_up_counts_as_such(store, retained):
    now = store.after_maintenance(retained)
    assert store.loads(now)
    assert cleaned_up(store.files, now, BATCH, store.parts_of) == store.files.keys() - now.keys()


@given(stores(), st.data())
def test_where_all_that_has_gone_counts_as_cleaned_up_the_state_can_be_loaded(store, data):
    gone = data.draw(st.sets(st.sampled_from(sorted(store.files))))
    now = {name: size for name, size in store.files.items() if name not in gone}
    assert store.loads(store.files)
    if cleaned_up(store.files, now, BATCH, store.parts_of) == gone:
        assert store.loads(now)


def test_what_a_snapshot_that_can_t_be_read_may_need_does_not_count_as_cleaned_up():
    before = {f"{STORE}/1.zip": 1, f"{STORE}/10.zip": 1, f"{STORE}/SSTs/1-a.sst": 1}
    now = {f"{STORE}/10.zip": 1}
    assert cleaned_up(before, now, BATCH, unread) == set()
    assert cleaned_up(before, now, BATCH, no_parts) == before.keys() - now.keys()


def test_a_snapshot_that_lacks_a_part_is_none():
    before = {f"{STORE}/1.zip": 1, f"{STORE}/10.zip": 1, f"{STORE}/SSTs/10-a.sst": 1}
    now = {f"{STORE}/10.zip": 1}
    assert cleaned_up(before, now, BATCH, lambda _name: frozenset({"10-a.sst"})) == set()


def test_what_is_older_than_a_snapshot_that_has_come_meanwhile_is_cleaned_up():
    before = {f"{STORE}/{name}": 1 for name in ("1.zip", "9.changelog", "10.changelog")}
    now = {f"{STORE}/{name}": 1 for name in ("9.zip", "9.changelog", "10.changelog")}
    assert cleaned_up(before, now, BATCH, no_parts) == {f"{STORE}/1.zip"}


def test_a_snapshot_of_another_size_is_none():
    before = {f"{STORE}/1.zip": 1, f"{STORE}/10.zip": 1}
    assert cleaned_up(before, {f"{STORE}/10.zip": 2}, BATCH, no_parts) == set()


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_of_logs_the_oldest_are_cleaned_up_and_never_the_last_two(log):
    before = {f"{log}/{n}": 1 for n in range(5, BATCH + 1)} | {f"{log}/6.crc": 1}

    def after(*gone: str) -> set[str]:
        now = {name: 1 for name in before if name.rpartition("/")[2] not in gone}
        return {n.rpartition("/")[2] for n in cleaned_up(before, now, BATCH, unread)}

    assert after("5") == {"5"}
    assert after("5", "6", "6.crc") == {"5", "6", "6.crc"}
    assert after("6") == set()  # what is older is there
    assert after("5", "6", "7", "8", "6.crc") == {"5", "6", "7", "6.crc"}
    assert after("5", "9") == set()


def test_drafts_are_nobody_s():
    draft = f"{STORE}/.10.zip.a1.TID7.tmp"
    assert cleaned_up({draft: 1}, {}, BATCH, unread) == {draft}


def test_other_files_of_a_checkpoint_are_not_cleaned_up():
    before = {"state/0/_metadata/metadata": 1, f"{STORE}/_metadata/schema": 1}
    assert cleaned_up(before, {}, BATCH, no_parts) == set()


OWN = {f"{STORE}/11.zip": frozenset({"own.sst"}), "state/0/7/11.zip": frozenset({"new.sst"})}


def come(*names: str, changelogs: bool = True) -> set[str]:
    """Of these files that have come, those that an undo leaves."""
    before = [f"{STORE}/9.zip", *([f"{STORE}/10.changelog"] if changelogs else [])]
    return set(of_others(before, names, BATCH, OWN.get))


def test_a_snapshot_of_the_run_before_is_left_with_its_parts():
    own = (f"{STORE}/11.zip", f"{STORE}/SSTs/own.sst")
    theirs = {f"{STORE}/10.zip", f"{STORE}/SSTs/theirs.sst"}
    assert come(*own, *theirs) == theirs


def test_a_checksum_goes_where_its_file_goes():
    own = (f"{STORE}/11.zip", f"{STORE}/SSTs/own.sst", f"{STORE}/SSTs/.own.sst.crc")
    theirs = {f"{STORE}/SSTs/theirs.sst", f"{STORE}/SSTs/.theirs.sst.crc"}
    assert come(*own, *theirs) == theirs


def test_parts_that_a_copy_has_are_those_of_the_change():
    left = [f"{STORE}/{name}" for name in ("10.zip", "SSTs/own.sst", "SSTs/theirs.sst")]
    copied = [
        f"_sparkscale_state/beside/copy-1/state/0/1/{each}" for each in ("10.zip", "SSTs/own.sst")
    ]
    assert versions.parts_among(left, copied) == {f"{STORE}/SSTs/own.sst"}


def test_parts_whose_snapshot_is_not_there_yet_are_left():
    assert come(f"{STORE}/SSTs/theirs.sst") == {f"{STORE}/SSTs/theirs.sst"}
    assert come(f"{STORE}/11.zip", f"{STORE}/SSTs/own.sst") == set()


def test_without_changelogs_snapshots_are_whole_when_their_batch_is():
    assert come(f"{STORE}/10.zip", f"{STORE}/SSTs/theirs.sst", changelogs=False) == set()


def test_nothing_is_left_where_there_was_no_partition():
    assert come("state/0/7/11.zip", "state/0/7/SSTs/new.sst", "state/0/7/SSTs/torn.sst") == set()


def test_of_a_change_and_of_one_that_has_ended_the_one_is_undone_and_the_other_stays(tmp_path):
    """With what is deleted of old versions meanwhile."""
    checkpoint(tmp_path)
    for part in range(4):
        put(tmp_path, f"state/0/{part}/1.zip", "all of it")
    disk = Disk(tmp_path)
    change = change_of(disk)
    was = content(tmp_path)
    theirs = {"state/0/1/3.zip": snapshot("3-a.sst"), "state/0/1/SSTs/3-a.sst": b"rows"}
    own = {"state/0/1/4.zip": snapshot("4-a.sst"), "state/0/1/SSTs/4-a.sst": b"rows"}
    for name, written in {**theirs, **own, "offsets/3": entry(8).encode()}.items():
        disk.write(name, written)
    gone = {"state/0/1/1.zip", "state/0/1/1.changelog", "state/0/1/2.changelog", "offsets/0"}
    for name in gone:
        (tmp_path / name).unlink()
    undone = undo(disk, change)
    assert undone.trouble is None and undone.files == 3
    assert content(tmp_path) == {n: c for n, c in {**was, **theirs}.items() if n not in gone}


def test_a_kill_in_the_middle_of_an_undo_leaves_none_of_the_change_s_parts(tmp_path):
    """A snapshot alone tells whose they are: it goes last."""
    lives = 0
    while True:
        root = tmp_path / str(lives)
        checkpoint(root)
        was, disk = content(root), Disk(root)
        change = change_of(disk)
        disk.write("state/0/1/SSTs/4-a.sst", b"rows")
        disk.write("state/0/1/4.zip", snapshot("4-a.sst"))
        disk.lives = lives
        died = False
        try:
            undo(disk, change)
        except BaseException:
            died = True
        disk.lives = None
        undo(disk, change)
        assert content(root) == was
        lives += 1
        if not died:
            break
    assert lives > 3
