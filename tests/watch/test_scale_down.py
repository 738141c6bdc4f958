"""Executors that are not removed for a while, in a whole deployment."""

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.watch.memory import Memory
from tests.fakes import structured
from tests.watch.deployment import Deployment, grown

PATIENT = structured(autoscale=RatioPolicy(max_executors=10, scale_down_window="10 min"))


def idle(deployed: Deployment, **fields):
    """A stream that needs fewer executors than it has."""
    return grown(deployed.world.run(PATIENT, executors=4, batch_seconds=1.0, **fields))


def test_they_stay_for_the_window_across_a_restart_of_dagster(clock):
    deployed = Deployment([PATIENT])
    idle(deployed)
    for tick in deployed.passing(6, clock):
        assert not tick.requests
        assert "hold: would go to 3, and 4 were needed at " in tick.decided()
    again = Deployment([PATIENT], deployed.world, deployed.instance, cursor=deployed.cursor)
    assert [bool(tick.requests) for tick in again.passing(5, clock)] == [False] * 4 + [True]
    (request,) = again.tick().requests
    assert request.run_config["ops"]["rescale"]["config"]["target"] == 3


def test_a_load_that_rises_opens_the_window_anew(clock):
    deployed = Deployment([PATIENT])
    kept = idle(deployed)
    deployed.passing(9, clock)
    kept.batch_seconds = 7.0  # R 0.70: no more are needed, and no fewer
    deployed.passing(1, clock)
    kept.batch_seconds = 1.0
    assert not any(tick.requests for tick in deployed.passing(9, clock))
    assert deployed.passing(1, clock)[0].requests


def test_a_new_driver_and_a_lost_cursor_begin_anew(clock):
    deployed = Deployment([PATIENT])
    idle(deployed)
    deployed.passing(9, clock)
    deployed.world.end("clicks")
    grown(deployed.world.run(PATIENT, executors=4, batch_seconds=1.0))
    assert not any(tick.requests for tick in deployed.passing(5, clock))
    deployed.cursor = None
    assert not any(tick.requests for tick in deployed.passing(10, clock))
    assert deployed.passing(1, clock)[0].requests


def test_what_is_kept_of_it_is_small(clock):
    deployed = Deployment([PATIENT])
    idle(deployed)
    deployed.passing(9, clock)
    assert [size for _, size in Memory.load(deployed.cursor).of("clicks").asked.sizes] == [4, 3]
