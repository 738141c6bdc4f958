"""Numbers that are refused, and drivers that another one has overtaken."""

from dataclasses import replace
from typing import Any

import pytest

from dagster_sparkscale.clusters.errors import Overtaken, StaleEpoch
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.requests import Refused
from tests.fakes import dstream
from tests.in_memory.cluster import World
from tests.receivers.recounting import STREAM, carry_out, causes, record
from tests.receivers.streams import counting, receiving, spread_over


class TestRefused:
    def refused(self, world: World, receivers: int, stream: Any = STREAM, **asked: Any) -> str:
        with pytest.raises(Refused) as refused:
            carry_out(world, receivers, stream=stream, **asked)
        assert causes(world) == ["manual"]
        return str(refused.value)

    def test_a_number_outside_the_bounds(self, world: World) -> None:
        stream = counting(count={"minimum": 2})
        for number in (1, 7):
            assert self.refused(world, number, stream) == (
                f"receivers = {number}: must be 2 to 6, as receiver_policy.count of 'clicks' has it"
            )

    def test_a_stream_that_does_not_say_that_its_program_takes_a_number(self, world: World) -> None:
        for stream in (receiving(2), dstream(receivers=2, executor_cores=4)):
            said = self.refused(world, 3, stream)
            assert "give receiver_policy=ReceiverPolicy(count=ReceiverCount(...))" in said
        assert "'clicks' has no receivers" in self.refused(world, 3, dstream())

    def test_as_many_as_take_every_core_that_there_is(self) -> None:
        stream = counting(autoscale=None, executors=1)
        world = World()
        spread_over(world, stream, (2,))
        said = self.refused(world, 4, stream)
        assert said.startswith(
            "receivers = 4: must be at most 3; so many would take every core of 1"
        )
        assert said.endswith("; scale it to 2 or more first (sparkscale scale)")

    def test_another_driver_than_was_meant(self, world: World) -> None:
        with pytest.raises(Overtaken):
            carry_out(world, 3, epoch=9, decided=True)
        with pytest.raises(StaleEpoch):
            carry_out(world, 3, epoch=9)
        world.end("clicks")
        with pytest.raises(Overtaken):
            carry_out(world, 3, epoch=1, decided=True)

    def test_a_stop_that_was_asked_for_since_counts_more(self, world: World) -> None:
        now = record(world)
        world.records["clicks"] = replace(now, desired="stopped", asked={"stop": 5000.0})
        asked = Requester("set_receivers run 1", "set_receivers", 1000.0)
        with pytest.raises(Overtaken, match="stop was asked for 4000 s after this"):
            carry_out(world, 3, requester=asked)
