"""Requests that change something: how a part of the agent reads one, and how it refuses one."""

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from .wire import LARGEST


class BadRequest(ValueError):
    """A request that makes no sense; the text names the field, its value and what is right."""

    code = 400


class WrongEpoch(Exception):
    """A request is for another start of the stream; the text names both epochs."""


class NotReady(Exception):
    """Spark can't be asked (yet, any more, or just now); the text says which."""

    code = 503


class Request:
    """A request to change something, of somebody who has shown the token.

    Args:
        names: what its path has in place of each name in braces of the route's.
        body: what was sent, unread.
        epoch: that of this driver.
    """

    def __init__(self, names: Sequence[str], body: bytes, epoch: int) -> None:
        self.names, self._body, self._epoch = names, body, epoch

    @cached_property
    def fields(self) -> dict[str, Any]:
        """The JSON object that was sent.

        Raises:
            BadRequest: it is none.
        """
        try:
            fields = json.loads(self._body)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise BadRequest("body: must be a JSON object")
        return fields

    @cached_property
    def operation(self) -> int | None:
        """The number of the operation that asks; None: it has none.

        Raises:
            WrongEpoch: the request is for another start of the stream.
            BadRequest: it names no epoch, or the number is none.
        """
        epoch, operation = self.fields.get("epoch"), self.fields.get("operation")
        if type(epoch) is not int:
            raise BadRequest(f"epoch: {shown(epoch)}: must be the epoch of the driver meant")
        if epoch != self._epoch:
            raise WrongEpoch(f"epoch: {epoch}: this driver's is {self._epoch}")
        if operation is not None and (type(operation) is not int or not 0 <= operation < LARGEST):
            raise BadRequest(
                f"operation: {shown(operation)}: must be the number of an operation, or null"
            )
        return operation


Route = Callable[[Request], None]
"""Carries a request out; returns once that has had its effect. Raises BadRequest, WrongEpoch,
NotReady or OutOfOrder where it has none."""


def shown(value: Any) -> str:
    """A field's value as a refusal quotes it."""
    return json.dumps(value)[:40] if value is not None else "missing"
