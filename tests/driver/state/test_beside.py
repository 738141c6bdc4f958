"""The state of a query that is changed beside the stream, in a real driver: what its program
notices of it, and what is done where it can't be."""

import re
from functools import partial

import pytest

from dagster_sparkscale.driver.state.layout import COPIES
from dagster_sparkscale.driver.state.plans import StatePlan
from tests.driver.state.drivers import BEGIN, BESIDE, GROUPS, Drivers, ask
from tests.driver.state.test_in_place import held, plan
from tests.driver.state.waiting import Waiting, over
from tests.releases import CHANGES_STATE
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.clusters, CHANGES_STATE]


def copies(waiting: Waiting) -> bool:
    return (waiting.counts.place / "checkpoint" / COPIES).exists()


def test_the_program_notices_nothing_and_no_batch_is_given_out_twice(tmp_path):
    waiting = Waiting(tmp_path, hold_at="catching up")
    with waiting.started() as driver:
        waiting.count(driver)
        assert driver.status().beside == {"counts": None, "others": None}
        before = BEGIN
        for number, after in enumerate((16, 5, 2)):
            id = f"{number}"
            assert ask(driver, plan(after, id), beside=BESIDE).status_code == 200
            if number == 0:  # batches that the copy has to catch up with
                held(driver, "catching up")
                for _ in range(3):
                    waiting.count(driver)
                assert copies(waiting)
                waiting.release()
            report = over(driver, id)
            assert (report.outcome, report.reason, report.down) == ("changed", None, None)
            assert (report.way, report.beside) == ("beside the stream", None)
            assert (report.before, report.after) == (before, after)
            waiting.count(driver)
            wait_for("the copy to be deleted", lambda: not copies(waiting))
            assert waiting.counts.partitions() == after
            before = after
        assert waiting.others.partitions() == BEGIN
        assert len(waiting.noted("started")) == 2
        assert waiting.noted("awaited", "awaited any", "ended", "terminated", "again") == []
    with waiting.started("next") as driver:
        waiting.count(driver)
        assert waiting.counts.partitions() == 2


def test_where_it_can_t_be_it_is_changed_in_place_and_says_why(tmp_path):
    waiting = Waiting(tmp_path)
    with waiting.started() as driver:
        waiting.count(driver)
        for number, (more, why) in enumerate(
            [
                ({"rows": 10**6}, "rows are fewer than 1,000,000: in place takes less in all"),
                ({"busiest": 1e-6}, "of their interval: above 1e-06 there is nothing to spare"),
            ]
        ):
            asked = plan((16, 8)[number], f"{number}")
            assert ask(driver, asked, beside={**BESIDE, **more}).status_code == 200
            report = over(driver, asked.id)
            assert (report.outcome, report.way) == ("changed", "in place")
            assert why in report.beside
            waiting.count(driver)
        assert not copies(waiting)


def test_an_end_by_the_program_while_the_copy_catches_up_is_heeded(tmp_path):
    waiting = Waiting(tmp_path, hold_at="catching up")
    with waiting.started() as driver:
        waiting.count(driver)
        assert ask(driver, plan(16), beside=BESIDE).status_code == 200
        held(driver, "catching up")
        waiting.do("stop_counts")  # at once: nothing is held
        wait_for("all to be told", lambda: len(waiting.noted("terminated")) == 1)
        waiting.release()
        report = over(driver, "to 16")
        assert report.outcome == "refused"
        assert report.beside == "its query has ended meanwhile"
        wait_for("the copy to be deleted", lambda: not copies(waiting))
    with waiting.started("next") as driver:
        waiting.count(driver)
        assert waiting.counts.partitions() == BEGIN


def test_a_busy_stream_is_changed_so_with_executors_that_come_for_it_and_go(cluster, tmp_path):
    drivers = Drivers(partial(cluster.driver, most=3), tmp_path)
    go_on, (counting,) = tmp_path / "go on", drivers.queries.values()
    busy = {**BESIDE, "busiest": 1e-6, "executors": 3}

    def change(after: int, **beside: object) -> None:
        to = StatePlan(f"to {after}", after, GROUPS, queries=("counts",))
        assert ask(driver, to, beside={**busy, **beside}).status_code == 200

    def back() -> None:
        alone = "one executor to be left"
        driver.wait(lambda s: s.requested == s.registered == 1 and not s.removing, alone)
        drivers.count(driver)

    with drivers.started(hold_at=f"copying={go_on}") as driver:
        drivers.count(driver)
        change(16)
        held(driver, "copying")
        assert driver.status().requested == driver.status().registered == 3
        go_on.touch()
        report = over(driver, "to 16")
        assert (report.outcome, report.way) == ("changed", "beside the stream")
        assert (report.beside, report.lacked) == (None, None)
        assert "adding executors" in report.seconds
        back()
        assert counting.partitions() == 16

        # More than spark.cores.max lets come: the limit stands.
        change(8, executors=4, within=8.0)
        report = over(driver, "to 8")
        assert (report.outcome, report.way) == ("changed", "in place")
        assert "above 1e-06 there is nothing to spare" in report.beside
        assert re.match("[123] of 4 executors are there after 4 s", report.lacked)
        back()
        assert counting.partitions() == 8
