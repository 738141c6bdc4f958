"""From one look at a stream to what should happen to it. Pure."""

from dataclasses import dataclass

from dagster_sparkscale.autoscale.decide import decide
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.declare.decisions import Decision, Hold, ScaleTo
from dagster_sparkscale.declare.policies import RatioPolicy
from dagster_sparkscale.declare.streams import Stream
from dagster_sparkscale.lifecycle.recovery import Restart, recover
from dagster_sparkscale.observe.evaluation import Evaluation, evaluate
from dagster_sparkscale.watch.health import Finding, Health, examine
from dagster_sparkscale.watch.sighting import Sighting

DEFAULT_WINDOW = 60.0
"""Seconds looked at where a stream has no policy to say."""


@dataclass(frozen=True)
class Assessment:
    """What was seen of a stream, what follows, and why."""

    stream: str
    state: str
    """`running`, `starting`, `failed`, `stopped`, `unknown` or `not started`."""
    decision: Decision
    health: dict[Health, Finding]
    seen: Evaluation | None = None
    restart: Restart | None = None
    """The driver has failed and is due to be started again."""
    epoch: int | None = None
    """None: no driver is known."""

    @property
    def acts(self) -> bool:
        """Whether a run is wanted."""
        return self.restart is not None or isinstance(self.decision, ScaleTo)

    @property
    def what(self) -> str:
        return "restart" if self.restart else str(self.decision)

    @property
    def why(self) -> str:
        return self.restart.reason if self.restart else self.decision.reason

    def __str__(self) -> str:
        return f"{self.stream}: {self.what}: {self.why}"


def window_of(stream: Stream) -> float:
    """Seconds of history an evaluation of `stream` looks at."""
    return stream.autoscale.interval if stream.autoscale else DEFAULT_WINDOW


def max_lag_of(stream: Stream) -> float | None:
    """Seconds that `stream` may be behind its source; None: no policy says."""
    return stream.autoscale.max_lag if isinstance(stream.autoscale, RatioPolicy) else None


def assess(
    stream: Stream,
    sighting: Sighting,
    *,
    now: float,
    operation: str | None = None,
    due: bool = True,
) -> Assessment:
    """Assess one stream.

    Args:
        now: seconds since the epoch, by the clock of the cluster's records.
        operation: the operation in flight on the stream, for people; nothing is done beside it.
        due: whether the policy's interval has passed since its last evaluation.
    """
    driver, status = sighting.driver, sighting.status
    state = driver.state.value if driver else "unknown" if sighting.error else "not started"
    seen: Evaluation | None = None
    restart: Restart | None = None
    decision: Decision
    if sighting.error is not None:
        decision = Hold(sighting.error)
    elif driver is None:
        decision = Hold("not started: materialize the asset to start it")
    elif driver.state is DriverState.STOPPED:
        decision = Hold("stopped on request")
    elif driver.state is DriverState.FAILED:
        recovery = recover(stream.recovery, driver, sighting.history, now)
        decision = Hold(recovery.reason)
        restart = recovery if isinstance(recovery, Restart) else None
    elif status is None:
        decision = Hold("the agent gave no status")
    elif status.epoch != driver.epoch or status.stream != stream.name:
        decision = Hold(
            f"the agent answers for {status.stream} epoch {status.epoch}, "
            f"expected {stream.name} epoch {driver.epoch}"
        )
    else:
        seen = evaluate(status, window=window_of(stream), batch_interval=stream.batch_interval)
        decision = (
            decide(stream.autoscale, stream.bounds_for(seen.shards), seen)
            if status.phase == "running"
            else Hold(f"the driver is {status.phase}")
        )
    health = examine(sighting, seen, decision, max_lag=max_lag_of(stream))
    if operation is not None and (restart or isinstance(decision, ScaleTo)):
        what = "restart" if restart else str(decision)
        decision = Hold(f"{operation} is in progress; otherwise: {what}: {decision.reason}")
        restart = None
    elif not due and isinstance(decision, ScaleTo):
        decision = Hold(f"not due yet; otherwise: {decision}: {decision.reason}")
    return Assessment(
        stream=stream.name,
        state=state,
        decision=decision,
        health=health,
        seen=seen,
        restart=restart,
        epoch=driver.epoch if driver else None,
    )
