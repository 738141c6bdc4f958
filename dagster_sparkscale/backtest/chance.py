"""What is chance in a simulation: noise and failures, the same ones by the same seed."""

import math
import random


class Chance:
    """Draws, in the order in which they are asked for. Noise does not depend on how often anything
    has failed, nor the other way round: two policies meet the same batches."""

    def __init__(self, seed: int, noise: float) -> None:
        """Begin with the first draw.

        Args:
            noise: relative standard deviation of a factor.
        """
        self._noise = random.Random(f"noise {seed}")
        self._fate = random.Random(f"failures {seed}")
        self._sigma = math.sqrt(math.log1p(noise**2))

    def factor(self) -> float:
        """Draw a factor: lognormal, 1 on average."""
        if not self._sigma:
            return 1.0
        return math.exp(self._noise.gauss(0.0, self._sigma) - self._sigma**2 / 2)

    def happens(self, share: float) -> bool:
        """Whether something happens that does so in this share of the cases."""
        return bool(share) and self._fate.random() < share

    def until(self, rate: float) -> float:
        """Draw the seconds until something happens that does so `rate` times a second."""
        return self._fate.expovariate(rate) if rate else math.inf
