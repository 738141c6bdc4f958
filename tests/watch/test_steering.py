"""A stream that is steered, in a whole deployment: what the sensor asks for, says and shows."""

from dataclasses import replace

import dagster as dg
import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.capability import Capabilities, Capability
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.records.steering import EFFECT, Steered
from dagster_sparkscale.declare.decisions import Hold, Move, MoveReceivers
from dagster_sparkscale.lifecycle.recovery import Restart
from dagster_sparkscale.names import CLUSTER_TAG, OPERATION_TAG, STORY, STREAM_TAG
from dagster_sparkscale.watch.assess import assess
from dagster_sparkscale.watch.memory import Memory
from dagster_sparkscale.watch.sighting import look
from tests.fakes import structured
from tests.watch.deployment import STREAM, Deployment, failure_of, overload

MOVES = MoveReceivers((Move(0, "1", "2"),), "executor 1 has two")


def steer(deployed: Deployment, action: str, **config: object) -> dg.ExecuteInProcessResult:
    done = deployed.by_hand("steer", stream="clicks", action=action, reason="load test", **config)
    assert done.success
    return done


def story(done: dg.ExecuteInProcessResult) -> dict[str, object]:
    (event,) = done.get_asset_observation_events()
    told: dict[str, object] = event.asset_observation_data.asset_observation.metadata[STORY].value
    return told


def over(deployed: Deployment, kind: str) -> None:
    """The time of the entry is over."""
    record = deployed.world.records["clicks"]
    ended = {**record.steering, kind: replace(record.steering[kind], until=1.0)}
    deployed.world.records["clicks"] = replace(record, steering=ended)


class TestPin:
    def test_it_holds_what_the_policy_would_change(self, deployed: Deployment) -> None:
        overload(deployed)
        steer(deployed, "pin", size=2, lasts="2h")
        tick = deployed.tick()
        assert not tick.requests
        said = tick.decided()
        assert said.startswith("hold: pinned to 2 by steer run ")
        assert " UTC (load test), the policy would go to 5: 2 registered -> 5: R 2.50" in said

    def test_it_is_asked_for_once_and_kept(self, deployed: Deployment) -> None:
        kept = overload(deployed)
        steer(deployed, "pin", size=4)
        (request,) = deployed.tick().requests
        assert request.tags[OPERATION_TAG] == "rescale"
        assert deployed.run(request).success
        assert (kept.requested, kept.registered) == (4, 4)
        assert deployed.tick().decided().startswith("hold: pinned to 4 by steer run ")
        assert list(deployed.world.records["clicks"].steering) == ["pin"]

    def test_it_waits_for_no_interval(self) -> None:
        deployed = Deployment([structured(autoscale=RatioPolicy(interval=3600))])
        deployed.world.run(deployed.streams[0])
        deployed.tick()
        steer(deployed, "pin", size=4)
        (request,) = deployed.tick().requests
        assert request.run_config["ops"]["rescale"]["config"]["target"] == 4

    def test_what_is_no_pin_waits_for_its_interval_beside_one(self, deployed: Deployment) -> None:
        deployed.world.run(STREAM)
        steer(deployed, "pin", size=2)
        moves = Capability("receivers", decide=lambda situation, held: MOVES)
        found, of = look(deployed.world.cluster, STREAM, timeout=1.0), Capabilities(moves)
        assert assess(STREAM, found, capabilities=of, now=0.0).decision is MOVES
        held = assess(STREAM, found, capabilities=of, now=0.0, due=False).decision
        assert held.reason.startswith("not due yet; otherwise: move receiver 0 ")

    def test_beyond_the_maximum_and_up_to_the_ceiling_it_is_carried_out(self) -> None:
        policy = RatioPolicy(min_executors=2, max_executors=3, ceiling=9)
        deployed = Deployment([structured(autoscale=policy)])
        kept = overload(deployed, deployed.streams[0])
        steer(deployed, "pin", size=9)
        (request,) = deployed.tick().requests
        assert deployed.run(request).success
        assert kept.registered == 9
        refused = deployed.by_hand("steer", stream="clicks", action="pin", size=10)
        assert "size = 10: must be at most 9" in failure_of(refused)

    def test_once_its_time_is_over_or_it_is_resumed_the_policy_goes_on(
        self, deployed: Deployment
    ) -> None:
        overload(deployed)
        steer(deployed, "pin", size=2, lasts="2h")
        over(deployed, "pin")
        assert deployed.tick().decided().startswith("scale to 5: ")
        steer(deployed, "pin", size=2)
        steer(deployed, "resume")
        deployed.cursor = None  # it is due again
        assert deployed.tick().decided().startswith("scale to 5: ")

    def test_it_outlives_the_driver(self, deployed: Deployment) -> None:
        overload(deployed)
        steer(deployed, "pin", size=2)
        deployed.world.end("clicks")
        overload(deployed)
        tick = deployed.tick()
        assert tick.seen().epoch == 2
        assert tick.decided().startswith("hold: pinned to 2 by steer run ")

    def test_a_stream_that_never_ran_can_be_pinned(self, deployed: Deployment) -> None:
        steer(deployed, "pin", size=2)
        assert deployed.tick().decided().startswith("hold: not started: ")
        overload(deployed)
        assert deployed.tick().decided().startswith("hold: pinned to 2 by steer run ")


