"""Look at many streams at once, and never for longer than a deadline."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, wait

from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.streams import Stream
from dagster_sparkscale.watch.assess import window_of
from dagster_sparkscale.watch.sighting import Sighting, look

_THREADS = 16


def collect(
    cluster: ClusterManager, streams: Iterable[Stream], *, deadline: float
) -> dict[str, Sighting]:
    """A sighting of each stream, by name. A stream not seen within `deadline` seconds is reported
    as such; the rest are not held up by it."""
    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="sparkscale-look")
    timeout = min(5.0, deadline)
    futures = {
        stream.name: pool.submit(
            look, cluster, stream.name, window=window_of(stream), timeout=timeout
        )
        for stream in streams
    }
    try:
        wait(futures.values(), timeout=deadline)
        return {
            name: future.result()
            if future.done()
            else Sighting(
                name, error=f"not looked at within {deadline:g} s: too many agents are slow"
            )
            for name, future in futures.items()
        }
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
