"""A change takes the number of a batch: of each kind that the log of a file sink has."""

import pytest

from dagster_sparkscale.driver.state.plans import StatePlan
from tests.driver.state.drivers import GROUPS
from tests.driver.state.test_file_sink import EVERY, NAMES, Filing, changed_after, goes_on
from tests.waiting import HANGS

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("batches", range(1, EVERY + 1))
def test_it_goes_on_whichever_batch_the_change_takes(cluster, tmp_path, batches):
    changed_after(cluster.driver, tmp_path, batches)


def test_also_where_the_driver_is_killed_before_its_sink_knows(cluster, tmp_path):
    filing = Filing(cluster.driver, tmp_path)
    with filing.driver() as driver:
        filing.feed(driver)
        driver.stop()
        driver.exit_code(HANGS)
    with filing.driver(StatePlan("up", 8, GROUPS, queries=NAMES), hold_at="closing") as driver:
        driver.wait(lambda s: s.reconfiguring and s.reconfiguring.step == "closing", "closing")
        driver.kill()
    with filing.driver() as driver:
        goes_on(filing, driver)
        [report] = driver.status().reconfigurations
        assert report.outcome == "changed"
        driver.stop()
        driver.exit_code(HANGS)
