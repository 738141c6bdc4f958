"""What is odd about one stream costs neither the others nor the tick anything."""

from dagster_sparkscale.observe.status import Query
from tests.fakes import QUERY, scaled
from tests.watch.deployment import Deployment, overload


def two() -> Deployment:
    deployed = Deployment([scaled("clicks", max_executors=10), scaled("orders", max_executors=10)])
    for stream in deployed.streams:
        overload(deployed, stream)
    return deployed


class TestOneThatCannotBeJudged:
    def test_is_said_to_be_unknown_and_the_others_are_judged(self):
        deployed = two()
        deployed.world.streams["clicks"].queries = (Query(QUERY, active=True, interval_ms="x"),)
        tick = deployed.tick()
        assert tick.decided("orders").startswith("scale to 5")
        assert tick.seen("clicks").state == "unknown"
        assert tick.checks("clicks") == {"running": False}
        (row,) = (line for line in tick.fleet["streams 1"].splitlines() if "clicks" in line)
        assert "unknown" in row
        assert "clicks: it can't be judged: TypeError: " in tick.fleet["at a glance"]
