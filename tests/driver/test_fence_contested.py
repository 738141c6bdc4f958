"""The fence of a checkpoint that two drivers of one stream write to, one of them late."""

from collections.abc import Callable

import pytest

from dagster_sparkscale.driver.begin.fence import Fence, Mark
from tests.driver.fenced import MINE, Files, holding, other


class Slow(Files):
    """Its first write comes after what another does."""

    def __init__(self, content: bytes | None, meanwhile: Callable[[], None]) -> None:
        super().__init__(content)
        self.meanwhile: list[Callable[[], None]] = [meanwhile]

    def write(self, content: bytes) -> None:
        while self.meanwhile:
            self.meanwhile.pop()()
        super().write(content)


@pytest.mark.parametrize("told", [True, False])
def test_of_one_stream_the_older_driver_ends_though_it_was_the_last_to_write(told: bool) -> None:
    """It was frozen before it wrote, declared gone, and thaws when its successor runs."""
    files = Slow(holding(other(epoch=1)).content, lambda: newer.take())
    older = Fence(files, other(epoch=2, key="k2"), (MINE.record, 1))
    newer = Fence(files, MINE, (MINE.record, 2 if told else 1))
    older.take()
    assert files.mark.epoch == 2
    assert newer.lost_to() is None
    assert files.mark == MINE == older.lost_to()
    older.release()
    assert files.mark == MINE
    assert newer.lost_to() is None


def test_a_start_that_such_a_one_overwrites_at_once_goes_on() -> None:
    older = other(epoch=2)

    class Overwritten(Files):
        def write(self, content: bytes) -> None:
            before, self.content = self.content, content
            if before is None:
                self.content = holding(older).content

    files = Overwritten()
    mine = Fence(files, MINE, (MINE.record, 1))
    mine.take()
    assert files.mark == older
    assert mine.lost_to() is None
    assert files.mark == MINE


@pytest.mark.parametrize(
    "found",
    [other(epoch=4), other(), other(record="rec2", epoch=1), other(record="rec2", ended=True)],
)
def test_any_other_that_comes_in_its_place_has_it(found: Mark) -> None:
    files = Files()
    mine = Fence(files, MINE, (found.record, 9))
    mine.take()
    files.content = holding(found).content
    assert mine.lost_to() == found == files.mark
