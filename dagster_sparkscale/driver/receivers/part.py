"""Receivers in the agent: where they run, requests to move one, and what each takes."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dagster_sparkscale.driver.batches.reports import DoneBatch
from dagster_sparkscale.driver.executors.guard import Going, Guard, Pinned
from dagster_sparkscale.driver.part import Core, Part
from dagster_sparkscale.driver.request import BadRequest, Request, shown
from dagster_sparkscale.driver.spark.looks import ASKED_WITHIN, Look
from dagster_sparkscale.driver.wire import Batch, Receiver

from .mover import Mover
from .rates import ReceiverRates
from .tracker import Receivers

MAX_ID = 255
"""Characters of an executor's id, at most."""


class ReceiversPart(Part, Guard):
    """The receivers of the program: a part of the agent, and the guard of their executors."""

    pin = "receiver"

    def __init__(self, core: Core) -> None:
        self._admission = core.admission
        self._mover = Mover(core.private, core.executors.listed)
        self._rates = ReceiverRates()
        self.look: Look[Receivers | None] = Look("receivers", self._mover.look, self._mover.pause)
        self.looks = (self.look,)
        self.routes = {("POST", "/v1/receivers/{stream}/move"): self._move}

    def completed(self, done: DoneBatch) -> Batch:
        self._rates.completed(done)
        return done.batch

    def answer(self) -> Mapping[str, Any]:
        seen = self.look.seen
        relaunches = seen.value.relaunches if seen and seen.value else ()
        return {"receivers": self._receivers(), "relaunches": relaunches}

    def _receivers(self) -> tuple[Receiver, ...] | None:
        lately, rate = self.look.lately, self._rates.rate
        if lately is None:
            return None
        return tuple(replace(each, rate=rate(each.stream_id)) for each in lately.told)

    # As the guard of executors.

    def known(self) -> Pinned | None:
        seen = self.look.seen
        return None if seen is None else seen.value

    def held(self, within: float) -> Pinned | None:
        return self.look.now(within)

    def going(self, executors: Going) -> None:
        if executors != self._mover.going:
            self._mover.going = executors
            self.look.ask()

    # Requests.

    def _move(self, request: Request) -> None:
        (stream,) = request.names
        if not (stream.isascii() and stream.isdigit() and len(stream) < 10):
            raise BadRequest(f"receiver: {stream[:40]}: must be the number of its stream")
        executor = request.fields.get("executor")
        if type(executor) is not str or not 0 < len(executor) <= MAX_ID:
            raise BadRequest(
                f"executor: {shown(executor)}: must be the id of an executor, of 1 to {MAX_ID} "
                "characters"
            )
        self.move(int(stream), executor, request.operation)

    def move(self, stream_id: int, executor: str, operation: int | None = None) -> None:
        """Send a receiver to an executor; returns once it has been told, or is there already or on
        its way.

        Raises:
            OutOfOrder: a later operation has been here.
            CannotMove: there is no such receiver or executor, or no room; the text says which.
            NotReady: it can't be told just now.
        """
        with self._admission.of_spark(operation, "receivers cannot be moved"):
            move = self._mover.request(stream_id, executor, operation)
            asked = self.look.ask()
        self.look.wait(asked, time.monotonic() + ASKED_WITHIN)
        move.result()
