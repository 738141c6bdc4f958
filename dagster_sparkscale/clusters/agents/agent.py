"""What the agent of a driver can be asked, wherever it runs: the verbs of `docs/agent.md`."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dagster_sparkscale.clusters.agents.change import Change
from dagster_sparkscale.clusters.agents.http import Address, Connections, shared_connections
from dagster_sparkscale.clusters.errors import AgentUnreachable
from dagster_sparkscale.observe.status import MalformedStatus, Status


@dataclass(frozen=True)
class RemoteAgent:
    """The agent of one driver, as it is asked from here.

    Every verb raises AgentUnreachable where there is no answer in time, no usable one, or one of
    another driver's agent; and AgentRefused where it answered and refused.
    """

    stream: str
    epoch: int
    url: str
    token: str = field(repr=False)
    connections: Connections = field(default_factory=shared_connections, repr=False)
    certificate: str | None = field(default=None, repr=False)
    """The driver's certificate, PEM, if it has one: a server with another is not talked to."""
    connect: Callable[[float], socket.socket] | None = field(default=None, repr=False)
    """What makes connections to it, where `url` can't be reached from here: see `Address`."""

    def status(self, timeout: float = 5.0, window: float | None = None) -> Status:
        """What it reports, with the batches of the last `window` seconds or all."""
        path = "/v1/status" if window is None else f"/v1/status?window={window:.3f}"
        return self._status("GET", path, None, timeout)

    def change(self, change: Change, timeout: float = 10.0, operation: int | None = None) -> Status:
        """Ask for a change; returns what the agent reports once it has taken it.

        Args:
            operation: the number of the operation that asks, by which a later one prevails; None:
                it has none.

        Raises:
            StaleEpoch: it is of another epoch.
            Superseded: an operation with a higher number has asked for a change.
        """
        body = _numbered(change.body, operation)
        status = self._status(change.method, change.path, body, timeout)
        rest = change.unfinished(status)
        return status if rest is None else self.change(rest, timeout, operation)

    def stop(
        self, graceful: bool, patience: float, timeout: float = 10.0, operation: int | None = None
    ) -> None:
        """Ask the driver to end, within `patience` seconds; returns when it has agreed to.

        Raises:
            StaleEpoch: it is of another epoch.
            Superseded: an operation with a higher number has asked for a change.
        """
        body = _numbered({"graceful": graceful, "timeout": patience}, operation)
        answer = self._call("POST", "/v1/stop", body, timeout)
        # Another server at that address may answer anything at all.
        if not answer.startswith(b"{"):
            raise AgentUnreachable(f"{self._who} answered something that is not JSON")

    def _status(
        self, method: str, path: str, body: dict[str, Any] | None, timeout: float
    ) -> Status:
        answer = self._call(method, path, body, timeout)
        try:
            status = Status.from_json(answer)
        except MalformedStatus as error:
            raise AgentUnreachable(
                f"{self._who} answered something that is no status: {error}"
            ) from None
        if (status.stream, status.epoch) != (self.stream, self.epoch):
            raise AgentUnreachable(
                f"at {self.url} answers the agent of {status.stream!r}, epoch {status.epoch}, not "
                f"that of {self.stream!r}, epoch {self.epoch}"
            )
        return status

    def _call(self, method: str, path: str, body: dict[str, Any] | None, timeout: float) -> bytes:
        # Whatever changes something names the epoch that it is for.
        data = None if body is None else {**body, "epoch": self.epoch}
        address = Address(self.url, self.certificate, self.connect)
        return self.connections.call(self._who, address, self.token, method, path, data, timeout)

    @property
    def _who(self) -> str:
        return f"the agent of {self.stream!r} at {self.url}"


def _numbered(body: Mapping[str, Any], operation: int | None) -> dict[str, Any]:
    """`body` with the number of the operation, where there is one: an older agent does not know
    the field."""
    return {**body} if operation is None else {**body, "operation": operation}
