"""Whether a real-time query has its slots, and what is made of Spark's refusal. No Spark."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.batches.tracked import NewQuery
from dagster_sparkscale.driver.ending.end_report import EndReport, Slots
from dagster_sparkscale.driver.part import Core
from dagster_sparkscale.driver.realtime import slots
from dagster_sparkscale.driver.realtime.part import RealTimePart
from dagster_sparkscale.driver.settings import REALTIME_SLOTS, REALTIME_WAIT
from tests.driver.serving import options

NUMBERS = st.integers(0, 999_999_999)
REFUSAL = (
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
    "[CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT] Cannot run the pipelined stage group: it needs {0} "
    "concurrent task slots to run all its stages together, but only {1} are currently free. The "
    "stages of a pipelined group must run concurrently, so the cluster must have enough free slots "
    "for all of them at once. SQLSTATE: 53000"
)
"""What Spark 4.3 says, with the numbers left out."""


class Context:
    """A SparkContext of which as many slots have registered as are left to pop."""

    def __init__(self, *there: int, settings: dict[str, str]) -> None:
        self.there, self.settings = list(there), settings
        self._jsc = SimpleNamespace(sc=lambda: self)

    def getConf(self) -> Any:
        return SimpleNamespace(getAll=self.settings.items)

    def resourceProfileManager(self) -> Any:
        return SimpleNamespace(defaultResourceProfile=lambda: None)

    def maxNumConcurrentTasks(self, _profile: Any) -> int:
        return self.there.pop(0) if len(self.there) > 1 else self.there[0]


def part_of(*there: int, wait: float = 30, needed: str = "6") -> tuple[RealTimePart, Any]:
    settings = {REALTIME_SLOTS: needed, REALTIME_WAIT: f"{wait:g}"} if needed else {}
    context = Context(*there, settings=settings)
    part = RealTimePart(Core(options()))
    part.begin(context)
    return part, SimpleNamespace(_sc=context)


def before(part: RealTimePart, session: Any) -> None:
    part.before_query(NewQuery(session, {"queryName": "live"}))


def test_a_query_starts_once_the_slots_are_there(monkeypatch):
    part, session = part_of(1, 3, 6)
    waits = []

    def sleep(_: float) -> None:
        waits.append(part.answer()["waits_for_slots"])

    monkeypatch.setattr("time.sleep", sleep)
    before(part, session)
    assert [each.partition(", ")[0].partition(": ")[2] for each in waits] == [
        "1 of 6 have registered",
        "3 of 6 have registered",
    ]
    assert part.answer() == {"waits_for_slots": None}


def test_the_wait_is_bounded(monkeypatch):
    part, session = part_of(4, wait=0.01)
    with pytest.raises(slots.NotEnoughSlots, match=r"need 6 task slots .*, and 4 registered") as no:
        before(part, session)
    assert part.died(no.value) == {"slots": Slots(6, 4, 4, declared=True)}
    assert part.answer() == {"waits_for_slots": None}


def test_a_stop_ends_the_wait():
    part, session = part_of(4, wait=3600)
    part._admission.phase = "stopping"
    with pytest.raises(slots.Stopped, match=r"'live' was not started: .* asked to stop") as no:
        before(part, session)
    assert part.died(no.value) == {}, "slots that may have come are not said to lack"


def test_without_a_declaration_nothing_waits():
    part, session = part_of(0, needed="")
    before(part, session)
    assert part.died(ValueError("no such topic")) == {}
    assert part.died(RuntimeError(REFUSAL.format(6, 0))) == {"slots": Slots(6, 0, 0)}


@given(needed=NUMBERS, free=NUMBERS)
def test_the_numbers_of_a_refusal_are_read(needed: int, free: int):
    assert slots.lacking(REFUSAL.format(needed, free), 7) == Slots(needed, free, 7)


@given(st.text())
def test_what_is_no_refusal_is_none(text: str):
    assert slots.lacking(text) is None
    assert slots.lacking(f"{slots.REFUSED} {text}") is None or "concurrent task slots" in text


@given(st.text(), st.text())
def test_settings_that_are_none_declare_nothing_and_never_raise(number: str, wait: str):
    found = slots.declared({REALTIME_SLOTS: number, REALTIME_WAIT: wait})
    assert found is None or (found[0] >= 1 and found[1] >= 0)


def test_the_report_keeps_the_numbers_however_short_it_has_to_be():
    report = EndReport(raised="x" * 5000, slots=Slots(6, 1, 1))
    assert '"needed": 6' in report.as_json()


@pytest.mark.parametrize(
    ("lacked", "in_all"),
    [(Slots(6, 1, 1), 6), (Slots(6, 0, 6), 12), (Slots(6, 2, 3), 7), (Slots(6, 1), 6)],
)
def test_slots_that_others_have_taken_count(lacked: Slots, in_all: int):
    """Each query asks for its own: the second one of two finds none free."""
    assert lacked.in_all == in_all
