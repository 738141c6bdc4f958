"""What happened to a stream, in a terminal."""

import json
import time
from dataclasses import replace

import dagster as dg
import pytest

from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.watch.page.overview import Operated
from dagster_sparkscale.watch.page.timeline import Happened, timeline
from tests.cli.terminal import Terminal
from tests.observe.stored import store
from tests.watch.deployment import grown

AT = 1_795_000_000
RUN = Operated(AT + 70, "clicks", "rescale", "ana", "keep small", "4 → 2 executors", False, "ab")


def told(minutes=(), runs=()):
    return [(each.at - AT, each.who, each.what) for each in timeline(minutes, runs)]


def minute(n, **fields):
    return Minute(AT + 60 * n, **{"state": "running", "epoch": 1, "registered": 2} | fields)


def test_what_changed_by_itself_is_seen_and_what_stays_is_not():
    minutes = [minute(0), minute(1), minute(2, registered=None), minute(3, registered=4)]
    assert told(minutes) == []
    changed = [minute(0), minute(1, registered=4), minute(2, state="failed", registered=None)]
    again = minute(3, epoch=2, registered=4)
    assert told([*changed, again]) == [
        (60, "seen", "executors registered: 2 -> 4"),
        (120, "seen", "running -> failed"),
        (180, "seen", "failed -> running"),
        (180, "seen", "driver 2, after driver 1"),
    ]


def test_a_decision_has_what_came_of_it_and_people_have_their_reasons():
    decided = minute(1, decision="scale to 4", reason="R is 1.2")
    key = f"clicks:1:{decided.at}"
    run = Operated(AT + 90, "clicks", "rescale", "by hand", "", "2 → 4 executors", False, "cd", key)
    assert told([minute(0), decided], [run, RUN]) == [
        (60, "autoscaler", "2 → 4 executors: R is 1.2"),
        (70, "ana", "rescale: 4 → 2 executors (keep small)"),
    ]
    late = replace(run, outcome="nothing to do: driver 2 has come after it")
    assert told([minute(0), decided], [late]) == [
        (60, "autoscaler", "scale to 4, nothing to do: driver 2 has come after it: R is 1.2"),
    ]
    restart = minute(1, decision="restart", reason="driver 1 failed")
    assert told([restart]) == [(60, "recovery", "restart: driver 1 failed")]


def test_a_decision_whose_run_failed_says_so():
    decided = minute(1, decision="scale to 4", reason="R is 1.2")
    key = f"clicks:1:{decided.at}"
    run = Operated(AT + 90, "clicks", "rescale", "by hand", "", "stale", True, "cd", key)
    assert timeline([decided], [run]) == [
        Happened(AT + 60, "autoscaler", "scale to 4, failed: stale: R is 1.2", "cd", True)
    ]


def test_a_terminal_shows_it_with_who_and_why(terminal: Terminal) -> None:
    assert terminal.ask("start", "clicks").exit_code == 0
    grown(terminal.kept())
    assert terminal.ask("scale", "clicks", "4", "--reason", "newsletter").exit_code == 0
    assert terminal.ask("scale", "clicks", "99").exit_code == 1
    with dg.DagsterInstance.get() as instance:
        now = int(time.time()) - 60
        minutes = [
            Minute(now - 60, "running", 1, registered=2),
            Minute(now, "running", 1, registered=4, decision="scale to 5", reason="R is 1.3"),
        ]
        store(instance, dg.AssetKey("clicks"), minutes)
    done = terminal.ask("events", "clicks")
    assert done.exit_code == 0, done.output
    assert "executors registered: 2 -> 4" in done.output
    assert "autoscaler" in done.output and "scale to 5: R is 1.3" in done.output
    (scaled,) = [line for line in done.output.splitlines() if "newsletter" in line]
    assert "rescale: " in scaled and "→ 4 executors in" in scaled
    assert "rescale: failed: " in done.output
    rows = json.loads(terminal.ask("events", "clicks", "--json").output)
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)
    assert sum(row["failed"] for row in rows) == 1


def test_of_a_stream_to_which_nothing_happened_it_says_so(terminal: Terminal) -> None:
    assert terminal.ask("events", "orders").output == "nothing is stored of orders within 24 h\n"
    assert terminal.ask("events", "orders", "--hours", "0").exit_code == 2


@pytest.mark.parametrize("hours", ["20000000", "1e300", "nan", "0"])
def test_more_hours_than_there_were_are_refused(terminal: Terminal, hours: str) -> None:
    done = terminal.ask("events", "clicks", "--hours", hours)
    assert done.exit_code == 2 and "--hours" in done.output
