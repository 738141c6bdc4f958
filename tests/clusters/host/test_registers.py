"""A text that changes by compare-and-swap only: of two that have read the same, one writes."""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host.registers import KEPT, Register
from dagster_sparkscale.clusters.records.store import Conflict


def texts(register: Register) -> str | None:
    found = register.read()
    return found[1].decode() if found else None


@pytest.fixture
def register(tmp_path: Path) -> Register:
    return Register(tmp_path / "register")


def test_what_was_never_written_is_nothing(register: Register) -> None:
    assert register.read() is None


def test_the_newest_revision_counts(register: Register) -> None:
    for revision in range(1, 12):
        register.swap(revision, str(revision).encode())
    assert texts(register) == "11"


def test_of_two_that_have_read_the_same_the_second_conflicts(register: Register) -> None:
    register.swap(1, b"first")
    register.swap(2, b"quicker")
    with pytest.raises(Conflict, match="revision 2 has been made by somebody else"):
        register.swap(2, b"slower")
    assert texts(register) == "quicker"


@pytest.mark.parametrize("revision", [3, 9])
def test_what_follows_nothing_that_is_there_conflicts(register: Register, revision: int) -> None:
    register.swap(1, b"first")
    with pytest.raises(Conflict):
        register.swap(revision, b"from nowhere")
    assert texts(register) == "first"


@pytest.mark.parametrize("later", range(1, 2 * KEPT + 1))
def test_who_froze_before_the_link_conflicts_however_much_later_he_wakes_up(
    register: Register, later: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The revision that he makes was made, and removed, while he was frozen."""
    register.swap(1, b"read by both")
    link, frozen = os.link, []

    def freeze(*paths: Path) -> None:
        if not frozen:
            frozen.append(True)
            for revision in range(2, 2 + later):
                register.swap(revision, b"quicker")
        link(*paths)

    monkeypatch.setattr("os.link", freeze)
    with pytest.raises(Conflict):
        register.swap(2, b"frozen")
    assert texts(register) == "quicker"
    assert not any(path.read_bytes() == b"frozen" for path in register.folder.iterdir())


@given(st.lists(st.sampled_from("ab"), max_size=60))
@settings(max_examples=50)
def test_a_chain_of_swaps_never_breaks(steps: list[str]) -> None:
    """Two writers, each of which may be behind: what is written follows what was there."""
    with tempfile.TemporaryDirectory() as folder:
        register = Register(Path(folder) / "register")
        known = {"a": 0, "b": 0}
        truth = 0
        for writer in steps:
            try:
                register.swap(known[writer] + 1, str(known[writer] + 1).encode())
                assert known[writer] == truth
                truth = known[writer] = truth + 1
            except Conflict:
                assert known[writer] < truth
                known[writer] = int(texts(register) or 0)
        assert int(texts(register) or 0) == truth
        assert len(list(register.folder.iterdir())) <= KEPT if truth else True


def test_many_at_once_each_make_a_revision_of_their_own(register: Register) -> None:
    made: list[int] = []
    overtaken: set[int] = set()

    def count() -> None:
        while len(made) < 60:
            revision = int(texts(register) or 0) + 1
            try:
                register.swap(revision, str(revision).encode())
            except Conflict:
                # Who is held up for so long that it would have been removed is told that it was.
                if int(texts(register) or 0) >= revision + KEPT:
                    overtaken.add(revision)
                continue
            made.append(revision)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == len(set(made))
    assert set(range(1, max(made) + 1)) - set(made) <= overtaken


def test_processes_conflict_as_threads_do(register: Register) -> None:
    program = (
        "import sys, pathlib\n"
        "from dagster_sparkscale.clusters.host.registers import Register\n"
        "from dagster_sparkscale.clusters.records.store import Conflict\n"
        "register = Register(pathlib.Path(sys.argv[1]))\n"
        "sys.stdin.readline()\n"
        "try:\n"
        "    register.swap(1, sys.argv[2].encode()); print('made')\n"
        "except Conflict:\n"
        "    print('conflict')\n"
    )
    others = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(register.folder), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    for other in others:
        assert other.stdin is not None
        other.stdin.write("\n")
        other.stdin.flush()
    said = sorted(other.communicate()[0].strip() for other in others)
    assert said == ["conflict", "conflict", "made"]


def test_a_file_system_without_links_is_refused_with_what_to_do(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("os.link", refuse)
    with pytest.raises(ClusterError, match=r"has no hard links .*put state_dir on one that has"):
        register.swap(1, b"x")
    monkeypatch.undo()
    assert register.read() is None
    assert list(register.folder.iterdir()) == []


def test_what_somebody_died_of_writing_is_no_revision(register: Register) -> None:
    register.swap(1, b"whole")
    (register.folder / ".2.123.abcd").write_bytes(b"ha")
    assert texts(register) == "whole"
    register.swap(2, b"next")
    assert texts(register) == "next"


@pytest.mark.parametrize("name", ["0002", "00", "\u0662", "2.bak"])
def test_a_file_that_is_not_called_as_a_revision_is_none(register: Register, name: str) -> None:
    register.swap(1, b"whole")
    (register.folder / name).write_bytes(b"put here by hand")
    assert register.newest() == register.folder / "1"
    register.swap(2, b"next")
    assert texts(register) == "next"


def test_a_link_whose_answer_was_lost_on_the_way_is_ones_own(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network file system may make a link, lose the answer, and be asked again."""
    link = os.link

    def twice(*paths: Path) -> None:
        link(*paths)
        link(*paths)

    monkeypatch.setattr("os.link", twice)
    register.swap(1, b"mine")
    assert texts(register) == "mine"
