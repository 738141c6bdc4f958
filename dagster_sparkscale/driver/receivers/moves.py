"""Reads from Spark's `ReceiverTracker` where each receiver is, and sends one to an executor.

What Spark makes of it (`ReceiverTracker` and its endpoint, from 2.0 on). A receiver that has been
told to stop deregisters, and its job ends; as the tracker is not stopping, it starts it again
(`RestartReceiver`), on the locations that it has stored for it, as long as one of these is alive.
It registers from there; from anywhere else it is turned down and started again, until it comes up
where it is wanted. That it does at once where there is a free core, and after
`spark.locality.wait` somewhere in vain where there is none. Only if that executor dies does the
tracker choose another one. Once registered, nothing of that is stored any more.

What a receiver has stored record by record and its `BlockGenerator` has made no block of yet
(`spark.streaming.blockInterval`) is kept when it is stopped, unless there is a write-ahead log:
`ReceiverSupervisorImpl.onStop` closes that first. A receiver that stores several records at a time
and acknowledges them then loses nothing either way.
"""

import re
from collections.abc import Sequence
from typing import Any

from dagster_sparkscale.driver.spark.graph import MANGLED, private_field
from dagster_sparkscale.driver.spark.jvm import Jvm

from .watch import TrackedReceiver

TRIES = 3
_PAUSE = re.compile(r"Restarting receiver with delay (\d+) ?ms:")


def placements(jvm: Jvm, tracker: Any, streams: Sequence[int]) -> tuple[TrackedReceiver, ...]:
    """Each of these receivers as its tracker has it.

    Asks the tracker's endpoint, which takes no lock.
    """
    infos, launches = _infos(jvm, tracker), []
    listed = jvm.view.java.util.ArrayList()
    for stream in streams:
        found = infos.get(stream)
        if found.isDefined():  # a graph that is being stopped forgets them one by one
            info = found.get()
            launches.append(info.endpoint().toString())
            listed.add(info.toReceiverInfo())
    return tuple(
        TrackedReceiver(
            stream_id=int(told["streamId"]),
            executor=told["executorId"] or None,
            host=told["location"] or None,
            active=told["active"],
            launch=launch,
            name=told["name"] or None,
            error=_error(told["lastErrorMessage"], told["lastError"]),
            pauses_until=paused_until(told["lastErrorMessage"], told["lastErrorTime"]),
        )
        for told, launch in zip(jvm.read(listed), launches, strict=True)
    )


def paused_until(message: str, at_ms: int) -> float | None:
    """When a receiver that has restarted itself begins again, in seconds since the epoch; None: it
    has not. How long it pauses, by `spark.streaming.receiverRestartDelay` or its program, Spark's
    `ReceiverSupervisor` says in this message alone."""
    found = _PAUSE.match(message)
    return (at_ms + int(found[1])) / 1000 if found is not None and at_ms > 0 else None


def executors(jvm: Jvm, tracker: Any) -> dict[str, str]:
    """The host of each executor that receivers may be started on, as Spark's locations have it."""
    told = jvm.read(getattr(tracker, f"{MANGLED}getExecutors")())
    return {each["executorId"]: each["host"] for each in told}


def send(jvm: Jvm, tracker: Any, stream: int, host: str, executor: str) -> None:
    """Have a receiver end where it runs, and come up on `executor`. Does not wait for that.

    The stored locations are changed past the endpoint, the only one to do so in Spark. It does so
    itself when a receiver registers, deregisters or fails, and then what was stored here may be
    gone: so it is looked at before the receiver is told to stop. One that was told to without it
    would come up anywhere.
    """
    location = jvm.view.org.apache.spark.scheduler.ExecutorCacheTaskLocation(host, executor)
    stop = getattr(jvm.view.org.apache.spark.streaming.receiver, "StopReceiver$")
    message = getattr(stop, "MODULE$")
    locations = jvm.view.PythonUtils.toSeq([location])
    for _ in range(TRIES):
        getattr(tracker, f"{MANGLED}updateReceiverScheduledExecutors")(stream, locations)
        # Asked for now, not before: of the start that is to stop.
        info = _infos(jvm, tracker).apply(stream)
        if info.scheduledLocations().isDefined():
            # One that registers from now on is not stopped: that has another endpoint.
            if info.endpoint().isDefined():
                info.endpoint().get().send(message)
            return
        told = info.toReceiverInfo()
        if told.active() and told.executorId() == executor:
            return  # it has just come up there


def processed_until(streaming: Any) -> float:
    """The time of the last batch that is through, seconds since the epoch; 0 before the first."""
    last = streaming.scheduler().jobGenerator().lastProcessedBatch()
    return 0.0 if last is None else int(last.milliseconds()) / 1000


def _infos(jvm: Jvm, tracker: Any) -> Any:
    endpoint = private_field(tracker, "endpoint").get(tracker)
    names = jvm.view.org.apache.spark.streaming.scheduler
    question = getattr(getattr(names, "GetAllReceiverInfo$"), "MODULE$")
    anything = getattr(getattr(jvm.view.scala.reflect, "ClassTag$"), "MODULE$").Any()
    return endpoint.askSync(question, anything)


def _error(message: str, trace: str) -> str | None:
    """What a receiver failed of. One that was told to stop has a message and no error."""
    if not trace.strip():
        return None
    first = trace.strip().splitlines()[0]
    return (first if first in message or not message else f"{message}: {first}")[:300]