class TestARescaleByHand:
    def test_it_pins_its_number_and_its_report_says_so(self, deployed: Deployment) -> None:
        overload(deployed)
        done = deployed.by_hand("rescale", stream="clicks", target=3, reason="load test")
        said = f"pinned to 3 by rescale run {done.run_id[:8]} until "
        assert said in str(story(done)["steering"])
        (event,) = done.get_asset_observation_events()
        line = event.asset_observation_data.asset_observation.description
        assert said in line and "; `sparkscale resume clicks pin` ends it" in line
        assert deployed.tick().decided().startswith(f"hold: {said}")

    def test_a_policy_without_such_a_pin_decides_anew(self) -> None:
        deployed = Deployment([structured(autoscale=RatioPolicy(hand_pin=0))])
        overload(deployed, deployed.streams[0])
        done = deployed.by_hand("rescale", stream="clicks", target=3)
        assert "steering" not in story(done)
        assert deployed.tick().decided().startswith("scale to ")

    def test_a_pin_that_lasts_longer_gets_the_new_number(self, deployed: Deployment) -> None:
        overload(deployed)
        steer(deployed, "pin", size=2)
        deployed.by_hand("rescale", stream="clicks", target=3)
        pin = deployed.world.records["clicks"].steering["pin"]
        assert (pin.size, pin.until) == (3, None)

    def test_a_paused_stream_stays_paused(self, deployed: Deployment) -> None:
        overload(deployed)
        steer(deployed, "pause")
        done = deployed.by_hand("rescale", stream="clicks", target=3)
        assert str(story(done)["steering"]).startswith("paused by steer run ")
        assert deployed.tick().decided().startswith("hold: paused by steer run ")

    def test_one_of_the_autoscaler_pins_nothing(self, deployed: Deployment) -> None:
        overload(deployed)
        (request,) = deployed.tick().requests
        assert deployed.run(request).success
        assert deployed.world.records["clicks"].steering == {}


class TestFreeze:
    def test_a_driver_that_failed_is_started_again_all_the_same(self, deployed: Deployment) -> None:
        deployed.world.run(STREAM)
        steer(deployed, "freeze")
        deployed.world.end("clicks", ended_at=1.0)
        (request,) = deployed.tick().requests
        assert request.tags[OPERATION_TAG] == Restart.operation

    def test_nothing_else_is_done(self, deployed: Deployment) -> None:
        overload(deployed)
        steer(deployed, "freeze")
        steer(deployed, "pin", size=4)
        said = deployed.tick().decided()
        assert said.startswith("hold: frozen by steer run ")
        assert "the policy would go to 5" in said


@pytest.mark.parametrize(
    ("action", "config", "goes_on"),
    [
        ("freeze", {}, False),
        ("advise", {}, False),
        ("pause", {}, True),
        ("pin", {"size": 2}, True),
        ("bounds", {"maximum": 2}, True),
    ],
)
def test_receivers_go_on_but_where_nothing_is_to_change(
    deployed: Deployment, action: str, config: dict[str, int], goes_on: bool
) -> None:
    deployed.world.run(STREAM)
    steer(deployed, action, **config)
    moves = Capability("receivers", decide=lambda situation, held: MOVES)
    found = look(deployed.world.cluster, STREAM, timeout=1.0)
    decision = assess(STREAM, found, capabilities=Capabilities(moves), now=0.0).decision
    assert (decision is MOVES) == goes_on
    assert goes_on or (
        isinstance(decision, Hold) and "otherwise: move receiver 0" in decision.reason
    )


def test_the_launchpad_names_the_actions_that_there_are(deployed: Deployment) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError) as refused:
        deployed.by_hand("steer", stream="clicks", action="pinn")
    assert "not in enum type [freeze, pin, pause, advise, bounds, resume] got pinn" in str(
        refused.value
    )


class TestBounds:
    def test_a_stream_without_a_policy_has_none(self) -> None:
        deployed = Deployment([structured(executors=2)])
        refused = deployed.by_hand("steer", stream="clicks", action="bounds", maximum=3)
        assert "bounds: 'clicks' declares no autoscale" in failure_of(refused)

    def test_they_stand_for_the_declared_ones(self, deployed: Deployment) -> None:
        overload(deployed)
        steer(deployed, "bounds", maximum=3)
        tick = deployed.tick()
        assert tick.decided().startswith("scale to 3: ")
        (request,) = tick.requests
        assert deployed.run(request).success
        refused = deployed.by_hand("rescale", stream="clicks", target=4)
        assert "has a maximum of 3; bounds of at most 3 executors set by steer run" in failure_of(
            refused
        )

    def test_those_of_the_autoscaler_can_be_resumed(self, deployed: Deployment) -> None:
        overload(deployed)
        steer(deployed, "bounds", minimum=1)
        record = deployed.world.records["clicks"]
        ours = Steered("autoscaler", "more did not help", 1.0, maximum=2)
        deployed.world.records["clicks"] = replace(
            record, steering={**record.steering, EFFECT: ours}
        )
        assert deployed.tick().decided().startswith("hold: ")
        steer(deployed, "resume", kinds=["bounds"])
        deployed.cursor = None  # it is due again
        assert deployed.tick().decided().startswith("scale to 5: ")


