"""What a stream's page says of it: short, true, and shown as it was written."""

from dataclasses import replace

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.markdown import clock
from dagster_sparkscale.observe.status import Executor
from dagster_sparkscale.watch.fleet.rows import STATES, Failing, Row, loops
from dagster_sparkscale.watch.fleet.verdict import headline
from dagster_sparkscale.watch.page.overview import (
    Decided,
    Operated,
    executors,
    happened,
    sentence,
    state,
)
from tests.fakes import driver

NOW = 1_800_000_000.0  # 2027-01-15 08:00 UTC
ROW = Row("clicks", ("clicks",), "running", NOW, decision="hold", reason="R is 0.62")


def row(**fields):
    return replace(ROW, **fields)


def restarted(*ago, state=DriverState.RUNNING, up=60.0):
    """A driver that recovery has started so many seconds ago."""
    return driver(state, restarted_at=tuple(NOW - at for at in ago), submitted_at=NOW - up)


class TestTheHeadline:
    def of(self, made, seen):
        return headline(replace(made, looping=loops(seen, NOW)))

    @pytest.mark.parametrize("known", STATES)
    def test_is_the_state_of_the_row(self, known):
        assert self.of(row(state=known), None) == known
        assert self.of(row(state=known), driver(submitted_at=NOW)) == known
        assert self.of(row(state=known), restarted()) == known

    def test_one_that_nobody_restarts_is_given_up_however_often_it_crashed(self):
        failed = restarted(5, 10, 15, state=DriverState.FAILED)
        assert self.of(row(state="failed", gave_up=True), failed) == "given up"
        assert self.of(row(state="failed", gave_up=True), None) == "given up"

    @pytest.mark.parametrize("known", ["failed", "starting", "running"])
    def test_two_restarts_within_an_hour_are_a_crash_loop(self, known):
        assert self.of(row(state=known), restarted(5)) == known
        assert self.of(row(state=known), restarted(5, 3599)) == "crash-looping"
        assert self.of(row(state=known), restarted(5, 3600)) == known
        assert self.of(row(state=known), restarted(0, 5)) == "crash-looping"
        assert self.of(row(state=known), restarted(-5, 5)) == known

    @pytest.mark.parametrize("known", [DriverState.STOPPED, DriverState.UNKNOWN])
    def test_not_of_one_of_which_that_is_not_known(self, known):
        assert self.of(row(state=known.value), restarted(5, 10, state=known)) == known.value

    def test_until_a_driver_has_run_for_five_minutes(self):
        assert self.of(row(), restarted(400, 500, up=299)) == "crash-looping"
        assert self.of(row(), restarted(400, 500, up=300)) == "running"

    def test_one_that_has_failed_again_after_these_has_not_settled(self):
        failed = restarted(1400, 1500, state=DriverState.FAILED, up=1400)
        assert self.of(row(state="failed"), failed) == "crash-looping"


class TestTheSentence:
    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({}, "healthy; hold: R is 0.62"),
            (
                {"registered": 3, "requested": 3, "maximum": 8, "ratio": 0.618, "lag": 4.2},
                "healthy, 3 executors (3 to 8 allowed), R 0.62, 4 s behind; hold: R is 0.62",
            ),
            (
                {"registered": 3, "requested": 5, "maximum": 8},
                "healthy, 3 executors (5 asked for, 3 to 8 allowed); hold: R is 0.62",
            ),
            ({"registered": 0}, "healthy, 0 executors (3 or more allowed); hold: R is 0.62"),
            ({"requested": 5}, "healthy; hold: R is 0.62"),
            ({"ratio": 0.0, "lag": 0.0}, "healthy, R 0.00, 0 s behind; hold: R is 0.62"),
        ],
    )
    def test_of_one_that_runs_has_what_was_measured_and_why_nothing_is_done(self, fields, text):
        assert sentence(row(**fields), 3) == text

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"state": "failed", "since": NOW}, "failed since 2027-01-15 08:00 UTC: why"),
            (
                {"state": "failed", "since": NOW, "gave_up": True},
                "given up since 2027-01-15 08:00 UTC:",
            ),
            ({"state": "stopped", "since": 0.0}, "stopped since 1970-01-01 00:00 UTC:"),
            ({"state": "starting", "since": None}, "starting: why"),
            ({"state": "starting", "ratio": 0.5}, "starting: why"),
        ],
    )
    def test_of_one_that_does_not_says_since_when_and_why(self, fields, text):
        assert sentence(row(reason="why", **fields), 1).startswith(text)

    def test_since_when_it_is_unknown_is_not_when_its_driver_came(self):
        unknown = row(state="unknown", since=NOW - 86400, reason="no route to host")
        assert sentence(unknown, 1) == "unknown: no route to host"
        looping = row(
            state="starting", since=NOW - 5, reason="its driver is starting", looping=True
        )
        said = f"restarts within 24 h; seen {clock(NOW)}: its driver is starting"
        assert sentence(looping, 1) == f"crash-looping, several {said}"
        counted = replace(looping, restarts=4)
        assert sentence(counted, 1) == f"crash-looping, 4 {said}"

    def test_of_one_that_runs_between_crashes_says_so_first(self):
        looping = row(registered=3, looping=True, restarts=3, failure="driver 4 failed (no table)")
        assert sentence(looping, 1) == (
            "crash-looping, 3 restarts within 24 h, the last as driver 4 failed (no table), 3 "
            "executors (1 or more allowed); hold: R is 0.62"
        )


