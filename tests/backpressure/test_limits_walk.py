"""A random walk over the limits of one stream: people, retunings, put-backs and starts that
fail, against which number is in force, and who set it."""

import itertools
import time
from contextlib import suppress
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dagster_sparkscale.backpressure import retune
from dagster_sparkscale.backpressure.preflight import look
from dagster_sparkscale.backpressure.set_limits import LimitsRequest as Asks
from dagster_sparkscale.backpressure.set_limits import set_limits
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.requests import NotDone, Refused
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.in_force.limits import live, set_by_a_person
from dagster_sparkscale.lifecycle.reconcile import Start, reconcile
from dagster_sparkscale.observe.status import Limit
from tests.backpressure.retuning import policed
from tests.fakes import QUERY
from tests.in_memory.cluster import World

SOURCES = ("clicks", "orders")
NAMES = st.sampled_from([*SOURCES, "*"])
RATES = st.sampled_from([50.0, 600.0, 1000.0, 4000.0])


class Limits(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stream = policed(initial_rate=450, max_rate=5000)
        self.world = World()
        self.world.on_submit = self._begin
        self.fails = 0
        self.own: set[str] = set()
        """Sources that had a limit of their own when a person set one for all."""
        self.people: dict[str, tuple[dict[str, float], str]] = {}
        self.number = itertools.count(1)
        self.world.run(self.stream)

    def _begin(self, kept) -> None:
        kept.limits = tuple(Limit(name, QUERY) for name in SOURCES)
        kept.batch_seconds = 1.0
        if self.fails:
            self.fails -= 1
            self.world.end("clicks")

    @property
    def record(self):
        return self.world.records["clicks"]

    @property
    def kept(self):
        return self.world.streams["clicks"]

    @property
    def runs(self) -> bool:
        return self.kept.driver.state.alive

    def somebody(self) -> Requester:
        return Requester(f"run {next(self.number)}")

    @precondition(lambda self: self.runs)
    @rule(source=NAMES, rate=RATES, records=st.booleans())
    def a_person_sets(self, source, rate, records):
        asks = self.somebody()
        one = {"records": int(rate)} if records else {"rate": rate}
        set_limits(self.world.cluster, self.stream, Asks(source, wait=0, **one), asks)
        if source == "*":
            self.own = set(self.record.rates or {})
        limit = "maxRecordsPerTrigger" if records else "maxRate"
        self.people[source] = {limit: rate}, asks.name

    @precondition(lambda self: self.runs)
    @rule(source=st.none() | NAMES)
    def a_person_takes_away(self, source):
        with suppress(Refused):
            asks = Asks(source, none=True)
            set_limits(self.world.cluster, self.stream, asks, self.somebody())
            for name in [*self.people] if source is None else [source]:
                self.people.pop(name, None)

    @rule(
        limit=st.sampled_from(["max_rate", "max_rate", "min_rate", "initial_rate"]),
        value=st.sampled_from([100.0, 450.0, 700.0, 3000.0, 9000.0]),
        fails=st.integers(0, 1),
        person=st.booleans(),
    )
    def tuned(self, limit, value, fails, person):
        asks, values = self.somebody(), {f"backpressure.{limit}": value}
        with suppress(Refused, NotDone, DeclarationError):
            looked = look(self.world.cluster, self.stream, asks, (), values, now=time.time())
            if looked.change is None:
                return
            if not person:
                looked = replace(looked, by_hand=False)
            self.fails = fails
            retune.retune(self.world.cluster, self.stream, looked, asks, now=time.time())
        self.fails = 0

    @rule(by_itself=st.booleans(), fails=st.integers(0, 2))
    def put_back(self, by_itself, fails):
        why = "worse" if by_itself else ""
        self.fails = fails
        with suppress(Refused, ClusterError):
            retune.put_back(
                self.world.cluster, self.stream, self.somebody(), now=time.time(), why=why
            )
        self.fails = 0

    @rule()
    def verified(self):
        """Whatever is due, long after."""
        due = self.record.tuning and self.record.tuning.verify_at
        if due is None:
            return
        with suppress(Refused, ClusterError):
            later = max(time.time(), due) + 1
            retune.verify(self.world.cluster, self.stream, (), self.somebody(), now=later)

    @rule(most=st.sampled_from([5000, 800]), min_rate=st.sampled_from([100, 200]))
    def declared(self, most, min_rate):
        self.stream = policed(initial_rate=450, max_rate=most, min_rate=min_rate)

    @rule()
    def started(self):
        reconcile(self.world.cluster, self.stream, self.somebody(), Start(restart=self.runs))

    @invariant()
    def the_driver_heeds_what_is_remembered(self):
        if self.runs:
            assert self.kept.rates == (self.record.rates or {})

    @invariant()
    def nothing_that_a_person_set_is_lost(self):
        rates = self.record.rates or {}
        for source, (limits, who) in self.people.items():
            assert limits.items() <= rates[source].items()
            shown = set_by_a_person(self.record)[source]
            numbers = limits.get("maxRate"), limits.get("maxRecordsPerTrigger")
            assert (shown.value, shown.records, shown.who) == (*numbers, who)
        assert set(set_by_a_person(self.record)) == set(self.people)
        assert set(live(self.record)) == set(rates)
        if "*" in self.people:  # one of its own would lift what a person has set for all
            assert set(rates) <= {"*", *self.people, *self.own}


def test_what_is_put_back_lifts_from_no_source_what_a_person_set_for_all_since() -> None:
    walk = Limits()
    walk.tuned(limit="max_rate", value=450.0, fails=0, person=False)
    assert set(walk.record.rates or {}) == set(SOURCES)
    walk.put_back(by_itself=False, fails=0)
    walk.a_person_sets(source="*", rate=50.0, records=False)
    walk.put_back(by_itself=False, fails=0)
    walk.nothing_that_a_person_set_is_lost()


def test_nor_does_what_a_person_has_taken_away_come_back_by_two_put_backs() -> None:
    walk = Limits()
    walk.tuned(limit="max_rate", value=450.0, fails=0, person=False)
    walk.a_person_takes_away(source=None)
    walk.a_person_sets(source="*", rate=50.0, records=False)
    for _ in range(2):
        walk.put_back(by_itself=False, fails=0)
        walk.nothing_that_a_person_set_is_lost()


def test_a_rate_that_was_tuned_beside_a_person_s_records_is_not_that_person_s() -> None:
    walk = Limits()
    walk.a_person_sets(source="clicks", rate=50.0, records=True)
    walk.tuned(limit="max_rate", value=450.0, fails=0, person=False)
    assert walk.record.rates["clicks"] == {"maxRecordsPerTrigger": 50, "maxRate": 450}
    walk.nothing_that_a_person_set_is_lost()


Limits.TestCase.settings = settings(max_examples=80, stateful_step_count=16, deadline=None)
TestLimits = Limits.TestCase
