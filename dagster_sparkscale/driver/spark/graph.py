"""The Scala StreamingContext of a DStreams program, and private members of its parts."""

from typing import Any

from .features import DSTREAMS
from .jvm import Jvm
from .private import PrivateSpark

# How the Scala compiler names private members of the ReceiverTracker that inner classes use too.
MANGLED = "org$apache$spark$streaming$scheduler$ReceiverTracker$$"


def active_graph(jvm: Jvm, private: PrivateSpark) -> Any:
    """The Scala StreamingContext that is started and not stopped; None if there is none.

    Waits for a lock that `StreamingContext.start` holds until there is an executor.
    """
    graphs = jvm.view.org.apache.spark.streaming.StreamingContext
    found = private.use(DSTREAMS, lambda: graphs.getActive(), None)
    return found.get() if found is not None and found.isDefined() else None


def private_field(java_object: Any, name: str) -> Any:
    """A private field of a JVM object, by reflection."""
    field = java_object.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field
