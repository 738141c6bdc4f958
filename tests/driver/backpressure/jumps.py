"""Streams whose records become many times as dear at once, and as cheap as before later on."""

from dagster_sparkscale.driver.backpressure.estimators import estimator_of
from dagster_sparkscale.driver.backpressure.plan import EstimatorPlan
from dev.load_measures import longest_too_high, too_high
from dev.load_simulation import Run, Stream, always, simulate, steps

COST = 1 / 200_000
"""Seconds for a record: high rates, so that the lowest one, 100/s, does not matter."""
LEAST = 100.0


class Jump:
    """A stream of Structured Streaming, where no batch waits, and which has more than fits."""

    UP, DOWN, END = 60.0, 160.0, 260.0
    """Intervals at which the cost jumps, and falls again."""

    def __init__(
        self,
        factor: float,
        overhead: float,
        interval: float = 1.0,
        noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        stream = Stream(
            arrivals=always(1e9),
            cost=steps(COST, (self.UP * interval, factor * COST), (self.DOWN * interval, COST)),
            interval=interval,
            overhead=overhead * interval,
            noise=noise,
            queues=False,
        )
        self.run: Run = simulate(
            stream, estimator_of(EstimatorPlan("work")), self.END * interval, seed
        )
        self._interval = interval

    @property
    def up(self) -> float:
        return too_high(self.run, self.UP * self._interval, self.DOWN * self._interval, LEAST)

    @property
    def down(self) -> float:
        return too_high(self.run, self.DOWN * self._interval, self.END * self._interval, LEAST)

    @property
    def longest(self) -> int:
        since, until = self.UP * self._interval, self.END * self._interval
        return longest_too_high(self.run, since, until, least=LEAST)
