"""Streams that run, or ran, and that nobody declares any more, at the command line."""

from collections.abc import Callable

import pytest

from dagster_sparkscale.clusters.base import DriverState
from tests.cli.terminal import Terminal, tagged
from tests.fakes import structured


class TestForget:
    def orphan(self, terminal: Terminal) -> None:
        """`old` was declared and started, and runs on after it was taken out."""
        terminal.declare('structured("old"), scaled(max_executors=10)')
        assert terminal.ask("start", "old").exit_code == 0
        terminal.declare()

    def test_an_orphan_of_this_code_location_is_stopped(self, terminal: Terminal) -> None:
        self.orphan(terminal)
        done = terminal.ask("forget", "old")
        assert done.exit_code == 0, done.output
        assert terminal.kept("old").driver.state is DriverState.STOPPED
        assert next(tagged(run) for run in terminal.runs()) == ("stop_orphan", "old")

    def test_one_of_another_is_refused_unless_it_is_meant(self, terminal: Terminal) -> None:
        self.orphan(terminal)
        (terminal.folder / "other.py").write_text((terminal.folder / "definitions.py").read_text())
        done = terminal.type("forget", "old", "-f", "other.py")
        assert done.exit_code == 1
        assert "was started by code location 'definitions.py'" in done.stderr
        assert "when nobody declares it any more, add --whoever-declares-it" in done.stderr
        assert terminal.kept("old").driver.state is DriverState.RUNNING
        assert (
            terminal.type(
                "forget", "old", "-f", "other.py", "--whoever-declares-it", "--now"
            ).exit_code
            == 0
        )
        assert terminal.world.calls[-1] == "stop old at once"

    def test_a_declared_one_is_no_orphan(self, terminal: Terminal) -> None:
        done = terminal.ask("forget", "clicks")
        assert done.exit_code == 1
        assert (
            "stream = 'clicks': is declared, so it is no orphan: `sparkscale stop clicks "
            "-f definitions.py`"
        ) in done.stderr

    def test_one_that_nobody_knows(self, terminal: Terminal) -> None:
        done = terminal.ask("forget", "odl")
        assert done.exit_code == 2
        assert "stream = 'odl': no such stream; there is clicks, orders" in done.stderr


class TestNotDeclared:
    """What was started here, or in the same state folder, and is not declared."""

    @pytest.fixture(params=["scale old 3", "stop old", "start old", "restart old"])
    def refused(self, terminal: Terminal, request: pytest.FixtureRequest) -> Callable[..., str]:
        """What each command says of `old`, which it changes nothing of."""

        def ask(*more: str) -> str:
            calls, runs = list(terminal.world.calls), len(terminal.runs())
            done = terminal.type(*request.param.split(), *(more or ("-f", "definitions.py")))
            assert done.exit_code == 1, done.output
            assert (terminal.world.calls, len(terminal.runs())) == (calls, runs)
            return " ".join(done.stderr.split())

        return ask

    def test_an_orphan_is_named_as_such_with_what_can_be_done(
        self, terminal: Terminal, refused: Callable[..., str]
    ) -> None:
        TestForget().orphan(terminal)
        assert refused() == (
            "Error: stream = 'old': is an orphan: driver 1 is running (memory process 1), and no "
            "stream of that name is declared any more. `sparkscale forget old -f "
            "definitions.py` stops it; for all "
            "else declare it again"
        )

    def test_one_of_another_code_location_is_told_whose_it_is(
        self, terminal: Terminal, refused: Callable[..., str]
    ) -> None:
        TestForget().orphan(terminal)
        (terminal.folder / "other.py").write_text((terminal.folder / "definitions.py").read_text())
        said = refused("-f", "other.py")
        assert "is not declared here: driver 1 is running" in said
        assert "was started by code location 'definitions.py', cluster 'spark_cluster'" in said
        assert "`sparkscale forget old -f other.py --whoever-declares-it` stops it" in said

    def test_one_of_nobody_known(self, terminal: Terminal, refused: Callable[..., str]) -> None:
        terminal.world.run(structured("old"))
        assert "and who declares it is not known" in refused()

    def test_one_that_has_ended(self, terminal: Terminal, refused: Callable[..., str]) -> None:
        terminal.world.run(structured("old"))
        terminal.world.end("old", DriverState.STOPPED)
        assert (
            "is not declared any more, and driver 1 is stopped (memory process 1): `sparkscale "
            "logs old -f definitions.py` shows its log; to start it, declare it again"
        ) in refused()
