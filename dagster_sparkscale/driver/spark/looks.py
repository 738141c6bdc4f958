"""Looking at one part of Spark again and again, each part on a thread of its own.

py4j pins a connection and a JVM thread to each Python thread, and what Spark tells of a part of it
takes that part's locks, which may be held for minutes: `StreamingContext.start` holds one until
there is an executor. A look that is held up must cost its own numbers and nothing else.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from dagster_sparkscale.driver.log import say

T = TypeVar("T")

SELDOM = 10.0
"""Seconds between two looks, if nobody asks for one before."""
STALE_AFTER = 30.0
"""Seconds after which what was seen of a moment is not known any more: three times as long as there
is between two looks."""
ASKED_WITHIN = 8.0
"""Seconds that a request may take to reach Spark before the answer says that it has not."""
HANGS_AFTER = 2.0
"""Seconds after which a look that goes on is not waited for by those who come later."""


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """What a look brought."""

    at: float
    """When the look began, by `time.monotonic()`: it may not show what happened since."""
    value: T

    @property
    def age(self) -> float:
        """Seconds since then."""
        return max(0.0, time.monotonic() - self.at)


class Look(Generic[T]):
    """Looks when asked, and every `pause()` seconds. Its value is the last one that there was.

    Args:
        name: what is looked at, for people.
        look: looks once; what it raises is said, and tried again.
    """

    def __init__(
        self, name: str, look: Callable[[], T], pause: Callable[[], float] = lambda: SELDOM
    ) -> None:
        self.name = name
        self._look, self._pause = look, pause
        self._changed = threading.Condition()
        self._asked = self._answered = 0
        self._began: float | None = None
        self._seen: Reading[T] | None = None
        self.trouble: str | None = None
        """Why the last look brought nothing; None if it brought something."""

    def begin(self) -> None:
        """Start the thread. It ends with the process."""
        threading.Thread(target=self._run, name=f"sparkscale-{self.name}", daemon=True).start()

    @property
    def seen(self) -> Reading[T] | None:
        """What the last look that ended brought; None before the first."""
        return self._seen

    @property
    def lately(self) -> T | None:
        """What was seen in the last `STALE_AFTER` seconds; None: nothing."""
        seen = self._seen
        return seen.value if seen is not None and seen.age <= STALE_AFTER else None

    @property
    def age(self) -> float | None:
        """Seconds since the look that brought `seen` began; None before the first."""
        return None if self._seen is None else self._seen.age

    def ask(self) -> int:
        """Have it look, from now on; returns what `wait` is to be given. Does not wait."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()
            return self._asked

    @property
    def hangs(self) -> bool:
        """Whether a look has been going on for so long that it is not worth waiting for."""
        began = self._began
        return began is not None and time.monotonic() - began > HANGS_AFTER

    def wait(self, asked: int, until: float) -> bool:
        """Whether a look that began after it was asked for has ended by `until`, a moment of
        `time.monotonic()`."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._answered >= asked, max(0.0, until - time.monotonic())
            )

    def now(self, within: float) -> T | None:
        """What a look that begins now brings; None if it brings nothing within so many seconds, or
        one hangs already."""
        asked_at = time.monotonic()
        if not self.hangs:
            self.wait(self.ask(), asked_at + within)
        seen = self._seen
        return seen.value if seen is not None and seen.at >= asked_at else None

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._asked > self._answered, self._pause())
                asked = self._asked
                self._began = began = time.monotonic()
            try:
                seen: Reading[T] | None = Reading(began, self._look())
                trouble = None
            except Exception as error:
                seen, trouble = None, f"{type(error).__name__}: {first_line(error)}"
            before = self.trouble
            with self._changed:
                self._seen, self.trouble = seen or self._seen, trouble
                self._answered, self._began = asked, None
                self._changed.notify_all()
            if trouble is not None and trouble != before:
                say(f"trouble with {self.name}: {trouble}; trying on")
            elif before is not None and trouble is None:
                say(f"{self.name}: it works again")


def first_line(error: Exception) -> str:
    """What an error says, in one line of bounded length."""
    lines = [line.strip(" :") for line in str(error).splitlines() if line.strip(" :")]
    # py4j's own line only names the call, by a number that changes; Java's exception comes next.
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        del lines[0]
    return lines[0][:300] if lines else "no reason given"
