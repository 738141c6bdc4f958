"""Live limits from the command line."""

import pytest

from dagster_sparkscale.driver.wire import Limit
from tests.backpressure.test_set_limits import heeds
from tests.cli.terminal import Terminal, tagged
from tests.fakes import QUERY


@pytest.fixture
def limited(terminal: Terminal) -> Terminal:
    terminal.kept().limits = (Limit("clicks", QUERY),)
    terminal.world.on_look = heeds
    return terminal


def test_a_limit_is_set_by_a_tracked_run(limited: Terminal) -> None:
    done = limited.ask("limits", "clicks", "--rate", "50", "--reason", "a bad day")
    assert done.exit_code == 0, done.output
    assert limited.kept().rates == {"clicks": {"maxRate": 50}}
    run = limited.run()
    assert run.is_success and tagged(run) == ("set_limits", "clicks")
    assert "clicks: not set -> maxRate 50: heeded" in done.stdout


def test_records_of_a_batch_are_set_for_a_source_that_is_named(limited: Terminal) -> None:
    done = limited.ask("limits", "clicks", "--source", "*", "--records", "9", "--wait", "0")
    assert done.exit_code == 0, done.output
    assert limited.kept().rates == {"*": {"maxRecordsPerTrigger": 9}}
    assert limited.ask("limits", "clicks", "--none").exit_code == 0
    assert limited.kept().rates == {}


def test_without_a_limit_it_shows_what_there_is(limited: Terminal) -> None:
    done = limited.ask("limits", "clicks")
    assert done.exit_code == 0 and done.stdout == "clicks: no limit\n"
    assert limited.ask("limits", "clicks", "--source", "clicks").stdout == done.stdout
    assert limited.runs() == []  # who only looks needs no run


def test_it_shows_who_set_a_limit_and_until_when(limited: Terminal) -> None:
    limited.ask("limits", "clicks", "--rate", "50")
    shown = limited.ask("limits", "clicks").stdout.splitlines()
    assert shown[0] == "clicks: 50 records/s (set), heeded"
    run = limited.run().run_id[:8]
    assert shown[1].startswith(f"clicks set to 50 by set_limits run {run} since 20")
    assert shown[1].endswith(" UTC, until it is taken away (sparkscale limits --none)")


def test_what_can_not_be_shown_says_why(limited: Terminal) -> None:
    unknown = limited.ask("limits", "clicks", "--source", "cliks")
    assert unknown.exit_code == 1
    assert "Error: source = 'cliks': there is no such source; there is 'clicks'" in unknown.stderr
    stopped = limited.ask("limits", "orders")
    start = "`sparkscale start orders -f definitions.py` starts it"
    assert stopped.exit_code == 1 and start in stopped.stderr


def test_what_makes_no_sense_is_refused(limited: Terminal) -> None:
    both = limited.ask("limits", "clicks", "--rate", "5", "--none")
    assert both.exit_code == 2
    assert "give one of --rate, --records and --none" in both.stderr
    unknown = limited.ask("limits", "clicks", "--rate", "5", "--source", "cliks")
    assert unknown.exit_code == 1
    assert "Error: source = 'cliks': there is no such source; there is 'clicks'" in unknown.stderr
