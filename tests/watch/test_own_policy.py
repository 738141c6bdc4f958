"""A policy of a user's own: one class, of which the library knows nothing."""

from typing import Any

import pytest

from dagster_sparkscale import AutoscalePolicy, Bounds, Evaluation, Hold, ScaleTo
from dagster_sparkscale.observe.status import Query
from tests.fakes import QUERY, structured
from tests.watch.deployment import STREAM, Deployment, overload


class LagPolicy(AutoscalePolicy):
    """One executor for each minute of lag."""

    def decide(self, bounds: Bounds, seen: Evaluation) -> Hold | ScaleTo:
        if seen.lag is None:
            return Hold("no source tells how far behind the stream is")
        return ScaleTo(bounds.clamp(int(seen.lag // 60)), f"{seen.lag:.0f} s behind")


class Odd(AutoscalePolicy):
    """One whose author has made a mistake."""

    returns: Any

    def decide(self, bounds: Bounds, seen: Evaluation) -> Hold | ScaleTo:
        return self.returns() if callable(self.returns) else self.returns


def late(seconds: int) -> tuple[Query, ...]:
    return (Query(QUERY, active=True, behind_ms=seconds * 1000),)


def test_what_it_decides_is_carried_out():
    deployed = Deployment([structured(autoscale=LagPolicy(max_executors=9))])
    kept = overload(deployed, deployed.streams[0], queries=late(300))
    (request,) = deployed.tick().requests
    assert request.run_config["ops"]["rescale"]["config"]["reason"] == "300 s behind"
    assert deployed.run(request).success
    assert kept.requested == 5


def test_what_it_holds_for_is_told():
    deployed = Deployment([structured(autoscale=LagPolicy())])
    overload(deployed, deployed.streams[0])
    observed = deployed.tick().observed()
    assert observed["decision"] == "hold"
    assert observed["reason"] == "no source tells how far behind the stream is"


def test_what_every_policy_has_holds_for_it_as_well():
    deployed = Deployment([structured(autoscale=LagPolicy(max_lag="1 min", max_executors=3))])
    overload(deployed, deployed.streams[0], queries=late(300))
    tick = deployed.tick()
    assert tick.checks()["lag_within_limit"] is False
    assert tick.requests[0].run_config["ops"]["rescale"]["config"]["target"] == 3


@pytest.mark.parametrize(
    ("returns", "why"),
    [
        (lambda: 1 / 0, "Odd could not decide: ZeroDivisionError: division by zero"),
        (None, "Odd could not decide: TypeError: it returned None; must be Hold or ScaleTo"),
        (7, "Odd could not decide: TypeError: it returned 7; must be Hold or ScaleTo"),
    ],
)
def test_one_that_fails_says_so_and_keeps_no_other_stream_from_being_scaled(returns, why):
    deployed = Deployment([structured("odd", autoscale=Odd(returns=returns)), STREAM])
    for stream in deployed.streams:
        overload(deployed, stream)
    tick = deployed.tick()
    assert tick.observed("odd")["reason"] == why
    assert [request.tags["dagster-sparkscale/stream"] for request in tick.requests] == ["clicks"]
