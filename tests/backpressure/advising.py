"""What is recommended for a stream of this history and these limits."""

from dagster_sparkscale.backpressure.recommend import recommend
from dagster_sparkscale.in_force.limits import INITIAL_RATE, MAX_RATE, MIN_RATE
from dagster_sparkscale.observe.minutes import Minute
from tests.backpressure.histories import but, in_force, minutes

LEAST = "clicks.minOffsetsPerTrigger"
DELAY = "clicks.maxTriggerDelay"
RATES = {INITIAL_RATE: None, MIN_RATE: 100.0, MAX_RATE: None}


def advised(history=None, least_gain: float = 0.2, **fields):
    return recommend(minutes() if history is None else history, in_force(**fields), least_gain)


def after(*args, **fields) -> dict[str, float]:
    """What is recommended, by knob."""
    return {each.limit: each.after for each in advised(*args, **fields).recommended}


def of(knob: str, *args, **fields):
    (found,) = (each for each in advised(*args, **fields).recommended if each.limit == knob)
    return found


def by_day_and_night() -> list[Minute]:
    """A week: for eight hours a day as much comes in as batches just do, which do less by night."""
    week = minutes(7 * 1440, ratio=0.63, input_rate=500, processed_rate=800, processing_ms=6300)
    day = [number for number in range(7 * 1440) if 540 <= number % 1440 < 1020]
    return but(week, day, ratio=0.95, input_rate=950, processed_rate=1000, processing_ms=9500)
