from dagster_sparkscale.driver.history import Batch
from dagster_sparkscale.observe import status


def test_a_batch_on_its_way_to_dagster_loses_nothing() -> None:
    batch = Batch("q", 5.5, 900, 10, 100, True, 1, 12, 1300)
    assert status.Batch(**batch.as_json()) == status.Batch(
        "q", 5.5, 900, 10, 100, True, 1, 12, 1300
    )
