"""Which ends of drivers are owed to their lineage servers, and as what."""

from dataclasses import replace

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.records.store import Record, UntoldEnd
from dagster_sparkscale.declare.lineage import Lineage
from dagster_sparkscale.driver.settings import LINEAGE_RECORD
from dagster_sparkscale.in_force.lineage import MOST, at_start, settings_of, untold_end
from dagster_sparkscale.observe.end_report import LineageEnd
from tests.fakes import driver, structured

NOW = 2000.0
PLAN = {"lineage.url": "http://m/api", "lineage.namespace": "prod", "lineage.job": "clicks"}
DECLARED = {"program": "a.py", **PLAN}
RECORD = Record.new("r")
FAILED, STOPPED = DriverState.FAILED, DriverState.STOPPED
RESTARTING = {"record": replace(RECORD, desired="restarting")}


@pytest.mark.parametrize(
    ("state", "fields", "kind", "why"),
    [
        (FAILED, {"exit_reason": "killed by signal 9"}, "FAIL", "killed by signal 9"),
        (FAILED, {"exit_reason": "x", "lineage": LineageEnd("COMPLETE")}, "COMPLETE", None),
        (STOPPED, {"drained": True}, "COMPLETE", None),
        (STOPPED, {"drained": False}, "ABORT", None),
        (STOPPED, {}, "ABORT", None),
        (FAILED, {**RESTARTING, "drained": True}, "COMPLETE", None),
        (FAILED, {**RESTARTING, "exit_reason": "killed"}, "ABORT", None),
    ],
)
def test_an_end_that_was_not_told_is_owed(state, fields, kind, why):
    found = untold_end(driver(state, 4, declared=DECLARED, ended_at=1500.0, **fields), NOW)
    assert found == UntoldEnd(4, 1500.0, kind, why, PLAN)


@pytest.mark.parametrize(
    "ended",
    [
        None,
        driver(DriverState.RUNNING, declared=DECLARED),
        driver(DriverState.UNKNOWN, declared=DECLARED),
        driver(FAILED, declared={"program": "a.py"}),
        driver(FAILED),
        driver(FAILED, declared=DECLARED, lineage=LineageEnd("FAIL", told=True)),
    ],
)
def test_nothing_is_owed_of_one_that_lives_or_told_it_or_tells_no_lineage(ended):
    assert untold_end(ended, NOW) is None
    assert at_start(RECORD, ended, NOW) == RECORD


def test_an_end_that_nobody_saw_is_of_when_it_was_found():
    assert untold_end(driver(FAILED, declared=DECLARED), NOW).at == NOW


def test_a_record_remembers_the_latest_once_each():
    record = RECORD
    for epoch in range(1, MOST + 4):
        for _ in range(2):
            record = at_start(record, driver(FAILED, epoch, declared=DECLARED), NOW)
    assert [end.epoch for end in record.untold] == list(range(4, MOST + 4))


def test_a_driver_knows_the_id_of_its_record_where_it_tells_lineage():
    stream = structured(lineage=Lineage(url="http://m"))
    assert settings_of(stream, RECORD) == {LINEAGE_RECORD: "r"}
    assert settings_of(structured(), RECORD) == {}
