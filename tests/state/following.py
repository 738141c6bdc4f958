"""One run of a change of state partitions, on a cluster in memory."""

from dagster_sparkscale.state.plan import Asked
from dagster_sparkscale.state.reconfigure import ReconfigureRequest, reconfigure
from tests.requesting import requester_of
from tests.state.saying import stateful
from tests.waiting import HANGS

STREAM = stateful()


class Run:
    """One run of the operation, and the lines that it told."""

    def __init__(self, world, stream=STREAM, within=HANGS, **asked):
        self.lines: list[str] = []
        asked = {"owner": "here", "tell": self.lines.append, **asked}
        requester = requester_of(asked, "reconfigure_state run 1")
        request = ReconfigureRequest(Asked(**asked), "p1", within)
        self.came = reconfigure(world.cluster, stream, request, requester)


def submissions(world):
    return [call for call in world.calls if call.startswith("submit")]
