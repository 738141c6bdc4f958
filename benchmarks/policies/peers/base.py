"""What the rules of all peers need: what comes in, what waits, and a target within the bounds."""

import math
from collections import deque

from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.observe.evaluation import Evaluation


def scale(bounds: Bounds, evaluation: Evaluation, target: int, reason: str) -> Hold | ScaleTo:
    """The decision for a target, within the bounds; to hold where it is asked for already."""
    target = bounds.aim(target)
    return Hold(reason) if target == evaluation.requested else ScaleTo(target, reason)


def clock(evaluation: Evaluation) -> float:
    """Seconds since the stream began."""
    return evaluation.uptime or 0.0


def arriving(evaluation: Evaluation) -> float | None:
    """Records per second that come in. Batches of DStreams have one interval's input each, however
    many of them are done in the window; those of Structured Streaming all that has come."""
    queues = evaluation.pending_batches is not None
    return evaluation.gathered_rate if queues else evaluation.input_rate


def lag(evaluation: Evaluation) -> float | None:
    """Records that have come and are not done, as a broker would count them for a consumer group:
    the batch that gathers, half full on average, the one in progress for R of the time, and what
    waits."""
    rate, interval = arriving(evaluation), evaluation.batch_interval
    if rate is None or interval is None or evaluation.ratio is None:
        return None
    gathers = interval
    if evaluation.pending_batches is None:
        # What a batch takes came while the one before was in progress.
        gathers *= max(1.0, evaluation.ratio, evaluation.overdue or 0.0)
    at_work = rate * gathers * (0.5 + min(1.0, evaluation.ratio))
    return at_work + (evaluation.backlog_records or 0)


class Recent:
    """Numbers of the last seconds."""

    def __init__(self, seconds: float) -> None:
        """Begin with none.

        Args:
            seconds: how long each of them counts.
        """
        self._seconds = seconds
        self._known: deque[tuple[float, float]] = deque()

    def add(self, now: float, value: float) -> None:
        """Note one, and let go of those that are too old."""
        self._known.append((now, value))
        while self._known[0][0] <= now - self._seconds:
            self._known.popleft()

    def clear(self) -> None:
        """Let go of all."""
        self._known.clear()

    @property
    def values(self) -> list[float]:
        """The numbers, the oldest first."""
        return [value for _, value in self._known]

    @property
    def mean(self) -> float:
        """Their mean."""
        return math.fsum(self.values) / len(self._known)

    @property
    def spans(self) -> float:
        """Seconds between the first and the last of them."""
        return self._known[-1][0] - self._known[0][0] if self._known else 0.0

    @property
    def slope(self) -> float:
        """Their change per second, from the first to the last; 0: there is but one."""
        (began, first), (ended, last) = self._known[0], self._known[-1]
        return (last - first) / (ended - began) if ended > began else 0.0
