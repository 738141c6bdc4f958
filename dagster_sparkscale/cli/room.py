"""Whether executors that a stream waits for fit anywhere. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from dagster_sparkscale.clusters.capacity import Capacity
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.watch.sighting import Sighting


def waiting(streams: Iterable[Stream], sightings: Mapping[str, Sighting]) -> dict[str, int]:
    """How many executors are to come, of the streams that wait for some."""
    missing = {}
    for stream in streams:
        status = sightings[stream.name].status
        if status and status.requested is not None and status.registered is not None:
            missing[stream.name] = status.requested - (status.registered - status.removing)
    return {name: number for name, number in missing.items() if number > 0}


def without_room(
    capacity: Capacity | None, streams: Iterable[Stream], missing: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    """The streams of whose missing executors not one fits on any worker, and why."""
    for stream in streams:
        size = stream.executor_cores, stream.executor_memory
        if stream.name in missing and capacity is not None and not capacity.executors(*size):
            yield stream.name, f"{missing[stream.name]} to come, but {capacity.room_for(*size)}"
