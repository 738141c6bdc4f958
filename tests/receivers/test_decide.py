"""What a tick decides of receivers, and the runs that carry it out; the executors come first."""

import time
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.clusters.records.store import Limited, Record
from dagster_sparkscale.declare.decisions import Hold, Move, MoveReceivers, ReceiversTo
from dagster_sparkscale.driver.spark.features import MOVES
from dagster_sparkscale.names import STORY
from dagster_sparkscale.observe.status import Limit, Receiver, Status
from dagster_sparkscale.receivers.count import CAPACITY, CHANGED, KEPT
from dagster_sparkscale.watch.memory import Memory
from dagster_sparkscale.watch.sighting import Sighting
from tests.fakes import QUERY, altered, batch, driver, dstream, status
from tests.in_memory.driver import arrive
from tests.receivers.recounting import starts_its_receivers
from tests.receivers.streams import counting, on, receiving, spread_over
from tests.watch.assessing import assess
from tests.watch.deployment import Deployment, Tick, failure_of


def seen(
    counts: tuple[int, ...], seconds: float = 5.0, records: int = 100, **fields: Any
) -> Status:
    """What a driver tells that has run for long: receivers on executors, and batches that took so
    long and had so many records, in a window of a minute."""
    executors, receivers = on(counts)
    plain = {
        "executors": executors,
        "receivers": receivers,
        "registered": len(counts),
        "requested": len(counts),
        "batches": tuple(
            batch(seconds, ago=10.0 * n + 5, records=records // 6, query=QUERY) for n in range(6)
        ),
    }
    return status(**{**plain, **fields})


def decision(
    stream: Any,
    told: Status,
    capacity: float | None = None,
    receivers: int | None = None,
    **of_driver: Any,
) -> Any:
    learned = {} if capacity is None else {CAPACITY: capacity}
    found = Sighting(
        "clicks", driver(record=replace(Record.new("x"), receivers=receivers), **of_driver), told
    )
    return assess(stream, found, now=2000.0, learned=learned).decision


class TestOrder:
    def test_the_executors_first(self) -> None:
        found = decision(receiving(), seen((3, 2, 0), seconds=25))
        assert str(found) == "scale to 6"

    def test_then_how_many_receivers(self) -> None:
        found = decision(counting(capacity=1.0), seen((2, 0), records=600))
        assert isinstance(found, ReceiversTo) and found.receivers == 3

    def test_then_where_they_are(self) -> None:
        found = decision(receiving(), seen((3, 2, 0)))
        assert found == MoveReceivers(
            (Move(2, "0", "2"),),
            "receivers of executors [3, 2, 0]: one has at least one more than the average, 1.67",
        )
        assert str(found) == "move receiver 2 from executor 0 to 2"

    def test_also_without_a_policy_of_executors(self) -> None:
        stream = receiving(autoscale=None, executors=3)
        assert isinstance(decision(stream, seen((3, 2, 0))), MoveReceivers)

    def test_and_else_what_held_the_executors_holds(self) -> None:
        found = decision(receiving(), seen((2, 2, 1)))
        assert isinstance(found, Hold)
        assert found.reason == "R 0.50 of query 'counts' is between 0.3 and 0.9"


class TestRebalancing:
    @pytest.mark.parametrize(
        "told",
        [{"lacks": (MOVES.id,), "missing": ("worded anew",)}, {"missing": ("moving receivers",)}],
        ids=["by its id", "by a driver of a release without ids"],
    )
    def test_a_spark_that_can_not_move_them_is_not_asked_every_minute(
        self, told: dict[str, Any]
    ) -> None:
        found = decision(receiving(), seen((3, 2, 0), **told))
        assert isinstance(found, Hold)
        assert found.reason.endswith("; receivers: its Spark lacks what moves them")

    def test_only_where_it_is_declared(self) -> None:
        stream = receiving(policy={"rebalance": False})
        assert "receivers:" not in decision(stream, seen((3, 2, 0))).reason
        policy = RatioPolicy(min_executors=2, max_executors=8)
        plain = dstream(receivers=5, executor_cores=4, autoscale=policy)
        assert isinstance(decision(plain, seen((3, 2, 0))), Hold)

    def test_no_core_for_one_that_should_move_is_said(self) -> None:
        told = seen((3, 2, 0))
        *others, last = told.executors
        full = altered(told, executors=(*others, replace(last, cores=0)))
        found = decision(receiving(), full)
        assert isinstance(found, Hold)
        assert "; receivers: receivers of executors [3, 2, 0] are not balanced" in found.reason
        assert found.reason.endswith("has a core free for another")

    def test_what_is_not_settled_is_waited_for_and_it_is_said(self) -> None:
        told = seen((3, 2, 0))
        first, *others = told.receivers or ()
        moving = replace(told, receivers=(replace(first, moving_to="2", executor=None), *others))
        found = decision(receiving(), moving)
        assert isinstance(found, Hold)
        assert found.reason.endswith("; receivers: receiver 0 is on its way to executor 2")

    def test_a_window_after_a_start_they_are_moved(self) -> None:
        told = seen((3, 2, 0), started_at=1940.0)
        assert isinstance(decision(receiving(), told), MoveReceivers)

    def test_right_after_a_start_they_are_left_where_they_come(self) -> None:
        told = seen((3, 2, 0), started_at=1950.0)
        assert isinstance(decision(receiving(), told), Hold)

    def test_at_the_maximum_of_executors_it_goes_on_and_the_check_says_so(self) -> None:
        stream = receiving(autoscale=RatioPolicy(max_executors=3))
        found = assess(
            stream, Sighting("clicks", driver(), seen((3, 2, 0), seconds=25)), now=2000.0
        )
        assert isinstance(found.decision, MoveReceivers)
        (check,) = (
            each for health, each in found.health.items() if health.value == "below_maximum"
        )
        assert check.passed is False


class TestCounting:
    def test_the_dead_band_is_told_beside_what_held(self) -> None:
        found = decision(counting(capacity=1.0), seen((1, 1), records=84))
        assert isinstance(found, Hold)
        assert found.reason == (
            "R 0.50 of query 'counts' is between 0.3 and 0.9; receivers: 1.4 records/s are 0.70 "
            "of what 2 receivers can take (1 each), below 0.9, and fewer would be above 0.6"
        )

    def test_a_stream_whose_batches_do_not_fit_takes_no_less_for_that(self) -> None:
        """Two batches of a minute's six are completed: what came is in each of them, and a third
        of it is what is processed."""
        told = seen((1, 1, 1), seconds=30, records=1200)
        late = replace(told, batches=told.batches[:2])
        stream = counting(3, capacity=10.0, autoscale=RatioPolicy(max_executors=3))
        found = decision(stream, late)
        assert isinstance(found, Hold)
        assert found.reason.endswith(
            "receivers: 20 records/s are 0.67 of what 3 receivers can take (10 each), below 0.9, "
            "and fewer would be above 0.6"
        )

    def test_what_is_declared_counts_more_than_what_was_learned(self) -> None:
        told = seen((1, 1), records=600)
        assert isinstance(decision(counting(capacity=7.0), told, capacity=1.0), Hold)
        assert isinstance(decision(counting(capacity=None), told, capacity=1.0), ReceiversTo)

    def test_the_number_that_was_asked_for_is_what_there_should_be(self) -> None:
        told = seen((1, 1), records=600)
        found = decision(counting(capacity=1.0), told, receivers=3)
        assert "2 receivers run, and 3 were to be started" in found.reason
        assert isinstance(decision(counting(capacity=1.0), told, receivers=2), ReceiversTo)

    def test_more_than_the_executors_that_there_can_be_hold_are_not_decided(self) -> None:
        stream = counting(1, capacity=1.0, autoscale=None, executors=1, executor_cores=2)
        told = seen((1,), records=6000)
        assert decision(stream, told).reason.endswith(
            "but 1 are as many as leave a core for batches"
        )
        assert isinstance(decision(stream, altered(told, requested=2)), ReceiversTo)

    def test_what_executors_there_can_be_is_what_is_declared(self) -> None:
        """Not how many are requested now: the autoscaler adds some."""
        policy = RatioPolicy(max_executors=2)
        stream = counting(1, capacity=1.0, executor_cores=2, autoscale=policy, count={"maximum": 3})
        assert isinstance(decision(stream, seen((1,), records=6000)), ReceiversTo)
        unbounded = counting(1, capacity=1.0, executor_cores=2, autoscale=RatioPolicy())
        assert isinstance(decision(unbounded, seen((1,), records=6000)), ReceiversTo)

    def test_a_change_that_failed_is_not_tried_again_at_once(self) -> None:
        told = seen((1, 1), records=600)
        assert "is tried again" in decision(counting(capacity=1.0), told, cause=KEPT).reason

    def test_receivers_that_are_not_told_of_are_no_number(self) -> None:
        told = seen((1, 1), records=600, receivers=None)
        found = decision(counting(capacity=1.0), told)
        assert found.reason.endswith(
            "receivers: the number of its receivers is not known; it can't be told where its "
            "receivers run"
        )

    def test_executors_are_as_many_as_those_receivers_need(self) -> None:
        """Six on executors of four cores: no fewer than two, whatever R is."""
        told = seen((3, 3), seconds=1, records=480)
        found = decision(counting(capacity=1.0), told, receivers=6)
        assert "2 is the minimum" in found.reason


class TestRuns:
    @pytest.fixture
    def deployed(self) -> Deployment:
        it = Deployment([receiving()])
        spread_over(it.world, receiving(), (3, 2, 0), batch_seconds=5.0)
        it.world.on_look = arrive
        return it

    def story(self, result: Any) -> tuple[str, dict[str, Any]]:
        (event,) = result.get_asset_observation_events()
        observation = event.asset_observation_data.asset_observation
        return observation.description or "", dict(observation.metadata[STORY].value)

    def test_the_sensor_asks_for_a_run_that_balances(self, deployed: Deployment) -> None:
        tick = deployed.tick()
        [request] = tick.requests
        assert request.job_name == "rebalance_receivers"
        assert tick.seen().decision == "move receiver 2 from executor 0 to 2"
        line, story = self.story(deployed.run(request))
        assert line == (
            "[3, 2, 0] -> [2, 2, 1]: receiver 2: executor 0 -> executor 2 (move, away for 1.50 s)"
        )
        assert (story["ending"], story["receivers_before"], story["receivers_after"]) == (
            *("moved", 5, 5),
        )
        assert story["moves"] == [
            {
                "receiver": 2,
                "cause": "move",
                "from_executor": "0",
                "to_executor": "2",
                "sent_to": "2",
                "away_seconds": 1.5,
            }
        ]
        deployed.cursor = None
        assert deployed.tick().requests == [], "balanced"

    def test_what_was_balanced_meanwhile_is_nothing_to_do(self, deployed: Deployment) -> None:
        [request] = deployed.tick().requests
        deployed.run(request)
        line, story = self.story(deployed.run(request))
        assert line == "nothing to do: receivers of executors [2, 2, 1]"
        deployed.world.streams["clicks"].receivers = (Receiver(0),)
        line, story = self.story(deployed.run(request))
        assert line == "nothing to do: receiver 0 runs nowhere at the moment"
        assert story["ending"] == "overtaken"

    def test_what_no_core_is_free_for_says_so(self, deployed: Deployment) -> None:
        [request] = deployed.tick().requests
        kept = deployed.world.streams["clicks"]
        kept.executors = tuple(replace(each, cores=0) for each in kept.executors)
        line, story = self.story(deployed.run(request))
        assert line.startswith("nothing to do: receivers of executors [3, 2, 0] are not balanced")
        assert story["notes"] == line.removeprefix("nothing to do: ")

    def test_one_is_moved_by_hand(self, deployed: Deployment) -> None:
        result = deployed.by_hand("rebalance_receivers", stream="clicks", receiver=0, executor="1")
        assert result.success
        assert self.story(result)[0].startswith("[3, 2, 0] -> [3, 2, 0]: receiver 0: executor 0")

    def test_a_failure_tells_its_story_too(self, deployed: Deployment) -> None:
        deployed.world.on_look = lambda kept: None
        result = deployed.by_hand("rebalance_receivers", stream="clicks", wait_seconds=0.0)
        said = failure_of(result)
        assert said == (
            "[3, 2, 0] -> [2, 2, 0]: receiver 2: executor 0 -> runs nowhere (move); 4 of 5 "
            "receivers run; receiver 2 was sent to executor 2, and runs nowhere still"
        )
        found = deployed.instance.fetch_observations(dg.AssetKey("clicks"), limit=1).records[0]
        observation = found.asset_observation
        assert observation is not None and observation.description == said
        assert observation.metadata[STORY].value["ending"] == "not moved"

    def test_the_sensor_asks_for_another_number(self) -> None:
        stream = counting(capacity=1.0)
        it = Deployment([stream])
        it.world.on_submit = lambda kept: (
            starts_its_receivers(kept),
            setattr(kept, "drained", True),
        )[0]
        spread_over(it.world, stream, (1, 1), batch_seconds=5.0, records=600)
        tick = it.tick()
        [request] = tick.requests
        assert request.job_name == "set_receivers"
        assert tick.seen().decision == "set the receivers to 3"
        line, story = self.story(it.run(request))
        assert line.startswith("2 -> 3 receivers: changed, driver 2, all run ")
        assert (story["receivers_after"], story["generation"], story["driver_before_ended"]) == (
            *(3, 1, "drained"),
        )
        assert [each.cause for each in it.world.records["clicks"].history] == ["manual", CHANGED]
        again = self.story(it.by_hand("set_receivers", stream="clicks", receivers=3))
        assert again[0] == "nothing to do: 3 receivers are set already"
        it.cursor = None
        assert it.tick().requests == [], "it has just started"

    def test_what_one_can_take_is_learned_and_remembered(self) -> None:
        """At limits of their own they show it; a minute later it is still known."""
        stream = counting(capacity=None)
        it = Deployment([stream])
        kept = spread_over(it.world, stream, (1, 1))
        full = batch(5.0, now=time.time(), records=600, limit=600.0)
        kept.limits = tuple(Limit(f"receiver-{n}", QUERY, 5.0, "max_rate") for n in (0, 1))
        kept.batches = (full,)
        [request] = it.tick().requests
        assert request.job_name == "set_receivers"
        it.world.streams["clicks"].batches = (replace(full, records=400, limit=None),)
        kept.limits = ()
        assert "40 records/s are 0.67 of what 2 receivers can take (30 each)" in (
            tick_again(it).decided()
        )

    def test_a_person_s_limit_is_not_answered_by_more_receivers(self) -> None:
        """Somebody calms the stream in an incident: it stays calm, and what is learned in it is
        nothing."""
        it = Deployment([counting(capacity=None)])
        kept = spread_over(it.world, it.streams[0], (1, 1))
        kept.batches = (batch(5.0, now=time.time(), records=1000, limit=1000.0),)
        kept.limits = tuple(Limit(f"receiver-{n}", QUERY, 50.0, "set") for n in (0, 1))
        it.world.records["clicks"] = replace(
            it.world.records["clicks"],
            rates={"*": {"maxRate": 50}},
            limited_at=1.7e9,
            limited={"*": Limited("set_limits run 1", 1.7e9)},
        )
        for tick in (it.tick(), tick_again(it)):
            assert tick.requests == []
            assert (
                "its input stands at its limit, and that is set (by set_limits run 1 since "
                "2023-11-14 22:13 UTC, until it is taken away"
            ) in tick.decided()
        assert Memory.load(it.cursor).of("clicks").learned == {}


def tick_again(it: Deployment) -> Tick:
    """A tick in which every policy is due, with what is remembered otherwise."""
    memory = Memory.load(it.cursor)
    for each in memory.streams.values():
        each.decided_at = 0.0
    it.cursor = memory.dump(keep=memory.streams)
    return it.tick()
