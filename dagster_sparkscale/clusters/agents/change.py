"""What can be changed of a driver that runs: each change is a value that its agent is sent."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.observe.status import Status


class Change(ABC):
    """One change of a running driver, absolute: to ask for it again does no harm."""

    method: ClassVar[str] = "PUT"

    @property
    @abstractmethod
    def path(self) -> str:
        """The path of the request at the agent (`docs/agent.md`)."""

    @property
    @abstractmethod
    def body(self) -> Mapping[str, Any]:
        """The request, without the epoch and the number of the operation."""

    def remembered(self, record: Record) -> Record:
        """The stream's record with what the next driver has to begin with."""
        return record

    def unfinished(self, answer: Status) -> "Change | None":
        """What an older agent has left undone, to be asked for next; None: nothing."""
        return None


@dataclass(frozen=True)
class SetExecutors(Change):
    """Sets the number of executors. The agent answers once it has asked the cluster for them, not
    when they have come."""

    target: int
    path: ClassVar[str] = "/v1/executors"

    @property
    def body(self) -> Mapping[str, Any]:
        return {"target": self.target}

    def remembered(self, record: Record) -> Record:
        return replace(record, executors=self.target)
