"""Live limits on their way to drivers."""

import json

import pytest

from dagster_sparkscale.clusters.errors import StaleEpoch
from dagster_sparkscale.driver.backpressure.rates import BadRates, rates_of
from dagster_sparkscale.driver.settings import RATES
from dagster_sparkscale.in_force.live_limits import SetRates, at_start, checked
from tests.fakes import structured
from tests.in_memory.cluster import World


def test_numbers_that_a_store_has_made_floats_are_whole_again():
    rates = {"clicks": {"maxRecordsPerTrigger": 5.0, "maxRate": 2.5}, "none": {}}
    assert json.dumps(checked(rates)) == '{"clicks": {"maxRecordsPerTrigger": 5, "maxRate": 2.5}}'


def test_what_makes_no_sense_is_refused():
    with pytest.raises(BadRates, match=r"rates\.clicks\.maxRate: 0: must be a number of records"):
        checked({"clicks": {"maxRate": 0}})
    with pytest.raises(BadRates, match=r"rates\.clicks\.maxRecordsPerTrigger: 2\.5: must be a wh"):
        checked({"clicks": {"maxRecordsPerTrigger": 2.5}})


def test_a_driver_begins_with_what_was_set_last():
    assert at_start(None) == at_start({}) == {}
    rates = {"clicks": {"maxRecordsPerTrigger": 5.0}}
    assert rates_of(at_start(rates)[RATES]) == {"clicks": {"maxRecordsPerTrigger": 5}}


def test_a_limit_that_another_release_has_set_keeps_no_stream_from_starting():
    rates = {"clicks": {"maxFilesPerTrigger": 5.0}}
    assert json.loads(at_start(rates)[RATES]) == {"clicks": {"maxFilesPerTrigger": 5}}


RATES_SET = {"clicks": {"maxRate": 50}}


@pytest.fixture
def running(world: World) -> World:
    world.run(structured())
    return world


class TestSetRates:
    """By any cluster manager."""

    def test_the_agent_is_told_and_they_are_remembered(self, running):
        cluster = running.cluster
        driver = cluster.find("clicks")
        with cluster.lease("clicks", "limits run 1") as lease:
            assert cluster.change(driver, SetRates(RATES_SET), lease=lease).rates == RATES_SET
            assert running.numbers == [lease.number]
        assert running.records["clicks"].rates == RATES_SET
        with cluster.lease("clicks", "limits run 2") as lease:
            cluster.change(driver, SetRates({}), lease=lease)
        assert running.records["clicks"].rates == {}

    def test_without_a_lease_nothing_is_remembered(self, running):
        driver = running.cluster.find("clicks")
        assert running.cluster.change(driver, SetRates(RATES_SET)).rates == RATES_SET
        assert running.records["clicks"].rates is None

    def test_what_makes_no_sense_is_not_remembered(self, running):
        cluster = running.cluster
        driver = cluster.find("clicks")
        with (
            cluster.lease("clicks", "limits run 1") as lease,
            pytest.raises(BadRates, match="no such limit"),
        ):
            cluster.change(driver, SetRates({"clicks": {"speed": 1}}), lease=lease)
        assert running.records["clicks"].rates is None
        assert running.calls[-1].startswith("submit")

    def test_a_driver_that_is_not_the_newest_is_left_alone(self, running):
        cluster = running.cluster
        old = cluster.find("clicks")
        running.end("clicks")
        running.run(structured())
        with (
            cluster.lease("clicks", "limits run 1") as lease,
            pytest.raises(StaleEpoch, match="at epoch 2"),
        ):
            cluster.change(old, SetRates(RATES_SET), lease=lease)
        assert running.records["clicks"].rates is None
