"""What people do to the ten streams meanwhile: in the launchpad, and in a terminal."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import requests

from dev.dagster_ui import DagsterError
from tests.e2e.ten.dagster_side import Dagster

OVER_WITHIN = 300.0
"""Seconds that an operation may take while all else goes on."""


@dataclass
class Deed:
    """One operation."""

    at: float
    """Seconds since the epoch."""
    what: str
    stream: str
    came: str
    """What it came to; of one that failed, why."""


class Hands:
    """Does one thing after the other. What is refused, as another operation is in progress, is no
    fault: the stream must be as it was."""

    def __init__(self, dagster: Dagster, streams: list[str], chance: random.Random) -> None:
        self._dagster, self._streams, self._chance = dagster, streams, chance
        self.done: list[Deed] = []
        self._ways: dict[str, Callable[[str], str]] = {
            "rescale in the launchpad": lambda s: self._run("rescale", s, target=self._size()),
            "pin": lambda s: self._said("pin", s, str(self._size()), "--for", "2m"),
            "rebalance receivers": lambda _: self._run("rebalance_receivers", "receivers"),
            "stop and start": self._stop_and_start,
            "bounds": lambda s: self._said("bounds", s, "--min", "2", "--max", "3", "--for", "3m"),
            "reconfigure the state": lambda _: self._said(
                "reconfigure", "keys", str(self._chance.choice((2, 4, 8)))
            ),
            "freeze": lambda s: self._said("freeze", s, "--for", "2m"),
            "scale": lambda s: self._said("scale", s, str(self._size())),
            "restart": lambda s: self._said("restart", s),
        }
        self._only = {"rebalance receivers": ["receivers"], "reconfigure the state": ["keys"]}
        self._left: list[str] = []

    def next(self) -> None:
        """Each once in an order that is drawn, and so on."""
        if not self._left:
            self._left = self._chance.sample(list(self._ways), len(self._ways))
        what = self._left.pop()
        stream = self._chance.choice(self._only.get(what) or self._of(what))
        deed = Deed(time.time(), what, stream, "")
        print(f"{time.strftime('%H:%M:%S')} by hand: {what}: {stream}", flush=True)
        self.done.append(deed)
        try:
            deed.came = self._ways[what](stream)
        except (DagsterError, requests.RequestException, AssertionError) as error:
            deed.came = f"not done: {str(error)[:300]}"  # as the web server stands still
        print(f"{time.strftime('%H:%M:%S')} by hand: {what}: {stream}: {deed.came}", flush=True)

    def _of(self, what: str) -> list[str]:
        # The memory of drivers is compared only of those that run on.
        from tests.e2e.ten.memory import SPARED

        if what in ("stop and start", "restart"):
            return [each for each in self._streams if each not in SPARED]
        return self._streams

    def _size(self) -> int:
        return self._chance.choice((2, 3))

    def _run(self, job: str, stream: str, **config: object) -> str:
        run = self._dagster.ended(self._dagster.launch(job, stream, **config), OVER_WITHIN)
        return f"{run.status.value}, {run.tags.get('dagster-sparkscale/outcome', 'no outcome')}"

    def _said(self, *words: str) -> str:
        said = self._dagster.command(*words)
        lines = (said.stderr if said.returncode else said.stdout).splitlines()
        return f"exit code {said.returncode}: {(lines[-1] if lines else '')[:200]}"

    def _stop_and_start(self, stream: str) -> str:
        stopped = self._run("stop", stream)
        run = self._dagster.ended(self._dagster.materialize(stream), OVER_WITHIN)
        return f"stop {stopped}; start {run.status.value}"
