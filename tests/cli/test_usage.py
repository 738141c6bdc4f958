"""Executor-hours from the command line."""

import json
import time

import dagster as dg

from dagster_sparkscale.observe.minutes import Minute
from tests.cli.terminal import Terminal
from tests.observe.stored import store

DAY = 86400


def test_the_executor_hours_of_days_are_shown_beside_those_of_a_fixed_size(
    terminal: Terminal,
) -> None:
    today = int(time.time()) // DAY * DAY
    with dg.DagsterInstance.get() as instance:
        for day, executors in ((today - 2 * DAY, 2), (today - DAY, 6)):
            minutes = [Minute(day + 60 * n, "running", registered=executors) for n in range(61)]
            store(instance, dg.AssetKey("clicks"), minutes)
    done = terminal.ask("usage")
    assert done.exit_code == 0, done.output
    head, *lines = done.output.splitlines()
    assert head.split() == [
        "STREAM",
        "DAY",
        "EXECUTOR-HOURS",
        "FIXED",
        "SIZE",
        "LARGEST",
        "MEASURED",
    ]
    first, second = (time.strftime("%Y-%m-%d", time.gmtime(today - n * DAY)) for n in (2, 1))
    # 6 executors were the most; orders has never been looked at.
    assert [line.split() for line in lines] == [
        ["clicks", first, "2.0", "6.0", "2", "1.0"],
        ["clicks", second, "6.0", "6.0", "6", "1.0"],
    ]
    (row,) = json.loads(terminal.ask("usage", "clicks", "--days", "1", "--json").output)
    assert row["executor_hours"] == 6.0 and row["day"] == second


def test_where_nothing_was_measured_it_says_so(terminal: Terminal) -> None:
    assert terminal.ask("usage", "--days", "2").output == "nothing was measured within 2 d\n"
    assert json.loads(terminal.ask("usage", "--json").output) == []


def test_a_stream_that_there_is_not_is_not_understood(terminal: Terminal) -> None:
    assert terminal.ask("usage", "clikcs").exit_code == 2
    assert terminal.ask("usage", "--days", "nan").exit_code == 2
