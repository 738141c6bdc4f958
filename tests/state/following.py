"""One run of a change of state partitions, on a cluster in memory."""

from dagster_sparkscale.state.plan import Asked
from dagster_sparkscale.state.reconfigure import Request, reconfigure
from tests.state.saying import stateful
from tests.waiting import HANGS

STREAM = stateful()


class Run:
    """One run of the operation, and the lines that it told."""

    def __init__(self, world, stream=STREAM, within=HANGS, lease_wait=60.0, **asked):
        self.lines: list[str] = []
        known = {"epoch": asked.pop("epoch")} if "epoch" in asked else {}
        self.came = reconfigure(
            world.cluster,
            stream,
            Request(Asked(**asked), "p1", owner="here", **known),
            holder="reconfigure_state run 1",
            within=within,
            tell=self.lines.append,
            lease_wait=lease_wait,
        )


def submissions(world):
    return [call for call in world.calls if call.startswith("submit")]
