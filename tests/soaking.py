"""What repeats for confidence: modules named soak_*.py, run by `make soak` and not by `make test`.

Each repeats a scenario of a test, at moments drawn by chance, for as long as it is told; or plays
one that takes minutes to its end.
"""

import argparse
import contextlib
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


def minutes(text: str) -> float:
    """An option's value.

    Raises:
        ArgumentTypeError: it is not a number above 0.
    """
    with contextlib.suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} must be a number above 0")


@dataclass
class Soak:
    """How long to go on, and what is drawn by chance."""

    minutes: float
    seed: int
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def one_of(self, number: int, kinds: Sequence[T]) -> T:
        """For a round: each of `kinds` once, in order, and after that what chance says."""
        return kinds[number - 1] if number <= len(kinds) else self.chance.choice(kinds)

    def rounds(self) -> Iterator[int]:
        """The number of each round, from 1 on, until the minutes are over; one at the least."""
        until = time.monotonic() + 60 * self.minutes
        number = 0
        while number == 0 or time.monotonic() < until:
            number += 1
            print(f"round {number}, seed {self.seed}", flush=True)
            yield number
