"""The fence of a checkpoint: who may take it, who keeps it, and what can't be told."""

import dataclasses
import json
import threading

import pytest

from dagster_sparkscale.driver.begin import fence
from dagster_sparkscale.driver.begin.fence import Fence, Mark, Taken, why_not
from tests import clocks
from tests.driver.fenced import MINE, Files, holding, other
from tests.waiting import HANGS, wait_for

FAR = (
    b'{"stream": "s", "record": "r", "epoch": 1, "key": "k", "since": 1e20, "where": "w",'
    b' "ended": false}'
)


@pytest.mark.parametrize(
    ("found", "succeeds"),
    [
        (None, None),
        (other(epoch=2), ("rec1", 2)),
        (other(epoch=1), ("rec1", 2)),  # the last one told, and never came to a mark
        (other(record="rec2", ended=True), ("rec1", 2)),
        (other(record="rec2", ended=True), None),
        (other(record="rec0", epoch=7, stream="before"), ("rec0", 7)),
    ],
)
def test_who_may_take_it(found: Mark | None, succeeds: tuple[str, int] | None) -> None:
    assert why_not(found, MINE, succeeds) is None


@pytest.mark.parametrize(
    ("found", "succeeds", "why"),
    [
        (other(record="rec2"), ("rec1", 2), "which has not said that it has ended"),
        (other(record="rec2"), None, "which has not said that it has ended"),
        (other(record="rec0", epoch=8), ("rec0", 7), "which has not said that it has ended"),
        (other(key=fence.UNREADABLE), ("", 2), "can't be understood"),
        (other(epoch=3), ("rec1", 2), "an older copy of what is remembered"),
        (other(epoch=4, ended=True), ("rec1", 3), "is this a copy of the machine"),
        (other(epoch=4, ended=True), None, "was the checkpoint moved or copied?"),
        (other(epoch=2), ("rec0", 7), "nothing is remembered here"),
        (other(epoch=1), None, "nothing is remembered here"),
    ],
)
def test_who_may_not(found: Mark, succeeds: tuple[str, int] | None, why: str) -> None:
    reason = why_not(found, MINE, succeeds)
    assert reason is not None and why in reason


def test_it_tells_before_it_writes_and_only_if_it_may() -> None:
    files, told = Files(), list[bytes | None]()
    Fence(files, MINE, None, lambda: told.append(files.content)).take()
    assert told == [None]
    with pytest.raises(Taken):
        Fence(files, other(record="rec2"), None, lambda: told.append(files.content)).take()
    assert told == [None]


def test_what_cannot_be_told_is_not_written(capfd: pytest.CaptureFixture[str]) -> None:
    def full() -> None:
        raise OSError("no room")

    files = Files()
    Fence(files, MINE, None, full).take()
    assert files.content is None
    assert "cannot be written: no room" in "".join(capfd.readouterr())


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
    Fence(files, other(epoch=4), (MINE.record, 3)).take()
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


def test_a_file_that_is_just_being_written_is_left_to_who_writes_it() -> None:
    """It looks empty until then."""
    files = Files()
    mine = Fence(files, MINE)
    mine.take()
    files.content = b""
    assert mine.lost_to() is None
    mine.release()
    assert files.content == b""


def test_a_mark_that_was_missing_for_a_moment_is_left_alone() -> None:
    """Between the deletion of a file and its creation anew, where that is how it is replaced."""

    class Replaced(Files):
        moments = 0

        def read(self) -> bytes | None:
            content = super().read()
            if self.moments == 1:
                self.content = json.dumps(dataclasses.asdict(other(epoch=4))).encode()
            self.moments -= 1
            return content

    files = Replaced()
    mine = Fence(files, MINE)
    mine.take()
    files.content, files.moments = None, 1
    assert mine.lost_to() is None
    assert files.mark == other(epoch=4) == mine.lost_to()


def test_a_file_in_which_nothing_came_to_be_written_is_nobodys() -> None:
    files = Files(b"")
    Fence(files, MINE).take()
    assert files.mark == MINE


def test_what_hadoop_reads_and_finds_changed_is_somebodys() -> None:
    class Flipped(Files):
        def read(self) -> bytes | None:
            raise RuntimeError("org.apache.hadoop.fs.ChecksumException: Checksum error: file:/x")

    with pytest.raises(Taken, match="can't be understood"):
        Fence(Flipped(), MINE).take()


def test_a_mark_that_cannot_be_understood_ends_no_driver() -> None:
    files = Files()
    mine = Fence(files, MINE)
    mine.take()
    files.content = b"{"
    assert mine.lost_to() is None


def test_a_checkpoint_that_was_deleted_is_not_made_again() -> None:
    files = Files()
    mine = Fence(files, MINE)
    mine.take()
    files.content, files.folder = None, False
    assert mine.lost_to() is None
    mine.release()
    assert files.content is None


def test_a_file_system_that_hangs_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "RELEASE_WITHIN", 0.1)
    answer = threading.Event()

    class Hanging(Files):
        def read(self) -> bytes | None:
            if mine._stands:
                answer.wait(HANGS)
            return super().read()

    mine = Fence(Hanging(), MINE)
    mine.take()
    mine.release()
    answer.set()


