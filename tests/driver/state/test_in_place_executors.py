"""Executors that come for a change beside the stream, and go; without Spark."""

from typing import Any

import pytest

from dagster_sparkscale.driver.state import in_place
from dagster_sparkscale.driver.state.beside.limits import Limits
from dagster_sparkscale.driver.state.beside.state_copy import NotBeside
from dagster_sparkscale.driver.succession.end import NotEnded
from tests.driver.state.disk import rewrite
from tests.driver.state.in_place_scene import Scene
from tests.waiting import wait_for

BUSY = "above 0.7 there is nothing to spare for a copy"


@pytest.fixture
def scene(tmp_path, monkeypatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


class TestMoreExecutors:
    """Where a copy is to be made that has executors of its own; what else it does is played."""

    @pytest.fixture
    def made(self, scene, monkeypatch):
        """Executors that there were to be while each copy was made."""
        made: list[int] = []

        class Copy:
            def __init__(self, *_: Any) -> None: ...

            def why_not(self, spare: bool) -> str | None:
                return None if spare else BUSY

            def prepare(self) -> None:
                made.append(scene.executors.requested)
                raise NotBeside("its copy is not the same")

            def drop(self) -> None: ...

        monkeypatch.setattr(in_place, "StateCopy", Copy)
        return made

    def come(self, scene, number: int) -> None:
        """As many executors come as are asked for, up to so many."""

        def request(target: int, *_: Any) -> bool:
            scene.cluster.backend.registered |= {str(each) for each in range(min(target, number))}
            return True

        scene.cluster.spark.requestTotalExecutors = request

    def test_they_come_for_it_and_are_put_back(self, scene, made):
        self.come(scene, 6)
        report = scene.change(beside=Limits(0, False, 60.0, executors=6))
        assert (report.outcome, report.beside) == ("changed", "its copy is not the same")
        assert report.lacked is None and "adding executors" in report.seconds
        assert made == [6]
        assert scene.executors.requested == 4
        wait_for("them to go", lambda: len(scene.cluster.backend.registered) == 4)

    def test_where_not_all_come_the_limit_stands(self, scene, made):
        self.come(scene, 5)
        report = scene.change(beside=Limits(0, False, 1.0, executors=6))
        assert (report.outcome, report.beside, made) == ("changed", BUSY, [])
        assert report.lacked.startswith("5 of 6 executors are there after ")
        assert scene.executors.requested == 4

    def test_none_are_asked_for_where_none_are_declared(self, scene, made):
        report = scene.change(beside=Limits(0, False, 60.0))
        assert (report.beside, report.lacked, made) == (BUSY, None, [])
        assert "adding executors" not in report.seconds

    @pytest.mark.parametrize("way", ["refused", "raises"])
    def test_they_are_put_back_where_it_fails(self, scene, made, way):
        self.come(scene, 6)
        if way == "refused":
            scene.not_ended = NotEnded("its batch goes on")
        else:
            scene.fails = RuntimeError("it is closed")
        report = scene.change(beside=Limits(0, False, 60.0, executors=6))
        assert (report.outcome, report.down is None) in (("refused", True), ("changed", False))
        assert made == [6] and scene.executors.requested == 4

    def test_they_are_put_back_before_it_is_over(self, scene, monkeypatch):
        """After that the number that the driver has is taken for the stream's own, as by the
        autoscaler, and by the next change: to delete a large copy takes a while."""
        seen: list[tuple[str | None, int]] = []

        class Copy:
            def __init__(self, *known: Any) -> None:
                self.latest = known[3]

            def why_not(self, spare: bool) -> str | None:
                return None

            def prepare(self) -> None: ...

            def write(self, _noted: Any) -> str | None:
                assert scene.executors.requested == 6
                return rewrite(scene.disk, 8)

            proved = None

            def drop(self) -> None:
                (report,) = scene.its.reconfigurations
                seen.append((report.outcome, scene.executors.requested))

        monkeypatch.setattr(in_place, "StateCopy", Copy)
        self.come(scene, 6)
        scene.change(beside=Limits(0, False, 60.0, executors=6))
        assert seen == [("changed", 4)]

    def test_a_number_that_is_set_while_state_is_read_stands(self, scene, made):
        self.come(scene, 6)
        scene.spark._read = lambda _batch, rows: self.set_to(scene, 2, rows)
        report = scene.change(beside=Limits(0, False, 60.0, executors=6, had=4))
        assert report.lacked == "somebody has set the number of executors to 2 meanwhile"
        assert (report.outcome, report.beside, made) == ("changed", BUSY, [])
        assert scene.executors.requested == 2

    def set_to(self, scene, number: int, rows: Any) -> Any:
        if scene.executors.requested != number:
            scene.executors.set_target(number)
        return rows