STANDS = ", and as it was since (each later look is below Events)"


class TestTheState:
    FAILING = tuple(Failing("ratio_below_one", f"R is {n}", "", False) for n in range(3))

    def test_is_a_sentence_what_is_wrong_and_where_to_look(self):
        seen = driver(epoch=3, ui_url="http://host:4040", where="host, process 77")
        assert state(row(failing=self.FAILING, registered=3, ratio=0.5), 2, seen) == (
            "**slow, 3 executors (2 or more allowed), R 0.50; hold: R is 0.62**\n\n"
            "ratio\\_below\\_one: R is 0\n\n"
            "ratio\\_below\\_one: R is 1\n\n"
            "its source does not tell how far behind it is, nor what waits\n\n"
            "[Spark UI](http://host:4040) · seen 2027-01-15 08:00 UTC · driver 3: host, process 77"
        )

    def test_says_how_far_it_is_behind_but_for_the_lag_that_the_sentence_has(self):
        known = row(lag=4.0, ratio=0.5, backlog=1200, taken_rate=9.0)
        lines = state(known, 1, driver()).split("\n\n")
        assert "4 s behind" in lines[0]
        assert lines[1] == "1,200 records wait; 9 records/s come in"
        # Beside a batch that hangs, the sentence has no lag.
        stuck = state(replace(known, stuck_for=360.0), 1, driver()).split("\n\n")
        assert "behind" not in stuck[0]
        assert stuck[1].startswith("4 s behind the tip of its source; ")

    def test_a_long_path_is_whole(self):
        log = "/data/" + "state_1/" * 40 + "driver.log"
        wordy = tuple(replace(each, text="x" * 300) for each in self.FAILING)
        text = state(row(failing=wordy[:1], reason="why"), 1, driver(where=log))
        assert len(text) < 1000
        assert text.replace("![]()", "").replace("\\", "").endswith(log)

    def test_what_is_wrong_is_not_said_twice(self):
        silent = (Failing("running", "no answer", "", True), *self.FAILING[:1])
        text = state(row(failing=silent, reason="no answer"), 1, None)
        assert text.startswith(
            "**not answering; hold: no answer**\n\nratio\\_below\\_one: R is 0\n\n"
            "how far behind it is and what waits is not known now\n\nseen"
        )

    def test_of_one_that_does_not_run_has_no_more_than_the_sentence(self):
        text = state(row(state="stopped", failing=self.FAILING), 1, None)
        assert text == "**stopped: R is 0.62**\n\nseen 2027-01-15 08:00 UTC"

    def test_what_is_not_told_anew_says_where_later_looks_are(self):
        assert STANDS not in state(row(ratio=0.0), 1, driver())
        for quiet in (row(), row(state="failed", ratio=0.5)):
            assert f"UTC{STANDS} · driver 1" in state(quiet, 1, driver())
        assert STANDS not in state(row(state="not started"), 1, None)

    @pytest.mark.parametrize(
        ("known", "url", "linked"),
        [
            (DriverState.RUNNING, "http://host:4040", True),
            (DriverState.UNKNOWN, "http://host:4040", True),
            (DriverState.FAILED, "http://host:4040", False),
            (DriverState.STOPPED, "http://host:4040", False),
            (DriverState.RUNNING, None, False),
            (DriverState.RUNNING, "http://" + "h" * 113, True),
            (DriverState.RUNNING, "http://" + "h" * 114, False),
        ],
    )
    def test_links_to_a_spark_ui_that_is_there(self, known, url, linked):
        assert ("Spark UI" in state(row(), 1, driver(known, ui_url=url))) is linked


