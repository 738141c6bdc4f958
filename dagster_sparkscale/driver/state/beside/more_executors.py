"""More executors for as long as state is changed: the copy of a busy stream needs cores of its own.

What must not change: whatever ends the change, the executors are put back, and a number that
somebody else has set meanwhile stays. The next driver knows nothing of them: it begins with the
number that is remembered of the stream.
"""

import time
from collections.abc import Callable

from dagster_sparkscale.driver.executors.control import ExecutorControl
from dagster_sparkscale.driver.request import NotReady

LONGEST = 120.0
"""Seconds that executors have to come in, at most."""
OF_WITHIN = 0.5
"""The part of the time for a copy that may be spent on waiting for them."""
_POLL = 0.2


class MoreExecutors:
    """More executors for one plan, asked for once.

    Args:
        control: of the executors of the driver.
        target: executors that there are to be in all; None: none are to be added.
        within: seconds that a copy has to catch up in.
        given_up: whether nobody needs them any more.
        had: the number that was set when `target` was decided; None: not known.
    """

    def __init__(
        self,
        control: ExecutorControl,
        target: int | None,
        within: float,
        given_up: Callable[[], bool],
        had: int | None = None,
    ) -> None:
        self._control, self.target, self._given_up = control, target, given_up
        self._had = had
        self._seconds = min(LONGEST, OF_WITHIN * within)
        self._asked_at: float | None = None
        self._trouble: str | None = None

    def why_not_there(self) -> str | None:
        """Have them come, the first time, and wait for them; why not all are there, in words; None:
        they are."""
        assert self.target is not None
        if self._asked_at is None:
            self._asked_at = time.monotonic()
            try:
                self._control.raise_to(self.target, self._had)
            except NotReady as error:
                self._trouble = str(error)
        while self._trouble is None:
            there = self._control.staying
            if there is not None and there >= self.target:
                return None
            if (set_since := self._control.requested) < self.target:
                return f"somebody has set the number of executors to {set_since} meanwhile"
            waited = time.monotonic() - self._asked_at
            if waited >= self._seconds or self._given_up():
                known = "an unknown number" if there is None else there
                return f"{known} of {self.target} executors are there after {waited:.0f} s"
            time.sleep(_POLL)
        return self._trouble

    def put_back(self) -> None:
        """Have as many executors as before."""
        if self._asked_at is not None:
            self._control.put_back()
