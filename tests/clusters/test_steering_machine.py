"""People steer streams while two Dagsters start, stop and recover them, cut off anywhere.

The walk is that of `test_start_machine.py`, with its crashes, copies of the state folder that are
put back, and clocks that jump. Besides: nothing but a person changes what a person has said, who
steers comes to an end beside whoever is held up, and an entry whose time is over is not in force.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from dagster_sparkscale.clusters.records import leases
from dagster_sparkscale.clusters.records.leases import LEASE_SECONDS
from dagster_sparkscale.clusters.records.steering import Entries, Steered, resumed, with_entry
from dagster_sparkscale.in_force.steering import in_force
from tests.clusters.simulated import HOSTS, STREAMS, Operation, Side, moment
from tests.clusters.test_start_machine import Deed, Starts, deeds

HOUR = 3600.0

streams, hosts = st.sampled_from(sorted(STREAMS)), st.sampled_from(HOSTS)
acts = st.sampled_from(["pin", "pause", "freeze", "bounds", "resume"])
lasting = st.sampled_from([None, 60.0, HOUR, 12 * HOUR])


def steering(stream: str, what: str, lasts: float | None) -> Callable[[Side], Any]:
    def act(side: Side) -> None:
        now = side._world.wall

        def change(entries: Entries) -> Entries:
            if what == "resume":
                return resumed(entries, ["pin", "freeze"], "ann", "it is over", now, now)
            until = None if lasts is None else now + lasts
            size = side._operation.process.pid  # tells each from all others
            return with_entry(entries, what, Steered("ann", "test", now, until, size), now)

        leases.steer(side.store(), stream, change, sleep=lambda seconds: moment())

    return act


class Steerings(Starts):
    @initialize(before=st.just("nothing"))
    def begin(self, before: str) -> None:
        super().begin(before)
        self.steering: set[Operation] = set()
        self.known: dict[str, Entries] = {}

    def entries(self) -> dict[str, Entries]:
        return {name: each.steering for name, each in self.world.records.items() if each.steering}

    def _steer(self, host: str, act: Callable[[Side], Any]) -> Operation:
        operation = self._begin(host, act)
        self.steering.add(operation)
        return operation

    def _run(self, operation: Operation, steps: int) -> None:
        for _ in range(steps):
            super()._run(operation, 1)
            if operation in self.steering:
                self.known = self.entries()
            self.nothing_of_a_person_is_lost()

    @rule(target=Starts.operations, stream=streams, host=hosts, what=acts, lasts=lasting)
    def somebody_steers(self, stream: str, host: str, what: str, lasts: float | None) -> Operation:
        return self._steer(host, steering(stream, what, lasts))

    @rule(
        target=Starts.operations,
        held_up=deeds,
        after=st.integers(0, 20),
        what=acts,
        lasts=lasting,
        host=hosts,
        late=st.booleans(),
    )
    def somebody_steers_while_another_is_held_up(
        self, held_up: Deed, after: int, what: str, lasts: float | None, host: str, late: bool
    ) -> Operation:
        operation = self._act(held_up)
        self._run(operation, after)
        person = self._steer(host, steering(held_up.stream, what, lasts))
        self._run(person, 20)
        assert person.done, "who steers waits for nobody"
        if late:
            self.time_passes(LEASE_SECONDS)
        self._run(operation, 80)
        return operation

    @rule()
    def the_copy_is_put_back(self) -> None:
        super().the_copy_is_put_back()
        self.known = self.entries()

    @invariant()
    def nothing_of_a_person_is_lost(self) -> None:
        if hasattr(self, "known"):
            assert self.entries() == self.known

    @invariant()
    def what_is_over_is_not_in_force(self) -> None:
        if not hasattr(self, "known"):
            return
        for stream, record in self.world.records.items():
            for entry in in_force(record, STREAMS[stream], self.world.wall).entries:
                until = entry.steered.until
                assert until is None or self.world.wall < until

    def end_well(self) -> None:
        super().end_well()
        self.nothing_of_a_person_is_lost()


TestSteerings = pytest.mark.filterwarnings("ignore:The `__fields__`")(Steerings.TestCase)
TestSteerings.settings = settings(max_examples=100, stateful_step_count=12, deadline=None)