class TestExecutors:
    def test_of_none_are_none(self):
        assert executors(()) == ""

    def test_a_line_each(self):
        told = (
            Executor("0", "host_a", 4, 3),
            Executor("1", "b", 2, receivers=2),
            Executor("2", "b", 2, receivers=1),
        )
        assert executors(told) == (
            "|executor|host|tasks / cores|\n|-|-|-|\n"
            "|0 |host\\_a |3 of 4|\n|1 |b |0 of 2, 2 receivers|\n"
            "|2 |b |0 of 2, 1 receiver|"
        )

    def test_an_executor_has_no_more_tasks_than_cores(self):
        # As Spark tells it: a task has ended, the next one has its core, and both count.
        assert "|0 |h |1 of 1|" in executors([Executor("0", "h", 1, 2), Executor("1", "h", 1)])
        many = executors([Executor(str(n), "h", 2, 3 * (n % 2)) for n in range(100)])
        assert "|100|h |100 of 200|" in many

    def test_a_line_a_host_where_they_are_many_the_fullest_first(self):
        told = [Executor(str(n), f"host{min(n // 4, 9)}", 4, n % 3) for n in range(100)]
        text = executors(told)
        busy = sum(n % 3 for n in range(36, 100))
        assert text.startswith(
            "|executors|host|tasks / cores|\n|-|-|-|\n"
            f"|64|host9 |{busy} of 256|\n|4|host0 |3 of 16|\n|4|host1 |"
        )
        assert text.count("host") == 11

    def test_no_more_hosts_than_there_is_room_for(self):
        told = [Executor(str(n), f"host{n:03}.cluster.example", 4) for n in range(100)]
        text = executors(told)
        shown = text.count(".cluster.example")
        assert 20 < shown < 30
        assert text.endswith(f"|\n\nand {100 - shown} more hosts")


def decided(number, **fields):
    plain = {"decision": "scale to 4", "reason": "R is 0.95", "run_key": f"clicks:1:{number}"}
    return Decided(NOW - 60 * number, **plain | fields)


def operated(number, **fields):
    plain = {
        "stream": "clicks",
        "operation": "rescale",
        "by": "ana",
        "reason": "keep small",
        "outcome": "4 \u2192 2 executors",
        "failed": False,
        "run_id": f"0000000{number}",
    }
    return Operated(NOW - 60 * number, **plain | fields)


class TestWhatHappened:
    def test_none_are_none(self):
        assert happened("clicks", [], [], NOW) == ""

    HEAD = (
        "|[runs, UTC](/runs?q[0]=tag:dagster-sparkscale/stream=clicks)|who, what and why|\n|-|-|\n"
    )

    def test_the_newest_first_each_with_its_run(self):
        many = [decided(number) for number in (2000, 1, 5)]
        key = "(/runs?q[0]=tag:dagster/run_key=clicks:1:"
        assert happened("clicks", many, [], NOW) == self.HEAD + (
            f"|[07:59]{key}1)|autoscaler: scale to 4: R is 0.95 |\n"
            f"|[07:55]{key}5)|autoscaler: scale to 4: R is 0.95 |\n"
            f"|[01-13 22:40]{key}2000)|autoscaler: scale to 4: R is 0.95 |"
        )

    def test_no_more_than_ten(self):
        many = [decided(n, reason="", run_key="k") for n in range(15)]
        text = happened("clicks", many, [], NOW)
        assert text.count("|autoscaler: ") == 10
        assert text.startswith(f"{self.HEAD}|[08:00](")

    def test_no_more_than_there_is_room_for(self):
        text = happened("clicks", [decided(n, reason="x" * 200) for n in range(10)], [], NOW)
        shown = text.count("|autoscaler: ")
        assert 3 < shown < 10
        assert text.endswith(f"|\n\nand {10 - shown} more of the last 10")

    def test_what_people_did_is_there_too_with_who_and_why(self):
        done = [
            operated(2),
            operated(3, by="schedule maintenance", reason="", outcome=""),
            operated(4, failed=True, outcome="stale", reason=""),
        ]
        text = happened("clicks", [decided(1), decided(9)], done, NOW)
        assert text.splitlines()[3:6] == [
            "|[07:58](/runs/00000002)|ana: rescale: 4 \u2192 2 executors (keep small) |",
            "|[07:57](/runs/00000003)|schedule maintenance: rescale: done |",
            "|[07:56](/runs/00000004)|ana: rescale: failed: stale |",
        ]

    def test_what_came_of_a_decision_stands_in_its_place(self):
        run = operated(1, run_key="clicks:1:1", outcome="1 \u2192 4 executors")
        text = happened("clicks", [decided(1)], [run], NOW)
        assert text == f"{self.HEAD}|07:59|autoscaler: 1 \u2192 4 executors: R is 0.95 |"
        for reason in ("1 registered -> 4: R is 0.95", "1 -> 4: R is 0.95"):
            counted = happened("clicks", [decided(1, reason=reason)], [run], NOW)
            assert counted == text, "from how many to how many stands there once"
        failed = happened("clicks", [decided(1)], [replace(run, failed=True)], NOW)
        assert (
            f"|[07:59](/runs/{run.run_id})|autoscaler: "
            "scale to 4, failed: 1 \u2192 4 executors: R is 0.95 |" in failed
        )
        restart = happened("clicks", [decided(1, decision="restart")], [], NOW)
        assert "|recovery: restart: R is 0.95 |" in restart

    def test_a_run_is_found_by_any_key(self):
        text = happened("clicks", [decided(1, run_key="a b)|c:1:2")], [], NOW)
        assert "(/runs?q[0]=tag:dagster/run_key=a%20b%29%7Cc:1:2)" in text
