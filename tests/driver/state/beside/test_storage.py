"""How files come into a copy of a checkpoint, and back: what hangs, what has gone, what can't be
listed."""

import errno
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dagster_sparkscale.driver.state.beside import storage
from dagster_sparkscale.driver.state.beside.storage import Elsewhere, NotNeeded, Pause, ThisHost
from tests.driver.state.disk import Disk, put
from tests.waiting import HANGS


def never() -> None:
    """What is not given up."""


class Slow(Disk):
    """A file system on which a copy of `slow` is not over until it is let go."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.go, self.begun = threading.Event(), threading.Event()
        self.copied: list[str] = []

    def copy(self, name: str, to: str, pause: Pause = time.sleep) -> None:
        if name == "slow":
            self.begun.set()
            assert self.go.wait(HANGS)
        if name == "put off":
            self.begun.set()
            pause(HANGS)
        super().copy(name, to)
        self.copied.append(name)


@pytest.fixture
def slow(tmp_path, monkeypatch) -> Iterator[Slow]:
    monkeypatch.setattr(storage, "_LOOK_SECONDS", 0.01)
    put(tmp_path, "slow", "it")
    put(tmp_path, "quick", "it")
    disk = Slow(tmp_path)
    yield disk
    disk.go.set()


def test_a_copy_that_hangs_is_given_up(slow):
    pairs = [("slow", "copy/slow"), ("quick", "copy/quick")]

    def why() -> str | None:
        return "the driver is to stop" if slow.begun.is_set() else None

    for do in (
        lambda: Elsewhere(slow).share(pairs, why, leave=True),
        lambda: Elsewhere(slow).copy(pairs, why),
    ):
        with pytest.raises(NotNeeded, match="the driver is to stop"):
            do()
    assert "slow" not in slow.copied
    left = [each for each in threading.enumerate() if each.name.startswith("sparkscale-copy")]
    assert left and all(each.daemon for each in left), "they keep the process from ending"


def test_reading_that_hangs_is_given_up(slow, monkeypatch):
    def read(name: str) -> bytes:
        slow.begun.set()
        slow.go.wait(HANGS)
        return b""

    monkeypatch.setattr(slow, "read", read)
    with pytest.raises(NotNeeded, match="late"):
        Elsewhere(slow).read_all(["slow"], lambda: "late" if slow.begun.is_set() else None)


def test_what_s3_has_put_off_is_not_copied_any_more_once_it_is_given_up(slow, tmp_path):
    put(tmp_path, "put off", "it")
    with pytest.raises(NotNeeded, match="late"):
        Elsewhere(slow).share(
            [("put off", "state/1")], lambda: "late" if slow.begun.is_set() else None
        )
    assert not (tmp_path / "state/1").exists()


def test_a_driver_that_was_frozen_links_nothing_once_it_wakes_up(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "_LOOK_SECONDS", 0.0)
    put(tmp_path, "copy/1", "it")
    put(tmp_path, "copy/2", "it")

    def why() -> str | None:
        return "another driver" if (tmp_path / "state/1").exists() else None

    pairs = [("copy/1", "state/1"), ("copy/2", "state/2")]
    with pytest.raises(NotNeeded, match="another driver"):
        ThisHost(tmp_path).share(pairs, why)
    assert not (tmp_path / "state/2").exists()


@pytest.mark.parametrize("of", [ThisHost, lambda root: Elsewhere(Disk(root))])
def test_only_what_was_put_there_is_taken_back(tmp_path, of):
    for name, text in (("ours", "it"), ("theirs", "other")):
        put(tmp_path, name, text)
        of(tmp_path).take_back(name, b"it")
    of(tmp_path).take_back("gone", b"it")
    assert [each.name for each in tmp_path.iterdir()] == ["theirs"]


def test_in_the_checkpoint_itself_what_was_begun_is_over_when_it_ends(slow, tmp_path):
    """Or it would come after the undo."""
    why = slow.begun.is_set
    with ThreadPoolExecutor(1) as another:
        ended = another.submit(
            Elsewhere(slow).share,
            [("slow", "state/slow")],
            lambda: "another driver" if why() else None,
        )
        assert slow.begun.wait(HANGS)
        with pytest.raises(TimeoutError):
            ended.result(timeout=0.1)
        slow.go.set()
        with pytest.raises(NotNeeded):
            ended.result(timeout=HANGS)
    assert (tmp_path / "state/slow").exists()


def test_more_files_than_are_copied_at_once(tmp_path):
    names = [f"state/{number}" for number in range(5 * storage._AT_ONCE)]
    for name in names:
        put(tmp_path, name, name)
    Elsewhere(Disk(tmp_path)).share([(name, f"copy/{name}") for name in names], never)
    assert [(tmp_path / "copy" / name).read_text() for name in names] == names


@pytest.mark.parametrize("of", [ThisHost, lambda root: Elsewhere(Disk(root))])
def test_what_has_gone_is_passed_over_where_it_may_and_else_told(tmp_path, of):
    put(tmp_path, "there", "it")
    pairs = [("gone", "copy/gone"), ("there", "copy/there")]
    of(tmp_path).copy(pairs, never)
    assert (tmp_path / "copy/there").exists()
    with pytest.raises(FileNotFoundError, match="gone"):
        of(tmp_path).share([("gone", "other/gone")], never)


def test_a_folder_that_can_t_be_listed_is_not_empty(tmp_path, monkeypatch):
    put(tmp_path, "state/0/_metadata/v2/0", "v2")
    scandir = os.scandir

    def stale(place: str) -> object:
        if str(place).endswith("_metadata"):
            raise OSError(errno.ESTALE, "Stale file handle", str(place))
        return scandir(place)

    monkeypatch.setattr(os, "scandir", stale)
    with pytest.raises(OSError, match="Stale file handle"):
        ThisHost(tmp_path).sizes("state")
    assert ThisHost(tmp_path).sizes("missing") == {}


def test_a_copy_is_deleted_whole_though_files_of_it_go_meanwhile(tmp_path, monkeypatch):
    for number in range(9):
        put(tmp_path, f"copies/{number // 3}/{number}", "it")
    unlink, gone = os.unlink, []

    def meanwhile(name: str, **where: int) -> None:
        if not gone:
            gone.append(name)
            unlink(name, **where)
        unlink(name, **where)

    monkeypatch.setattr(os, "unlink", meanwhile)
    ThisHost(tmp_path).clear("copies")
    assert gone and not (tmp_path / "copies").exists()
