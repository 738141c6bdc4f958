"""Stops a DStreams graph so that nothing it has received is lost."""

import time
from typing import Any

from dagster_sparkscale.driver.batches.dstreams import QUERY
from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.settings import WRITE_AHEAD_LOG
from dagster_sparkscale.driver.spark.graph import MANGLED, private_field

from .end_report import StoppedQuery

POLL = 0.05
GRACE_TIMEOUT = "spark.streaming.gracefulStopTimeout"


def finish(context: Any, deadline: float) -> StoppedQuery | None:
    """Have the active StreamingContext, if any, process all it has received, and stop it. How it
    ended; None if there was none.

    Args:
        context: the pyspark SparkContext.
        deadline: `time.monotonic()` by which it should be done.
    """
    active = context._jvm.org.apache.spark.streaming.StreamingContext.getActive()
    if not active.isDefined():
        return None
    streaming = active.get()
    try:
        _stop_receivers(context._jvm, streaming, deadline)
    except Exception as error:
        say(f"receivers are left to Spark's own graceful stop: {type(error).__name__}: {error}")
    conf = context._jsc.sc().conf()
    if not conf.contains(GRACE_TIMEOUT):
        # By default Spark gives up after ten batch intervals, and drops what is still waiting.
        conf.set(GRACE_TIMEOUT, f"{max(1, int(deadline - time.monotonic()))}s")
    # stopSparkContext false: the program may have more to do; stopGracefully true.
    streaming.stop(False, True)
    return _outcome(streaming)


def _outcome(streaming: Any) -> StoppedQuery:
    """Spark gives up on a graceful stop without a word: what it has left undone says so."""
    try:
        scheduler = streaming.scheduler()
        left = not scheduler.getPendingTimes().isEmpty()
        left = left or scheduler.receiverTracker().hasUnallocatedBlocks()
        last = scheduler.jobGenerator().lastProcessedBatch()
    except Exception as error:
        say(f"how the graph ended can't be told: {type(error).__name__}: {error}")
        return StoppedQuery(QUERY)
    return StoppedQuery(QUERY, not left, None if last is None else int(last.milliseconds()))


def _stop_receivers(jvm: Any, streaming: Any, deadline: float) -> None:
    """Stop the receivers, and wait until each block they have received belongs to a batch.

    Spark's `ReceiverTracker.stop` does the first, and then closes the tracker's write-ahead log
    (there is one wherever there is a checkpoint folder) before the last blocks have been given to
    a batch: that then fails, and they are lost. Told the same earlier, the tracker is left as
    after its own first step, and its `stop` goes on from there.
    """
    tracker = streaming.scheduler().receiverTracker()
    if tracker.allocatedExecutors().isEmpty():
        return  # a program without receivers
    logged = streaming.sparkContext().conf().getBoolean(WRITE_AHEAD_LOG, False)
    if lost := may_lose(jvm.scala.util.Properties.versionNumberString(), logged):
        say(lost)
    state = private_field(tracker, "trackerState")
    endpoint = private_field(tracker, "endpoint").get(tracker)
    still_running = getattr(tracker, f"{MANGLED}receiverJobExitLatch")()
    names = jvm.org.apache.spark.streaming.scheduler
    stop_all = getattr(getattr(names, "StopAllReceivers$"), "MODULE$")
    boolean = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$").Boolean()
    started, stopping = state.get(tracker), tracker.TrackerState().Stopping()

    state.set(tracker, stopping)  # or it would start them again
    try:
        endpoint.askSync(stop_all, boolean)
    except Exception:
        state.set(tracker, started)
        raise
    while time.monotonic() < deadline and (
        still_running.getCount() or tracker.hasUnallocatedBlocks()
    ):
        time.sleep(POLL)


def may_lose(scala: str, logged: bool) -> str | None:
    """What stopping receivers may cost, in a sentence; None if nothing.

    A receiver that fails when its connection is closed asks for another start. Its supervisor waits
    for that in a Future (`ReceiverSupervisor.restartReceiver`), and the stop interrupts it there. A
    Future of Scala 2.12, which Spark 3.5 comes with, lets the interrupt through to Spark's handler
    of uncaught exceptions, and that ends the executor.

    Args:
        scala: the version of Scala, such as 2.12.18.
        logged: whether receivers keep a write-ahead log.
    """
    if logged or not scala.startswith("2.12."):
        return None
    return (
        f"with Scala {scala} an executor may end when a receiver on it is stopped, and what was "
        f"received and not processed be lost with it: {WRITE_AHEAD_LOG}=true and a checkpoint keep "
        "it"
    )
