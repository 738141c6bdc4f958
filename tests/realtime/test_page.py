"""What a stream's page and checks say of the slots that its real-time queries need."""

from dataclasses import replace

import pytest

from dagster_sparkscale.capability import Situation
from dagster_sparkscale.clusters.records.store import Record, SlotsNeeded
from dagster_sparkscale.declare.realtime import RealTime
from dagster_sparkscale.observe.findings import Health
from dagster_sparkscale.observe.status import Executor, Query
from dagster_sparkscale.realtime import page
from tests.fakes import driver, status, structured

LIVE = Query("live", active=True, trigger="real time")
STREAM = structured(realtime=RealTime(slots=6), executor_cores=2)
SAID = replace(Record.new("r"), slots=SlotsNeeded(8, 3, declared=6))


def situation(executors: int, *, stream=STREAM, record=None, **fields) -> Situation:
    there = tuple(Executor(str(n), "h", 2) for n in range(executors))
    seen = status(registered=executors, executors=there, queries=(LIVE,), **fields)
    return Situation(stream, 2000.0, driver(record=record), seen)


@pytest.mark.parametrize(("executors", "faulty"), [(2, True), (3, False), (4, False)])
def test_too_few_slots_are_a_fault(executors: int, faulty: bool):
    """Without a shuffle Spark runs it on fewer, and never reads what finds no slot."""
    found = dict(page.faults(situation(executors)))
    assert (Health.BATCHES_COMPLETING in found) is faulty
    if faulty:
        assert found[Health.BATCHES_COMPLETING].text.startswith(
            "its real-time queries need 6 task slots at once, and executors with 4 stay"
        )


def test_what_is_not_known_or_not_declared_is_no_fault():
    for found in (
        situation(2, stream=structured()),
        situation(2, removing=1),
        replace(situation(2), status=None),
        replace(situation(2), status=status(registered=None, queries=(LIVE,))),
    ):
        assert dict(page.faults(found)) == {}


def test_the_page_says_how_many_and_who_knows_it():
    assert page.sections(situation(3)) == {
        "real-time queries": "6 task slots at once (declared): at least 3 executors"
    }
    said = page.sections(situation(3, record=SAID, waits_for_slots="query 'live' waits"))
    assert said["real-time queries"] == (
        "8 task slots at once (as Spark said to driver 3): at least 4 executors\n\n"
        "query 'live' waits"
    )
    assert page.sections(situation(3, stream=structured())) == {}


def test_while_a_query_waits_nothing_is_decided():
    assert page.busy(status(waits_for_slots="query 'live' waits")) == "query 'live' waits"
    assert page.busy(status()) is None
