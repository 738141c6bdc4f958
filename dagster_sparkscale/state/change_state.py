"""The change of state partitions that a running driver is asked for."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from dagster_sparkscale.clusters.agents.change import Change
from dagster_sparkscale.driver.state.beside.limits import Limits
from dagster_sparkscale.driver.state.plans import StatePlan


@dataclass(frozen=True)
class ChangeState(Change):
    """Has a plan carried out in place. The agent answers once it has begun, and takes the same plan
    once. Nothing is remembered for the next driver: its queries begin by their checkpoints."""

    plan: StatePlan
    within: float
    """Seconds that the batch in progress of each query has to end."""
    beside: Limits | None = None
    """What may be done beside the stream; None: nothing."""
    path: ClassVar[str] = "/v1/state"

    @property
    def body(self) -> Mapping[str, Any]:
        beside = None if self.beside is None else asdict(self.beside)
        return {"plan": asdict(self.plan), "within": self.within, "beside": beside}
