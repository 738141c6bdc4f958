"""The state of a query that is changed while its driver runs: what its program notices of it."""

import pytest

from dagster_sparkscale.driver.state.plans import StatePlan
from tests.driver.running import stop_report
from tests.driver.state.drivers import BEGIN, GROUPS, ask
from tests.driver.state.waiting import Waiting, over
from tests.releases import CHANGES_STATE
from tests.waiting import HANGS, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.clusters, CHANGES_STATE]


def plan(partitions: int, id: str = "", query: str = "counts", groups: int = GROUPS) -> StatePlan:
    id = id or f"to {partitions}"
    return StatePlan(id, partitions, groups, plain_hash=True, queries=(query,))


def held(driver, step: str) -> None:
    driver.wait(lambda s: s.reconfiguring and s.reconfiguring.step == step, step)


def test_the_program_notices_nothing_of_many_changes_and_then_of_an_end_that_is_not_ours(tmp_path):
    waiting = Waiting(tmp_path)
    with waiting.started() as driver:
        waiting.count(driver)
        waiting.do("tell")
        before = BEGIN
        for number, after in enumerate((16, 8, 1, 8, 5, 2)):
            id = f"{number}"
            answer = ask(driver, plan(after, id))
            assert answer.status_code == 200, answer.text
            assert any(each["id"] == id for each in answer.json()["reconfigurations"])
            report = over(driver, id)
            assert (report.outcome, report.reason, report.down) == ("changed", None, None)
            assert (report.before, report.after, report.way) == (before, after, "in place")
            assert {"preparing", "ending", "rewriting", "starting"} <= set(report.seconds)
            waiting.count(driver)
            assert waiting.counts.partitions() == after
            before = after
        assert waiting.others.partitions() == BEGIN
        (query,) = (each for each in driver.status().queries if each.name == "counts")
        assert query.active and query.state.partitions == 2
        assert query.state.last.outcome == "changed"
        waiting.do("tell")
        (first, last) = waiting.noted("told")
        assert first["same"] and last["same"] and last["run"] != first["run"]
        assert last["batch"] > first["batch"]
        # Nobody who waits has been told of an end, and no listener of a start.
        assert len(waiting.noted("started")) == 2
        bad = ("awaited", "awaited any", "ended", "terminated", "again")
        assert waiting.noted(*bad) == []
        waiting.do("stop_counts")
        assert waiting.noted("stopped") == [{"what": "stopped", "active": False}]
        wait_for("all to be told", lambda: len(waiting.noted("terminated")) == 1)
        wait_for("who waits for any", lambda: len(waiting.noted("awaited any")) == 1)
        assert [each["query"] for each in waiting.noted("awaited")] == ["counts"]
        assert waiting.noted("ended") == []


def test_what_can_t_be_changed_is_refused_before_anything_ends(tmp_path):
    waiting = Waiting(tmp_path)
    with waiting.started() as driver:
        waiting.count(driver)
        assert driver.status().in_place == {"counts": None, "others": None}

        def refused(asked, within=60.0):
            answer = ask(driver, asked, within)
            assert answer.status_code == 400, answer.text
            return answer.json()["error"]

        assert refused(None).startswith("plan: the plan can't be read")
        assert refused(plan(8), 0) == ("within: 0: must be seconds, above 0 and at most 86400")
        assert refused(plan(8, query="none")).startswith("query 'none': does not run, or was not")

        def came(asked):
            assert ask(driver, asked).status_code == 200
            report = over(driver, asked.id)
            return report.outcome, report.reason, report.restart

        said = "its checkpoint has 16 key groups, and not 32"
        assert came(plan(32, groups=32)) == ("refused", said, False)
        assert came(plan(4)) == ("unchanged", "it has 4 partitions already", False)
        waiting.do("set_conf")
        outcome, reason, restart = came(plan(8))
        assert (outcome, restart) == ("refused", True)
        assert reason.startswith("the program has set spark.sql.session.timeZone since")
        waiting.do("change_writer")
        changed = "its writer was changed, or used for another query, after it was started"
        assert driver.status().in_place == {"counts": changed, "others": None}
        assert refused(plan(8, "again")) == f"query 'counts': {changed}"
        assert waiting.noted("awaited", "awaited any", "ended", "terminated") == []
        waiting.count(driver)
        assert len({each["run"] for each in waiting.noted("told")}) == 0


def test_ends_in_the_middle_of_a_change_are_those_of_who_asks_for_them(tmp_path):
    waiting = Waiting(tmp_path, hold_at="rewriting")
    with waiting.started() as driver:
        waiting.count(driver)
        assert ask(driver, plan(16)).status_code == 200
        held(driver, "rewriting")
        assert ask(driver, plan(16)).status_code == 200  # it is begun once
        assert ask(driver, plan(8)).status_code == 503
        assert waiting.noted("awaited", "awaited any", "ended", "terminated") == []
        waiting.do("stop_others")  # which is another query's, and told as such
        wait_for("who waits for any", lambda: len(waiting.noted("awaited any")) == 1)
        assert [each["query"] for each in waiting.noted("awaited")] == ["others"]
        assert len(waiting.noted("terminated")) == 1
        waiting.do("stop_counts", wait=False)  # the program's: it is heeded when the change is over
        waiting.release()
        report = over(driver, "to 16")
        assert (report.outcome, report.down) == ("changed", None)
        wait_for("it to be stopped", lambda: len(waiting.noted("stopped")) == 1)
        wait_for("all to be told", lambda: len(waiting.noted("terminated")) == 2)
        assert [each["query"] for each in waiting.noted("awaited")] == ["others", "counts"]
        assert waiting.noted("ended") == []
    with waiting.started("next") as driver:
        waiting.count(driver)
        assert waiting.counts.partitions() == 16


def test_a_driver_that_is_asked_to_stop_finishes_the_change_and_ends_in_good_order(tmp_path):
    waiting = Waiting(tmp_path, hold_at="rewriting")
    with waiting.started() as driver:
        waiting.count(driver)
        assert ask(driver, plan(16)).status_code == 200
        held(driver, "rewriting")
        driver.stop()
        driver.wait(lambda s: s.phase == "stopping", "stopping")
        (waiting.data / "end").touch()
        waiting.release()
        assert driver.exit_code(HANGS) == 0
        report = stop_report(driver)
        assert report.clean
        assert {each.name for each in report.queries} == {"counts", "others"}
    (waiting.data / "end").unlink()
    with waiting.started("next") as driver:
        waiting.count(driver)
        assert waiting.counts.partitions() == 16
        assert driver.status().reconfigurations == ()
