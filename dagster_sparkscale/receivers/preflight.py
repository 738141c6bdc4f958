"""The driver that an operation on receivers is about. No Dagster here."""

from dagster_sparkscale.clusters.base import ClusterManager, Driver
from dagster_sparkscale.clusters.errors import Overtaken, StaleEpoch
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.requests import Refused, alive
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.declare.streams import DStream


def receiving(stream: Stream) -> DStream:
    """`stream`, if it is one with receivers.

    Raises:
        Refused: the stream is none of DStreams with receivers.
    """
    if not isinstance(stream, DStream) or not stream.receivers:
        raise Refused(f"{stream.name!r} has no receivers: only a DStream that declares some has")
    return stream


def running(cluster: ClusterManager, stream: str, requester: Requester) -> Driver:
    """The stream's driver, which must be the one that `requester` asks about.

    Raises:
        Overtaken: the decision was for another driver than the one that runs now.
        StaleEpoch: the request was for another driver.
        Refused: no driver runs.
    """
    driver, epoch, decided = cluster.find(stream), requester.epoch, requester.decided
    ended = driver is None or not driver.state.alive
    if epoch is not None and (driver is None or driver.epoch != epoch or (decided and ended)):
        now = (
            "none is known" if driver is None else f"driver {driver.epoch} is {driver.state.value}"
        )
        if decided:
            raise Overtaken(f"decided for driver {epoch}, and {now} by now")
        raise StaleEpoch(f"{stream!r}: asked for driver {epoch}, and {now} by now")
    return alive(stream, driver)
