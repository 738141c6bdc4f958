"""`logs`: the end of a driver's log, and what comes after it."""

from dataclasses import replace

import pytest

from dagster_sparkscale.cli.logs import followed
from dagster_sparkscale.clusters.base import DriverState
from tests.cli.terminal import Terminal
from tests.fakes import structured
from tests.in_memory.cluster import World


class TestFollowed:
    @pytest.fixture
    def world(self, monkeypatch: pytest.MonkeyPatch) -> World:
        monkeypatch.setattr("dagster_sparkscale.cli.logs.PAUSE", 0)
        world = World()
        world.run(structured()).log = ["one", "two", "three"]
        return world

    def looks(self, world: World, *each: object) -> None:
        """What happens before each look at the driver; it is stopped in the end."""
        steps = iter(each)

        def on_find(stream: str) -> None:
            step = next(steps, None)
            if callable(step):
                step()
            elif step is None:
                kept = world.streams["clicks"]
                kept.driver = replace(kept.driver, state=DriverState.STOPPED)

        world.on_find = on_find

    def lines(self, world: World, lines: int = 50) -> list[str]:
        driver = world.streams["clicks"].driver
        return list(followed(world.cluster, driver, lines))

    def test_it_begins_with_the_last_lines_and_goes_on(self, world: World) -> None:
        log = world.streams["clicks"].log
        self.looks(world, lambda: log.append("four"), lambda: log.extend(["five", "six"]))
        assert self.lines(world, 2) == ["two", "three", "four", "five", "six"]

    def test_what_it_writes_while_it_is_being_stopped_is_shown(self, world: World) -> None:
        """It ends just before a look at it: that look is the last one, and has it all."""

        def ends() -> None:
            world.streams["clicks"].log.append("good-bye")
            world.end("clicks", DriverState.STOPPED)

        self.looks(world, ends)
        assert self.lines(world) == ["one", "two", "three", "good-bye"]

    def test_many_lines_between_two_looks_are_all_shown(self, world: World) -> None:
        """Each is longer ago than a log's usual end."""
        log = world.streams["clicks"].log = [str(n) for n in range(300)]
        self.looks(world, lambda: log.extend(str(n) for n in range(300, 600)))
        assert self.lines(world, 200) == [str(n) for n in range(100, 600)]

    def test_the_last_words_of_a_driver_are_shown_and_then_the_next_one_s(
        self, world: World, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def crash() -> None:
            world.streams["clicks"].log.append("it broke")
            world.end("clicks")

        def recover() -> None:
            world.on_find = lambda stream: None
            world.run(structured()).log = ["hello again"]
            self.looks(world, lambda: None)

        self.looks(world, crash, recover)
        assert self.lines(world) == ["one", "two", "three", "it broke", "hello again"]
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.splitlines() == [
            "driver 2 of clicks is running, memory process 2",
            "driver 2 of clicks is stopped, memory process 2",
        ]


class TestCommand:
    def test_the_last_lines(self, terminal: Terminal) -> None:
        terminal.kept().log = [str(n) for n in range(100)]
        done = terminal.ask("logs", "clicks", "-n", "3")
        assert done.exit_code == 0
        assert done.stdout == "97\n98\n99\n"
        assert done.stderr == "driver 1 of clicks is running, memory process 1\n"

    def test_why_a_driver_ended_is_there(self, terminal: Terminal) -> None:
        terminal.world.end("clicks")
        done = terminal.ask("logs", "clicks")
        assert "driver 1 of clicks is failed (exit code 1), memory process 1" in done.stderr

    def test_it_follows_until_the_stream_is_stopped(self, terminal: Terminal) -> None:
        terminal.kept().log = ["one"]
        terminal.world.end("clicks", DriverState.STOPPED, exit_reason="stop requested")
        done = terminal.ask("logs", "clicks", "--follow")
        assert (done.exit_code, done.stdout) == (0, "one\n")
        assert "is stopped (stop requested)" in done.stderr

    def test_one_that_is_not_declared_any_more_has_one(self, terminal: Terminal) -> None:
        terminal.declare('structured("orders")')
        assert "driver 1 of clicks is running" in terminal.ask("logs", "clicks").stderr

    def test_what_never_ran_has_none(self, terminal: Terminal) -> None:
        done = terminal.ask("logs", "orders")
        assert done.exit_code == 1
        assert "'orders' was never started: there is no log (`sparkscale start o" in done.stderr

    def test_it_needs_no_home(self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("DAGSTER_HOME")
        assert terminal.ask("logs", "clicks").exit_code == 0
