"""The change of a running driver that moves a receiver."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dagster_sparkscale.clusters.agents.change import Change


@dataclass(frozen=True)
class MoveReceiver(Change):
    """Sends a receiver to an executor. The agent answers once it is on its way; `Status.receivers`
    and `.relaunches` show when it runs there. The agent refuses a receiver or an executor that does
    not exist, and an executor without a free core."""

    stream_id: int
    """The number that Spark has given the receiver."""
    executor: str
    method: ClassVar[str] = "POST"

    @property
    def path(self) -> str:
        return f"/v1/receivers/{self.stream_id}/move"

    @property
    def body(self) -> Mapping[str, Any]:
        return {"executor": self.executor}
