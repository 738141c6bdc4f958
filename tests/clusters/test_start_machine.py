"""Starts, stops and recoveries of two Dagsters, in any order, cut off and held up anywhere.

What is real here: the lease, the way of a start through the store, `reconcile`, `stop` and the
decisions on recovery. What is simulated: the store's atoms (each read and each swap is a moment at
which anything else may happen), the processes (who launches, supervisors, drivers, on two hosts
that can't see each other's), the steady clock and the wall's.

The state folder may be put back as it was while drivers run, and a driver's JVM may outlive it.

Never two drivers on one checkpoint, nor one beside what another has left; no start kills a driver
that runs; no epoch goes back but with the folder; and when all who were at it are dead, a stream
runs, was asked to stop, or says why it does not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.records.leases import LEASE_SECONDS
from dagster_sparkscale.lifecycle import reconcile as reconcile_module
from tests.clusters.simulated import (
    CHECKPOINT,
    HOSTS,
    STREAMS,
    Operation,
    Side,
    gone,
    recovery,
    start,
    stop,
)
from tests.clusters.simulated_world import Launched, World


@dataclass(frozen=True)
class Deed:
    """What is done, to which stream, from where."""

    what: str
    stream: str
    host: str


ACTS: dict[str, Callable[[str], Callable[[Side], Any]]] = {
    "start": start,
    "restart": lambda stream: start(stream, restart=True),
    "stop": stop,
    "recover": recovery,
    "declare gone": gone,
}
deeds = st.builds(
    Deed, st.sampled_from(sorted(ACTS)), st.sampled_from(sorted(STREAMS)), st.sampled_from(HOSTS)
)


class Starts(RuleBasedStateMachine):
    operations = Bundle("operations")

    @initialize(before=st.sampled_from(["nothing", "a driver", "one that has ended"]))
    def begin(self, before: str) -> None:
        self.world = World()
        self.copy = self.world.copy()
        self.epochs: dict[str, int] = {}
        self.stops: set[str] = set()
        self.patches = [
            patch("time.time", lambda: self.world.wall),
            # What a program does once it was launched is another matter.
            patch.object(
                reconcile_module, "_wait_for_first_query", lambda _, driver, until: (driver, None)
            ),
        ]
        for each in self.patches:
            each.start()

    def _begin(self, host: str, act: Callable[[Side], Any]) -> Operation:
        operation = Operation(self.world, host, act)
        self.world.operations.append(operation)
        return operation

    def _act(self, deed: Deed) -> Operation:
        if deed.what == "stop":
            self.stops.add(deed.stream)
        return self._begin(deed.host, ACTS[deed.what](deed.stream))

    def _run(self, operation: Operation, steps: int) -> None:
        for _ in range(steps):
            operation.step()
            self.check()

    @rule(target=operations, deed=deeds)
    def begin_one(self, deed: Deed) -> Operation:
        return self._act(deed)

    @rule(
        target=operations,
        held_up=deeds,
        after=st.integers(0, 20),
        meanwhile=st.one_of(
            st.sampled_from([("start",), ("declare gone", "start"), ("stop", "start")]),
            st.lists(st.sampled_from(sorted(ACTS)), min_size=1, max_size=3),
        ),
        stream=st.sampled_from(sorted(STREAMS)),
        host=st.sampled_from(HOSTS),
        lost=st.booleans(),
        launched=st.booleans(),
    )
    def one_is_held_up_while_others_do_all_they_want(
        self,
        held_up: Deed,
        after: int,
        meanwhile: Sequence[str],
        stream: str,
        host: str,
        lost: bool,
        launched: bool,
    ) -> Operation:
        operation = self._act(held_up)
        self._run(operation, after)
        if lost:
            self.the_lease_is_lost(held_up.stream)
        else:
            self.time_passes(LEASE_SECONDS)
        for what in meanwhile:
            other = self._act(Deed(what, stream, host))
            self._run(other, 20)
            self.time_passes(LEASE_SECONDS)  # by now it has waited long enough for the first
            self._run(other, 60)
            if launched:
                self.supervisors_go_on()
        return operation

    @rule()
    def supervisors_go_on(self) -> None:
        for it in list(self.world.there):
            self._go_on(it, 3)

    def _go_on(self, it: Launched, steps: int) -> None:
        for _ in range(steps):
            self.world.go_on(it)
            self.check()

    @rule()
    def the_state_folder_is_copied(self) -> None:
        self.copy = self.world.copy()

    @rule()
    def the_copy_is_put_back(self) -> None:
        self.world.put_back(self.copy)
        self.epochs = {name: record.epoch for name, record in self.world.records.items()}

    @rule(
        stream=st.sampled_from(sorted(STREAMS)),
        hosts=st.tuples(*[st.sampled_from(HOSTS)] * 2),
        steps=st.tuples(*[st.integers(0, 3)] * 2),
    )
    def an_older_copy_is_put_back_while_a_driver_starts(
        self, stream: str, hosts: Sequence[str], steps: Sequence[int]
    ) -> None:
        """The next one has the same number."""
        self._run(self._act(Deed("start", stream, hosts[0])), 80)
        self.supervisors_go_on()
        for it in self.world.there:
            it.end(self.world.wall)
        self.the_state_folder_is_copied()
        there = len(self.world.there)
        for turn in (0, 1):
            self._run(self._act(Deed("start", stream, hosts[turn])), 80)
            for it in self.world.there[there:][-1:]:
                self._go_on(it, steps[turn])
            if turn == 0:
                self.the_copy_is_put_back()
        self.supervisors_go_on()
        self._run(self._act(Deed("start", stream, hosts[1])), 80)
        self.supervisors_go_on()

    @rule(operation=operations, steps=st.integers(1, 12))
    def go_on(self, operation: Operation, steps: int) -> None:
        self._run(operation, steps)

    @rule(operation=consumes(operations))
    def finish(self, operation: Operation) -> None:
        self._run(operation, 80)

    @rule(operation=consumes(operations))
    def crash(self, operation: Operation) -> None:
        operation.crash()

    @rule(operation=operations)
    def renew(self, operation: Operation) -> None:
        operation.renew()

    @rule(seconds=st.sampled_from([1.0, LEASE_SECONDS / 2, LEASE_SECONDS, 3600.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.now += seconds
        self.world.wall += seconds

    @rule(seconds=st.sampled_from([-8 * 3600.0, 8 * 3600.0]))
    def the_wall_clock_jumps(self, seconds: float) -> None:
        self.world.wall += seconds

    @precondition(lambda self: self.world.records)
    @rule(stream=st.sampled_from(sorted(STREAMS)))
    def the_lease_is_lost(self, stream: str) -> None:
        record = self.world.records.get(stream)
        if record is not None:
            changed = replace(record, lease=None, revision=record.revision + 1)
            self.world.records[stream] = changed

    @rule()
    def the_network_breaks_or_is_mended(self) -> None:
        self.world.reachable = not self.world.reachable

    @precondition(lambda self: self.world.there)
    @rule(which=st.integers(0, 30))
    def a_supervisor_goes_on(self, which: int) -> None:
        self._go_on(self._one_of_the_last(which), 1)

    @precondition(lambda self: self.world.there)
    @rule(which=st.integers(0, 30), jvm=st.booleans())
    def a_driver_dies(self, which: int, jvm: bool) -> None:
        it = self._one_of_the_last(which)
        if it.phase == "alive" and not jvm:
            it.phase = "lingers"
        else:
            it.end(self.world.wall)

    def _one_of_the_last(self, which: int) -> Launched:
        return self.world.there[-1 - which % len(self.world.there)]

    @invariant()
    def check(self) -> None:
        if not hasattr(self, "world"):
            return
        alive = [it for it in self.world.there if it.phase in ("alive", "lingers")]
        assert len(alive) <= 1, f"two drivers on one checkpoint: {alive}"
        for stream, record in self.world.records.items():
            assert record.epoch >= self.epochs.get(stream, 0), f"the epoch of {stream!r} went back"
            self.epochs[stream] = record.epoch

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.end_well()
        finally:
            for operation in self.world.operations:
                operation.crash()
            for each in self.patches:
                each.stop()

    def end_well(self) -> None:
        """All that was under way is dead. What is left of each stream?"""
        for operation in self.world.operations:
            operation.crash()
        self.supervisors_go_on()
        self.world.reachable = True
        for stream in self.world.records:
            for _ in range(2):  # an attempt that the crash cut off makes the next one wait
                self.world.wall += 2.0
                self.by_itself(recovery(stream))
            record = self.world.records[stream]
            driver = self.found(stream)
            if driver is None or driver.state in (DriverState.RUNNING, DriverState.UNKNOWN):
                continue
            if driver.state is DriverState.STOPPED:
                assert stream in self.stops, f"{stream!r} was stopped by nobody"
                continue
            assert record.desired != "stopped"
            other = next(name for name in STREAMS if name != stream)
            taken = self.world.claims[CHECKPOINT].stream == other
            why_not = taken or record.host != "h1" or driver.fenced
            assert why_not or self.world.in_the_way("h1", record), (
                f"{stream!r} is {driver.state.value} for good: {record}"
            )

    def found(self, stream: str) -> Driver | None:
        seen: list[Driver | None] = []
        self.by_itself(lambda side: seen.append(side.find(stream)))
        return seen[0]

    def by_itself(self, act: Callable[[Side], Any]) -> None:
        """On the first host, undisturbed, and for as long as an expiring lease takes."""
        operation = self._begin("h1", act)
        for step in range(300):
            operation.step()
            if step > 40:
                self.world.now += 1.0
        self.supervisors_go_on()
        assert operation.done


TestStarts = pytest.mark.filterwarnings("ignore:The `__fields__`")(Starts.TestCase)
TestStarts.settings = settings(max_examples=300, stateful_step_count=12, deadline=None)