@pytest.mark.parametrize("content", [b"{}", b"[1]", b'{"epoch": "x"}', b"\xff", FAR])
def test_a_mark_that_cannot_be_read_is_somebodys(content: bytes) -> None:
    with pytest.raises(Taken, match="can't be understood"):
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


class Failing(Files):
    """Fails once, at the n-th read or write, counted from 1."""

    def __init__(self, at: int, content: bytes | None = None) -> None:
        super().__init__(content)
        self.left = at

    def read(self) -> bytes | None:
        self._count()
        return super().read()

    def write(self, content: bytes) -> None:
        self._count()
        super().write(content)

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise OSError("503 slow down")


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("found", [None, other(epoch=2)])
def test_a_driver_that_could_not_read_or_write_at_its_start_takes_it_late(
    at: int, found: Mark | None
) -> None:
    files = Failing(at, holding(found).content if found else None)
    told: list[None] = []
    mine = Fence(files, MINE, (MINE.record, 2), lambda: told.append(None))
    mine.take()
    assert mine.lost_to() is None
    assert files.mark == MINE and told
    files.content = holding(other(record="rec2")).content
    assert mine.lost_to() == files.mark
    files.content = holding(MINE).content
    mine.release()
    assert files.mark.ended


@pytest.mark.parametrize("found", [other(record="rec2"), other(epoch=7)])
def test_who_stands_there_then_has_it(found: Mark) -> None:
    files = Failing(1, holding(found).content)
    mine = Fence(files, MINE, (MINE.record, 2))
    mine.take()
    assert mine.lost_to() == found == files.mark


def test_a_mark_that_cannot_be_understood_then_is_left_there() -> None:
    files = Failing(1, b"{")
    mine = Fence(files, MINE)
    mine.take()
    assert mine.lost_to() is None
    assert files.content == b"{"


def test_once_it_is_released_no_look_takes_it_again() -> None:
    files = Failing(1)
    mine = Fence(files, MINE)
    mine.take()
    mine.release()
    assert mine.lost_to() is None
    assert files.content is None


def test_what_java_says_is_told_and_not_the_number_of_the_call(
    capfd: pytest.CaptureFixture[str],
) -> None:
    class Java(Files):
        def read(self) -> bytes | None:
            raise RuntimeError(
                "An error occurred while calling o32.exists.\n: java.net.ConnectException: refused"
            )

    Fence(Java(), MINE).take()
    assert "cannot be read: java.net.ConnectException: refused" in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3a://KEY:Secret@b/x@y", "s3a://b/x@y"),
        ("//u@nn/x", "//nn/x"),
        ("abfss://box@a.net/x", "abfss://box@a.net/x"),
        ("wasb://box@a.net/x", "wasb://box@a.net/x"),
        ("file:/a//b@c", "file:/a//b@c"),
    ],
)
def test_a_place_is_shown_without_its_credentials(uri: str, shown: str) -> None:
    assert fence.without_credentials(uri) == shown


def test_no_answer_is_not_a_loss() -> None:
    files = Files()
    mine = Fence(files, MINE)
    mine.take()
    files.broken = True
    assert mine.lost_to() is None


def test_the_loss_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "FIRST_LOOKS", ())
    monkeypatch.setattr(fence, "LOOK_EVERY", 0.01)
    files, told = Files(), list[Mark]()
    mine = Fence(files, MINE)
    mine.take()
    mine.watch(told.append)
    Fence(files, other(epoch=4), (MINE.record, 3)).take()
    wait_for("the loss", lambda: told)
    assert told == [files.mark]


def test_of_two_whose_second_looks_both_came_too_early_the_first_gives_way_soon() -> None:
    """Both had read before either wrote: the first look after that tells."""
    assert sum(fence.FIRST_LOOKS) <= 10 < fence.LOOK_EVERY
    files = Files()
    first, second = Fence(files, MINE), Fence(files, other(record="rec2"))
    first.take()
    files.content = None  # what the second one had read
    second.take()
    assert first.lost_to() == other(record="rec2")
    assert second.lost_to() is None


def test_one_before_that_may_run_on_is_outwaited_unless_nobody_needs_the_checkpoint_any_more(
    monkeypatch, capfd
):
    slept = []
    clocks.replace(monkeypatch, "sleep", slept.append)
    clock = iter(range(1000))
    clocks.replace(monkeypatch, "monotonic", lambda: float(next(clock)))
    mine = Fence(Files(), MINE)
    mine.outwait(45, lambda: False)
    assert len(slept) == 44  # a second each
    assert "was not seen to end: the program starts in 45 s" in capfd.readouterr().err
    mine.outwait(45, lambda: len(slept) == 50)
    assert len(slept) == 50
    mine.outwait(0, lambda: False)
    assert len(slept) == 50 and "starts in" in capfd.readouterr().err


def test_who_is_outwaited_has_looked_and_ended_by_then():
    from dagster_sparkscale.driver.ending.reporter import WITHIN
    from dagster_sparkscale.driver.main import STOP_WITHIN

    assert fence.ENDS_WITHIN > fence.LOOK_EVERY + STOP_WITHIN + 2 * WITHIN
