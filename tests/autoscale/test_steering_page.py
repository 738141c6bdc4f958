"""What Overview shows of steering."""

from dataclasses import replace

from dagster_sparkscale.autoscale.steering_page import sections
from dagster_sparkscale.capability import Situation
from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.records.steering import Steered
from dagster_sparkscale.clusters.records.store import Record
from tests.fakes import scaled

NOON = 1_700_049_600.0


def situation(**entries: Steered) -> Situation:
    record = replace(Record.new("r"), steering=entries)
    driver = Driver("clicks", 1, DriverState.RUNNING, NOON, record=record)
    return Situation(scaled(), NOON, driver)


def test_each_entry_has_a_line_as_markdown() -> None:
    found = situation(
        pin=Steered("ann", "load_test", NOON, NOON + 3600, size=6), pause=Steered("ann", "", NOON)
    )
    assert sections(found) == {
        "steering": "- pinned to 6 by ann until 13:00 UTC (load\\_test)\n"
        "- paused by ann until it is resumed"
    }


def test_where_nothing_steers_nothing_is_shown() -> None:
    assert sections(situation()) == {"steering": ""}
    assert sections(Situation(scaled(), NOON)) == {"steering": ""}


def test_it_fits_in_place() -> None:
    long = Steered("ann", "because " * 100, NOON, size=6, maximum=6)
    found = situation(pin=long, freeze=long, pause=long, advise=long, bounds=long, effect=long)
    assert len(sections(found)["steering"]) < 1000