class TestWhatIsShown:
    def test_overview_and_its_event_say_what_was_set_and_that_it_ended(
        self, deployed: Deployment, clock: list[float]
    ) -> None:
        deployed.world.run(STREAM)
        deployed.passing(4, clock)
        steer(deployed, "pause")
        (told,) = deployed.passing(1, clock)[0].told()
        assert isinstance(told, dg.AssetMaterialization)
        assert "steer: paused until it is resumed (" in str(told.description)
        assert "paused by steer run" in told.metadata["steering"].value
        steer(deployed, "resume")
        deployed.passing(4, clock)
        shown = deployed.instance.get_latest_materialization_event(dg.AssetKey("clicks"))
        assert shown is not None and shown.asset_materialization is not None
        assert "steer: ended: paused (" in shown.asset_materialization.description
        assert "steering" not in shown.asset_materialization.metadata

    def test_nothing_has_ended_where_it_can_not_be_looked_at(
        self, deployed: Deployment, clock: list[float]
    ) -> None:
        deployed.world.run(STREAM)
        steer(deployed, "pause")
        deployed.passing(4, clock)

        def fails(stream: str) -> None:
            raise ClusterError("its record can't be read")

        deployed.world.on_find = fails
        deployed.passing(2, clock)
        news = Memory.load(deployed.cursor).of("clicks").told.news
        assert news["steering"].startswith("paused by steer run ")

    def test_the_fleet_says_it_of_a_stream_that_is_well(self, deployed: Deployment) -> None:
        deployed.world.run(STREAM)
        steer(deployed, "freeze")
        fleet = deployed.tick().fleet
        assert fleet is not None and "frozen by steer run" in str(fleet)

    def test_a_run_that_a_person_asks_for_is_carried_out_and_says_what_stands(
        self, deployed: Deployment
    ) -> None:
        overload(deployed)
        steer(deployed, "freeze")
        done = deployed.by_hand("restart", stream="clicks")
        assert done.success
        assert str(story(done)["steering"]).startswith("frozen by steer run ")


class TestBesideOperations:
    def test_it_does_not_wait_for_the_lease(self, deployed: Deployment) -> None:
        deployed.world.run(STREAM)
        with deployed.world.cluster.lease("clicks", "restart run 1a2b3c4d") as lease:
            steer(deployed, "pin", size=2)
            lease.write(replace(lease.record, executors=4))
        record = deployed.world.records["clicks"]
        assert (record.steering["pin"].size, record.executors) == (2, 4)

    def test_one_in_the_queue_keeps_no_decision_from_its_run(self, deployed: Deployment) -> None:
        overload(deployed)
        job = deployed.defs.resolve_job_def("steer")
        config = {"stream": "clicks", "action": "freeze"}
        deployed.instance.create_run_for_job(
            job,
            run_config={"ops": {"steer": {"config": config}}},
            tags={STREAM_TAG: "clicks", CLUSTER_TAG: "spark_cluster", OPERATION_TAG: "steer"},
        )
        assert deployed.tick().decided().startswith("scale to 5: ")


class TestARunThatWaits:
    """A run was asked for, and the stream was steered before it began."""

    @pytest.mark.parametrize(
        ("action", "config", "done"),
        [
            ("freeze", {}, False),
            ("pause", {}, False),
            ("advise", {}, False),
            ("pin", {"size": 2}, False),
            ("pin", {"size": 6}, True),
            ("bounds", {"maximum": 6}, True),
        ],
    )
    def test_it_does_what_the_stream_is_steered_to_at_most(
        self, deployed: Deployment, action: str, config: dict[str, int], done: bool
    ) -> None:
        kept = overload(deployed)
        (request,) = deployed.tick().requests
        steer(deployed, action, **config)
        result = deployed.run(request)
        assert result.success
        assert kept.requested == (5 if done else 2)
        assert done or "since it was decided, the stream is " in str(story(result)["notes"])

    def test_a_recovery_begins_though_the_stream_was_frozen(self, deployed: Deployment) -> None:
        deployed.world.run(STREAM)
        deployed.world.end("clicks", ended_at=1.0)
        (request,) = deployed.tick().requests
        steer(deployed, "freeze")
        assert deployed.run(request).success
        assert deployed.world.streams["clicks"].driver.epoch == 2
