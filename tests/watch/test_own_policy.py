"""A policy of a user's own: one class, of which the library knows nothing."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dagster_sparkscale import AutoscalePolicy, Bounds, Evaluation, Hold, ScaleTo
from dagster_sparkscale.observe.status import Query
from tests.fakes import QUERY, structured
from tests.watch.deployment import STREAM, Deployment, overload


def documented(title: str) -> Any:
    """What the first block of Python defines under that heading of the docs."""
    page = (Path(__file__).parents[2] / "docs" / "declaring.md").read_text()
    block = page.split(f"## {title}\n", 1)[1].split("```python\n", 1)[1].split("```", 1)[0]
    defined: dict[str, Any] = {"__name__": "docs"}
    exec(block, defined)
    return SimpleNamespace(**defined)


LagPolicy = documented("A policy of your own").LagPolicy


class Odd(AutoscalePolicy):
    """One whose author has made a mistake."""

    returns: Any

    def decide(self, bounds: Bounds, seen: Evaluation) -> Hold | ScaleTo:
        return self.returns() if callable(self.returns) else self.returns


class Sneaky(ScaleTo):
    operation = "stop"


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
    assert deployed.tick().decided() == "hold: no source tells how far behind the stream is"


def test_what_every_policy_has_holds_for_it_as_well():
    deployed = Deployment([structured(autoscale=LagPolicy(max_lag="1 min", max_executors=3))])
    overload(deployed, deployed.streams[0], queries=late(300))
    tick = deployed.tick()
    assert tick.checks()["lag_within_limit"] is False
    assert tick.requests[0].run_config["ops"]["rescale"]["config"]["target"] == 3


@pytest.mark.parametrize(
    ("returns", "why"),
    [
        (
            lambda: 1 / 0,
            "Odd could not decide: ZeroDivisionError: division by zero "
            "(test_own_policy.py, line 0)",
        ),
        (
            lambda: sys.exit("no licence"),
            "Odd could not decide: SystemExit: no licence (test_own_policy.py, line 0)",
        ),
        (None, "Odd could not decide: it returned None; must be Hold or ScaleTo"),
        (7, "Odd could not decide: it returned 7; must be Hold or ScaleTo"),
        (
            ScaleTo(2.5, "x"),
            "Odd could not decide: target = 2.5; must be a whole number",
        ),
        (
            ScaleTo(True, "x"),
            "Odd could not decide: target = True; must be a whole number",
        ),
        (ScaleTo(3, None), "Odd could not decide: reason = None; must be text"),
        (Hold(3), "Odd could not decide: reason = 3; must be text"),
        (
            Sneaky(3, "x"),
            "Odd could not decide: it returned Sneaky(target=3, reason='x'); must be Hold or "
            "ScaleTo",
        ),
        (
            ScaleTo(0, "x"),
            "Odd could not decide: target = 0; must be within the bounds, as bounds.aim() makes it",
        ),
    ],
)
def test_one_that_fails_says_so_and_keeps_no_other_stream_from_being_scaled(returns, why):
    deployed = Deployment([structured("odd", autoscale=Odd(returns=returns)), STREAM])
    for stream in deployed.streams:
        overload(deployed, stream)
    tick = deployed.tick()
    assert f"hold: {why}" in re.sub("line [0-9]+", "line 0", tick.decided("odd"))
    assert tick.checks("odd")["below_maximum"] is False
    assert [request.tags["dagster-sparkscale/stream"] for request in tick.requests] == ["clicks"]
