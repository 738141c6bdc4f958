"""The copy of a checkpoint, and what is taken from it, as files; without Spark."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.beside import copying, names
from dagster_sparkscale.driver.state.beside.copying import CannotCopy, Made
from dagster_sparkscale.driver.state.beside.storage import (
    Elsewhere,
    GivenUp,
    NotNeeded,
    Storage,
    ThisHost,
)
from dagster_sparkscale.driver.state.folder import local_files
from dagster_sparkscale.driver.state.journal import Begun
from dagster_sparkscale.driver.state.undo import files_of, undo
from tests.driver.state.beside.test_names import snapshot
from tests.driver.state.disk import Disk, content, entry, put
from tests.waiting import HANGS

BEFORE, AFTER, BATCH = 2, 4, 6


@pytest.fixture(autouse=True)
def nothing_is_waited_for(monkeypatch):
    monkeypatch.setattr(copying, "_WRITTEN_SECONDS", 0.0)


def never() -> None:
    """A copy that is not given up."""


def stored(folder: Path, version: int, data: str) -> None:
    """A version of a partition, whole, with checksums as Spark and Hadoop write them."""
    sst = {"localFileName": "8.sst", "dfsSstFileName": f"8-{data}.sst", "sizeBytes": len(data)}
    (folder / "SSTs").mkdir(parents=True, exist_ok=True)
    (folder / "SSTs" / f"8-{data}.sst").write_text(data)
    (folder / "SSTs" / f".8-{data}.sst.crc").write_text("crc")
    (folder / f"{version}.zip").write_bytes(snapshot({"sstFiles": [sst]}))
    for each in names.with_checksums(f"{version}.zip")[1:]:
        (folder / each).write_text("crc")


def folders(partitions: int) -> list[str]:
    return [names.folder_of((0, "default"), part) for part in range(partitions)]


@pytest.fixture
def root(tmp_path) -> Path:
    """A checkpoint whose query goes on: it has begun the batch after `BATCH`."""
    root = tmp_path / "checkpoint"
    put(root, "metadata", '{"id":"the query\'s"}')
    put(root, "sources/0/0", "v1")
    put(root, "sources/0/.1.uuid.tmp", "draft")
    for batch in range(BATCH + 2):
        put(root, f"offsets/{batch}", entry(BEFORE))
        if batch <= BATCH:
            put(root, f"commits/{batch}", "v1\n{}")
    for part in range(BEFORE):
        place = root / "state" / "0" / str(part)
        stored(place, 3, f"old{part}")
        stored(place, 5, f"base{part}")
        for version in range(4, BATCH + 3):
            put(place, f"{version}.changelog", f"version {version}")
        put(place, f".{BATCH + 3}.changelog.uuid.tmp", "draft")
    put(root, "state/0/0/_metadata/schema", "v2")
    put(root, "state/0/_metadata/v2/0", "v2\n{}")
    return root


@pytest.fixture(params=["of this host", "elsewhere"])
def storage(request, root) -> Storage:
    """What the checkpoint is on: a folder of this host, or any other file system."""
    return ThisHost(root) if request.param == "of this host" else Elsewhere(Disk(root))


@pytest.fixture
def place(storage, root) -> Path:
    return root / copied(storage)


def copied(storage: Storage, given_up: GivenUp = never) -> str:
    """A copy, as it is made."""
    place = copying.place_of("copy")
    of_batch = (storage, place, BATCH, folders(BEFORE))
    copying.make(*of_batch, see_to_room=lambda _size: None, given_up=given_up)
    return place


def test_the_copy_has_the_batch_and_what_it_is_made_of_and_nothing_later(storage, root, place):
    there = {str(each.relative_to(place)) for each in place.rglob("*") if each.is_file()}
    of_a_part = {
        *("SSTs/8-base{}.sst", "SSTs/.8-base{}.sst.crc", "6.changelog", "7.changelog"),
        *names.with_checksums("5.zip"),
    }
    assert there == {
        "metadata",
        *(f"{log}/{batch}" for log in ("offsets", "commits") for batch in (BATCH - 1, BATCH)),
        "sources/0/0",
        "state/0/0/_metadata/schema",
        "state/0/_metadata/v2/0",
        *(f"state/0/{part}/{each.format(part)}" for part in range(BEFORE) for each in of_a_part),
    }
    assert json.loads((place / "metadata").read_text())["id"] != "the query's"
    linked = (place / "state/0/0/5.zip").samefile(root / "state/0/0/5.zip")
    assert linked == isinstance(storage, ThisHost)
    # What is written over is no link.
    assert not (place / "state/0/_metadata/v2/0").samefile(root / "state/0/_metadata/v2/0")


class OfThisHost(Disk):
    """A checkpoint whose files are listed as those of a folder of this host are."""

    def files(self, folder: str = "") -> Mapping[str, int]:
        there = local_files(str(self._root / folder))
        return {str(Path(folder, name)): size for name, size in there.items()}


def test_what_is_still_written_in_it_keeps_no_change_from_being_undone(root, place, monkeypatch):
    """Tasks of a replay that was given up go on for a moment: they rename what they have written,
    between the listing of a folder and a look at its files."""
    disk, was = OfThisHost(root), content(root)
    change = Begun("plan", BATCH + 1, BEFORE, AFTER, files_of(disk))
    put(root, f"state/0/1/{BATCH + 3}.zip", "new")
    size = os.path.getsize

    def getsize(file: str) -> int:
        if layout.COPIES in file:
            os.unlink(file)
        return size(file)

    monkeypatch.setattr(os.path, "getsize", getsize)
    assert undo(disk, change).trouble is None
    assert content(root) == was


def test_it_stays_whole_when_spark_deletes_what_it_is_made_of(root, place):
    for each in (root / "state" / "0" / "0").rglob("*"):
        if each.is_file():
            each.unlink()
    assert (place / "state/0/0/SSTs/8-base0.sst").read_text() == "base0"


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda root: (root / "state/0/1/5.zip").unlink(), None),
        (lambda root: put(root, "state/0/1/7_0c1f.zip", ""), names.NotKnown),
        (lambda root: put(root, "state/0/1/5.zip", "cut off"), names.NotKnown),
        (lambda root: (root / "state/0/1/SSTs/8-base1.sst").unlink(), FileNotFoundError),
        (lambda root: [each.unlink() for each in (root / "state/0/1").glob("*.*")], CannotCopy),
    ],
)
def test_what_is_not_whole_is_not_copied(storage, root, spoil, error):
    spoil(root)
    if error is None:  # an earlier snapshot does as well
        assert (root / copied(storage) / "state/0/1/3.zip").exists()
        return
    with pytest.raises(error):
        copied(storage)


def test_copying_from_another_file_system_is_given_up_where_nobody_needs_it(root):
    with pytest.raises(NotNeeded, match="its query has ended"):
        copied(Elsewhere(Disk(root)), lambda: "its query has ended")


def test_what_describes_a_later_batch_is_not_copied(storage, root):
    """Spark writes it as it plans the batch, and would leave it when it rewrites the copy."""
    for batch in (BATCH, BATCH + 1):
        put(root, f"state/0/_metadata/v2/{batch}", "v2")
    there = root / copied(storage) / "state/0/_metadata/v2"
    assert (there / str(BATCH)).exists() and not (there / str(BATCH + 1)).exists()


def test_sources_are_followed(storage, root, place):
    put(root, "sources/0/1", "v1 later")
    copying.follow_sources(storage, str(place.relative_to(root)), never)
    assert (place / "sources/0/1").read_text() == "v1 later"
    assert not (place / "sources/0/.1.uuid.tmp").exists()


def caught_up(place: Path, version: int = BATCH + 3) -> Made:
    """What Spark makes of a copy: rewritten, and with a batch more."""
    for part in range(AFTER):
        stored(place / "state" / "0" / str(part), BATCH + 2, f"rewritten{part}")
        stored(place / "state" / "0" / str(part), version, f"new{part}")
    put(place, f"state/0/_metadata/v2/{BATCH + 1}", 'v2\n{"numPartitions":4}')
    put(place, f"state/0/_metadata/v2/{BATCH + 2}", f"v2 in {layout.COPIES}")
    return Made(str(place.relative_to(place.parents[2])), BATCH + 1, version)


def take_over(storage: Storage, made: Made, given_up: GivenUp = never) -> None:
    texts = (entry(AFTER), "v1\n{}")
    copying.take_over(storage, made, BATCH + 2, folders(AFTER), texts, given_up)


def begun(root: Path) -> Begun:
    return Begun("plan", BATCH + 1, BEFORE, AFTER, files_of(Disk(root)))


def test_what_it_has_come_to_is_a_batch_of_the_checkpoint_as_of_spark_s_rewriting(
    storage, root, place
):
    put(root, f"commits/{BATCH + 1}", "v1\n{}")
    before, made = content(root), caught_up(place)
    change = begun(root)
    take_over(storage, made)
    new = {name: it for name, it in content(root).items() if name not in before}
    batch = BATCH + 2
    of_a_part = ["SSTs/8-new{}.sst", *names.with_checksums(f"{batch + 1}.zip")]
    named = {f"state/0/{part}/{each.format(part)}" for part in range(AFTER) for each in of_a_part}
    hidden = {f"state/0/{part}/SSTs/.8-new{part}.sst.crc" for part in range(AFTER)}
    described = f"state/0/_metadata/v2/{batch}"
    assert set(new) == {*named, *hidden, described, f"offsets/{batch}", f"commits/{batch}"}
    assert new[described] == b'v2\n{"numPartitions":4}'
    assert layout.bound(new[f"offsets/{batch}"].decode(), "").partitions == AFTER
    assert {name: content(root)[name] for name in before} == before
    storage.clear(layout.COPIES)
    assert (root / "state/0/3/SSTs/8-new3.sst").read_text() == "new3"
    assert not (root / layout.COPIES).exists()
    assert undo(Disk(root), change).trouble is None
    assert content(root) == before


def test_its_files_are_the_newest_there(storage, root, place):
    put(root, f"commits/{BATCH + 1}", "v1\n{}")
    made = caught_up(place)
    for each in place.rglob("*.sst"):
        os.utime(each, (0, 0))
    take_over(storage, made)
    times = {each.name: each.stat().st_mtime for each in root.glob("state/0/?/SSTs/*.sst")}
    new = {name for name in times if "new" in name}
    assert len(new) == AFTER and min(times[each] for each in new) > 1e9


@pytest.mark.parametrize(
    "spoil",
    [
        lambda place: (place / f"state/0/3/{BATCH + 3}.zip").unlink(),
        lambda place: put(place, f"state/0/3/{BATCH + 3}.zip", "cut off"),
        lambda place: (place / "state/0/3/SSTs/8-new3.sst").unlink(),
        lambda place: (place / f"state/0/_metadata/v2/{BATCH + 1}").unlink(),
        lambda place: put(place, f"state/0/_metadata/v2/{BATCH + 1}", f"v2 {layout.COPIES}"),
    ],
)
def test_what_can_t_be_taken_over_whole_is_undone_whole(storage, root, place, spoil):
    put(root, f"commits/{BATCH + 1}", "v1\n{}")
    before, made = content(root), caught_up(place)
    spoil(place)
    change = begun(root)
    with pytest.raises((CannotCopy, names.NotKnown, OSError)):
        take_over(storage, made)
    assert not (root / f"commits/{BATCH + 2}").exists()
    assert undo(Disk(root), change).trouble is None
    assert content(root) == before


def test_a_snapshot_that_is_still_being_written_is_waited_for(storage, place, monkeypatch):
    monkeypatch.setattr(copying, "_WRITTEN_SECONDS", HANGS)
    made = caught_up(place)
    late = place / f"state/0/3/{BATCH + 3}.zip"
    written = late.read_bytes()
    late.unlink()
    monkeypatch.setattr(copying.time, "sleep", lambda _: late.write_bytes(written))
    assert copying.is_whole(storage, made, folders(AFTER))
    assert late.read_bytes() == written


def test_one_that_never_comes_is_not_waited_for_for_ever(storage, place):
    made = caught_up(place)
    (place / f"state/0/3/{BATCH + 3}.zip").unlink()
    assert not copying.is_whole(storage, made, folders(AFTER))


def test_nothing_that_is_there_is_written_over(storage, root, place):
    put(root, f"commits/{BATCH + 1}", "v1\n{}")
    made = caught_up(place)
    put(root, f"state/0/0/{BATCH + 3}.zip", "somebody's")
    with pytest.raises(FileExistsError):
        take_over(storage, made)
    assert (root / f"state/0/0/{BATCH + 3}.zip").read_text() == "somebody's"


@pytest.mark.parametrize("log", [layout.OFFSETS, layout.COMMITS])
def test_an_entry_is_taken_back_where_its_driver_was_frozen_while_it_wrote_it(
    storage, root, place, log
):
    """Whoever has undone the change meanwhile does so once: Spark would never start again."""
    put(root, f"commits/{BATCH + 1}", "v1\n{}")
    made, entry_of = caught_up(place), root / log / str(BATCH + 2)

    def another() -> str | None:
        return "another driver" if entry_of.exists() else None

    with pytest.raises(NotNeeded, match="another driver"):
        take_over(storage, made, another)
    assert not entry_of.exists()


def test_what_is_not_needed_any_more_is_not_committed(storage, root, place):
    put(root, f"commits/{BATCH + 1}", "v1\n{}")
    made = caught_up(place)
    with pytest.raises(NotNeeded, match="it runs elsewhere"):
        take_over(
            storage,
            made,
            lambda: "it runs elsewhere" if (root / f"state/0/3/{BATCH + 3}.zip").exists() else None,
        )
    assert not (root / f"commits/{BATCH + 2}").exists()
