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
    capacity: Capacity | None, streams: Iterable[Stream], sightings: Mapping[str, Sighting]
) -> Iterator[tuple[str, str]]:
    """The streams of whose missing executors not one fits on any worker, and why. Executors that
    have their place, and whose JVM only has to come up, are not missing."""
    if capacity is None:
        return
    declared = {stream.name: stream for stream in streams}
    for name, missing in waiting(declared.values(), sightings).items():
        stream, status = declared[name], sightings[name].status
        size = stream.executor_cores, stream.executor_memory
        if status is not None and status.app_id is not None and status.registered is not None:
            placed = capacity.granted.get(status.app_id, 0) // stream.executor_cores
            missing -= max(0, placed - status.registered)
        if missing > 0 and not capacity.executors(*size):
            yield name, f"{missing} to come, but {capacity.room_for(*size)}"
