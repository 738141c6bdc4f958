"""What can go wrong between Dagster and a stream. Every text says what to do about it."""


class ClusterError(Exception):
    """The cluster manager could not do what it was asked; the text says what to do about it."""


class AgentUnreachable(ClusterError):
    """The agent gave no answer in time. That says nothing about the state of the stream."""


class AgentRefused(ClusterError):
    """The agent answered and refused: wrong token, stale epoch or a request it cannot meet."""


class NotMet(AgentRefused):
    """The agent understood who asks for what, and can't do it; the text says why."""


class StaleEpoch(AgentRefused):
    """The stream has been started again since: the operation belongs to a driver that is gone."""


class Superseded(StaleEpoch):
    """A later operation has changed the stream since: this one must not undo what it did."""


class OperationInProgress(ClusterError):
    """Another operation holds the stream's lease."""


class LeaseLost(ClusterError):
    """The lease was lost, or is over: another operation may be changing the stream."""


class Held(ClusterError):
    """A durable hold bars the stream from being started."""


class AlreadyRunning(ClusterError):
    """A driver of this stream is running, or may be: a second one must not be started."""


class Overtaken(Exception):
    """The request is void: a later one was carried out while it waited, or its driver has ended.
    There is nothing to do: no fault, so no `ClusterError`."""
