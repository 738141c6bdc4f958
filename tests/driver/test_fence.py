"""The fence of a checkpoint: who may take it, who keeps it, and what can't be told."""

import dataclasses
import json

import pytest

from dagster_sparkscale.driver import fence
from dagster_sparkscale.driver.fence import Fence, Mark, Taken, why_not
from tests.waiting import wait_for

MINE = Mark("clicks", "rec1", 3, "k3", 1000.0, "process 1 on here")


def other(**fields: object) -> Mark:
    return dataclasses.replace(MINE, **{"key": "k9", **fields})  # type: ignore[arg-type]


class Files:
    """One file of a file system that can break."""

    name = "file:///ckpt/_sparkscale_fence"

    def __init__(self, content: bytes | None = None) -> None:
        self.content = content
        self.broken = self.full = False

    def read(self) -> bytes | None:
        if self.broken:
            raise OSError("no answer")
        return self.content

    def write(self, content: bytes) -> None:
        if self.broken or self.full:
            raise OSError("no room")
        self.content = content

    @property
    def mark(self) -> Mark:
        assert self.content is not None
        return Mark(**json.loads(self.content))


def holding(mark: Mark) -> Files:
    return Files(json.dumps(dataclasses.asdict(mark)).encode())


@pytest.mark.parametrize(
    "found",
    [
        None,
        other(epoch=2),  # an earlier driver of this stream: its record says that it has ended
        other(record="rec2", ended=True),
        other(record="rec0", epoch=7, stream="before"),  # as the store has told
    ],
)
def test_who_may_take_it(found: Mark | None) -> None:
    assert why_not(found, MINE, ("rec0", 7)) is None


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (other(record="rec2"), "which has not said that it has ended"),
        (other(record="rec0", epoch=8), "which has not said that it has ended"),
        (other(epoch=3), "an older copy of what is remembered"),
        (other(epoch=4), "is this a copy of the machine"),
        (other(epoch=4, ended=True), "an older copy"),
    ],
)
def test_who_may_not(found: Mark, why: str) -> None:
    reason = why_not(found, MINE, ("rec0", 7))
    assert reason is not None and why in reason
    assert f"driver {found.epoch} of 'clicks'" in reason


def test_taken_kept_and_released() -> None:
    files = Files()
    mine = Fence(files, MINE)
    mine.take()
    assert files.mark == MINE
    assert mine.lost_to() is None
    mine.release()
    assert files.mark == dataclasses.replace(MINE, ended=True)
    Fence(files, other(record="rec2", epoch=1)).take()


def test_what_another_has_is_refused_with_what_to_do() -> None:
    files = holding(other(record="rec2", stream="renamed", where="process 7 on there"))
    before = files.content
    with pytest.raises(Taken) as caught:
        Fence(files, MINE).take()
    assert "driver 3 of 'renamed' (record rec2)" in str(caught.value)
    assert "process 7 on there" in str(caught.value)
    assert f"delete {Files.name} and start the stream again" in str(caught.value)
    assert files.content == before


def test_who_takes_it_while_another_has_it_is_seen_by_that_one() -> None:
    files = Files()
    mine = Fence(files, MINE)
    mine.take()
    Fence(files, other(epoch=4)).take()
    assert mine.lost_to() == files.mark
    mine.release()  # which leaves the other's alone
    assert files.mark.epoch == 4 and not files.mark.ended


def test_of_two_at_the_same_moment_the_first_sees_that_it_was_not_alone() -> None:
    class Raced(Files):
        def write(self, content: bytes) -> None:
            super().write(json.dumps(dataclasses.asdict(other(record="rec2"))).encode())

    with pytest.raises(Taken, match="at this moment"):
        Fence(Raced(), MINE).take()


def test_a_mark_that_was_deleted_is_put_back() -> None:
    files = Files()
    mine = Fence(files, MINE)
    mine.take()
    files.content = None
    assert mine.lost_to() is None
    assert files.mark == MINE


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"epoch": "x"}', b"\xff"])
def test_a_mark_that_cannot_be_read_is_somebodys(content: bytes) -> None:
    with pytest.raises(Taken, match="unreadable"):
        Fence(Files(content), MINE).take()


def test_where_nothing_can_be_read_or_written_the_driver_runs_without_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    unreadable, full = Files(), Files()
    unreadable.broken = full.full = True
    for files, what in ((unreadable, "cannot be read"), (full, "cannot be written")):
        mine = Fence(files, MINE)
        mine.take()
        assert mine.lost_to() is None
        mine.release()
        assert what in "".join(capfd.readouterr())


def test_no_answer_is_not_a_loss() -> None:
    files = Files()
    mine = Fence(files, MINE)
    mine.take()
    files.broken = True
    assert mine.lost_to() is None


def test_the_loss_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "LOOK_EVERY", 0.01)
    files, told = Files(), list[Mark]()
    mine = Fence(files, MINE)
    mine.take()
    mine.watch(told.append)
    Fence(files, other(epoch=4)).take()
    wait_for("the loss", lambda: told)
    assert told == [files.mark]
