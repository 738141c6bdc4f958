"""What the agent of a driver can be asked, wherever it runs: the verbs of `docs/agent.md`."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dagster_sparkscale.clusters.agents.connection import Address
from dagster_sparkscale.clusters.agents.http import Connections, shared_connections
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
    """That of its driver, PEM, if it was given one: who has another is not talked to."""
    connect: Callable[[float], socket.socket] | None = field(default=None, repr=False)
    """What makes connections to it, where `url` can't be reached from here: see `Address`."""

    def status(self, timeout: float = 5.0, window: float | None = None) -> Status:
        """What it reports, with the batches of the last `window` seconds or all."""
        path = "/v1/status" if window is None else f"/v1/status?window={window:.3f}"
        return self._status("GET", path, None, timeout)

    def scale(self, target: int, timeout: float = 10.0, operation: int | None = None) -> Status:
        """Set the absolute number of executors.

        Raises:
            StaleEpoch: it is of another epoch.
            Superseded: an operation with a higher number has asked for a change.
        """
        body = _numbered({"target": target}, operation)
        return self._status("PUT", "/v1/executors", body, timeout)

    def set_rates(
        self,
        rates: Mapping[str, Mapping[str, int | float | None] | None],
        timeout: float = 10.0,
        operation: int | None = None,
        absolute: bool = False,
    ) -> Status:
        """Set and remove live limits of sources. The status has those that are set then.

        Args:
            rates: by source, its limits: maxRate (records per second), maxRecordsPerTrigger,
                maxBytesPerTrigger, maxSpanPerTrigger (seconds). What is not named stays; None
                removes one limit, or all of a source.
            absolute: what is not named is removed.

        Raises:
            StaleEpoch: it is of another epoch.
            Superseded: an operation with a higher number has asked for a change.
        """
        asked = {"rates": rates, "absolute": True} if absolute else {"rates": rates}
        status = self._status("PUT", "/v1/rates", _numbered(asked, operation), timeout)
        if absolute and (left := _left_over(status.rates or {}, rates)):
            # An agent of an older release passes over what it does not know, and has patched.
            body = _numbered({"rates": left}, operation)
            status = self._status("PUT", "/v1/rates", body, timeout)
        return status

    def move_receiver(
        self,
        stream_id: int,
        executor: str,
        timeout: float = 10.0,
        operation: int | None = None,
    ) -> Status:
        """Send a receiver to an executor. Idempotent; returns once it is on its way.

        Raises:
            StaleEpoch: it is of another epoch.
            Superseded: an operation with a higher number has asked for a change.
            AgentRefused: there is no such receiver or executor, or that executor has no core for
                it; says which.
        """
        body = _numbered({"executor": executor}, operation)
        return self._status("POST", f"/v1/receivers/{stream_id}/move", body, timeout)

    def stop(
        self,
        graceful: bool,
        patience: float,
        timeout: float = 10.0,
        operation: int | None = None,
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


def _left_over(
    has: Mapping[str, Any], wanted: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, dict[str, None] | None]:
    """What removes the limits that are not wanted; empty: there are none."""
    left: dict[str, dict[str, None] | None] = {}
    for source, limits in has.items():
        asked = wanted.get(source)
        if not asked:
            left[source] = None
        elif surplus := [name for name in limits if name not in asked]:
            left[source] = dict.fromkeys(surplus)
    return left


def _numbered(body: dict[str, Any], operation: int | None) -> dict[str, Any]:
    """With the number of the operation that asks, which a later one's outdoes; None: it has none,
    and an older agent would not know it."""
    return body if operation is None else {**body, "operation": operation}
