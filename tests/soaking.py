"""What repeats for confidence: modules named soak_*.py, run by `make soak` and not by `make test`.

Each repeats a scenario of a test, at moments drawn by chance, for as long as it is told; or plays
one that takes minutes to its end.
"""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Soak:
    """How long to go on, and what is drawn by chance."""

    minutes: float
    seed: int
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def rounds(self) -> Iterator[int]:
        """The number of each round, from 1 on, until the minutes are over; one at the least."""
        until = time.monotonic() + 60 * self.minutes
        number = 0
        while number == 0 or time.monotonic() < until:
            number += 1
            print(f"round {number}, seed {self.seed}", flush=True)
            yield number
