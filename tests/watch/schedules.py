"""What one evaluation of a schedule comes to, also while a look at its stream hangs."""

import threading

import dagster as dg

from tests.waiting import HANGS
from tests.watch.deployment import Deployment

Schedule = dg.ScheduleDefinition | str
"""One that is made by the test, or the name of one of the code location."""


def evaluated(deployed: Deployment, schedule: Schedule):
    """What one tick comes to."""
    found = deployed.defs.resolve_schedule_def(schedule) if isinstance(schedule, str) else schedule
    with dg.build_schedule_context(
        instance=deployed.instance, resources=deployed.defs.resources
    ) as context:
        return found.evaluate_tick(context)


def skipped(deployed: Deployment, schedule: Schedule) -> str:
    """Why it asks for no run."""
    data = evaluated(deployed, schedule)
    assert not data.run_requests
    return data.skip_message


def skipped_while_hanging(deployed: Deployment, schedule: Schedule) -> str:
    """Why it asks for no run where who looks at a stream has no answer until that is said."""
    released, over = threading.Event(), threading.Event()

    def hang(stream):
        released.wait(HANGS)
        over.set()

    deployed.world.on_find = hang
    try:
        said = skipped(deployed, schedule)
    finally:
        released.set()
    assert over.wait(HANGS)
    return said
