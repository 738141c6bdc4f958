"""Receivers from the command line."""

import pytest

from dagster_sparkscale.lifecycle import trial
from dagster_sparkscale.observe.status import Relaunch
from dagster_sparkscale.receivers import rebalance
from tests.cli.terminal import Terminal, tagged
from tests.in_memory.driver import arrive
from tests.receivers.recounting import starts_its_receivers
from tests.receivers.streams import counting, on, spread_over


@pytest.fixture
def five(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """`receiving` has receivers on executors as [2, 0, 0]."""
    for module in (rebalance, trial):
        monkeypatch.setattr(module, "_POLL", 0)
    terminal.declare('counting(name="receiving")')
    kept = spread_over(terminal.world, counting(name="receiving"), (2, 0, 0))
    kept.drained = True
    terminal.world.on_look = arrive
    return terminal


def test_it_shows_where_they_run(five: Terminal) -> None:
    kept = five.kept("receiving")
    first, second = kept.receivers or ()
    kept.receivers = (first, type(second)(1, moving_to="2", rate=12.5, error="refused"))
    five.world.on_look = lambda kept: None
    kept.relaunches = (Relaunch(0, "executor lost", "7", 0.0, "0", away_seconds=2.0),)
    done = five.ask("receivers", "receiving")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "receiver 0: executor 0 on host since 01-01 00:00",
        "receiver 1: runs nowhere, on its way to executor 2, 12.5 records/s, last failed of: "
        "refused",
        "receivers of executors: [1, 0, 0]",
        "executors without receivers: 1, 2",
        "01-01 00:00 receiver 0: executor 7 -> executor 0 (executor lost, away for 2.00 s)",
    ]
    assert five.runs() == [], "nothing is run for it"


def test_what_there_is_nothing_to_show_of_says_so(five: Terminal) -> None:
    kept = five.kept("receiving")
    kept.receivers = ()
    assert "it has started no receivers" in five.ask("receivers", "receiving").stdout
    kept.receivers = None
    assert "can't be told where its receivers run" in five.ask("receivers", "receiving").stdout
    five.world.end("receiving")
    done = five.ask("receivers", "receiving")
    start = "`sparkscale start receiving -f definitions.py` starts it"
    said = f"'receiving' is failed: it has no receivers; {start}"
    assert done.exit_code == 1 and said in done.stderr


def test_one_is_moved_by_a_tracked_run(five: Terminal) -> None:
    done = five.ask("receivers", "receiving", "--move", "0", "--to", "2", "--reason", "hot host")
    assert done.exit_code == 0, done.output
    assert "move receiving 0 2" in five.world.calls
    assert tagged(five.run()) == ("rebalance_receivers", "receiving")
    assert "[2, 0, 0] -> [1, 1, 0]: receiver 0: executor 0 -> executor 2" in done.stdout


def test_they_are_balanced(five: Terminal) -> None:
    assert five.ask("receivers", "receiving", "--rebalance").exit_code == 0
    done = five.ask("receivers", "receiving", "--rebalance")
    assert "nothing to do: receivers of executors [1, 1, 0]" in done.stdout


def test_where_each_executor_has_some_none_is_named_as_without(five: Terminal) -> None:
    kept = five.kept("receiving")
    kept.executors, kept.receivers = on((1, 1))
    assert "without receivers" not in five.ask("receivers", "receiving").stdout


def test_there_are_more_of_them(five: Terminal) -> None:
    five.world.on_submit = starts_its_receivers
    done = five.ask("receivers", "receiving", "--set", "3")
    assert done.exit_code == 0, done.output
    assert tagged(five.run()) == ("set_receivers", "receiving")
    assert "2 -> 3 receivers: changed, driver 2" in done.stdout


def test_what_was_cut_is_lost_only_where_that_is_accepted(five: Terminal) -> None:
    five.world.on_submit = starts_its_receivers
    five.kept("receiving").drained = False
    done = five.ask("receivers", "receiving", "--set", "3")
    assert done.exit_code == 1 and "the number of receivers was not changed" in done.stderr
    done = five.ask("receivers", "receiving", "--set", "3", "--accept-loss")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--move", "0", "--to", "1", "--rebalance"], "give one of --move, --rebalance and --set"),
        (["--set", "3", "--rebalance"], "give one of --move, --rebalance and --set"),
        (["--move", "0"], "give --move and --to together"),
        (["--to", "0"], "give --move and --to together"),
        (["--accept-loss"], "give --accept-loss with --set"),
    ],
)
def test_what_makes_no_sense_is_refused(five: Terminal, words: list[str], said: str) -> None:
    done = five.ask("receivers", "receiving", *words)
    assert done.exit_code == 2 and said in done.stderr
