"""What is made of the status of a driver whose batches have an interval of 10 s."""

from dagster_sparkscale.observe.evaluate import evaluate
from dagster_sparkscale.observe.evaluation import Evaluation
from tests.fakes import status

INTERVAL = 10.0


def seen(window: float = 60.0, **fields) -> Evaluation:
    """What a running driver comes to, of which `fields` are otherwise; `window` in seconds."""
    return evaluate(status(**fields), window=window, batch_interval=INTERVAL)
