"""Limits of a source whose records become dearer."""

from pathlib import Path

import pytest

from dagster_sparkscale.observe.status import Batch, Status
from tests.driver.conftest import PROGRAMS
from tests.driver.running import Driver
from tests.driver.test_backpressure import LIMITED, costs, full, limit_of
from tests.releases import has
from tests.waiting import wait_for

pytestmark = pytest.mark.spark


@pytest.mark.skipif(not has("4.2"), reason="a source in Python tells of itself from 4.2 on")
def test_a_limit_does_not_run_away_where_records_become_many_times_as_dear(tmp_path: Path) -> None:
    """Half of each batch is overhead, or more, so that a slow one may be taken for that."""
    costs(tmp_path, 0.1)
    (tmp_path / "overhead").write_text("400")
    settings = {"spark.master": "local[2]", **LIMITED}
    driver = Driver(
        tmp_path / "driver", PROGRAMS / "endless_source.py", str(tmp_path), settings=settings
    )
    try:
        driver.wait(lambda s: len(full(s)) >= 15, "some batches", 240)
        seen = driver.wait(lambda s: (limit_of(s, "numbers").rate or 0) >= 800, "the rate", 240)
        dear = 3.0
        costs(tmp_path, dear)
        moment = seen.now

        def after(status: Status) -> list[Batch]:
            # Their records were dear from the first one on.
            begun = [b for b in full(status) if b.completed_at - b.processing_ms / 1000 > moment]
            return begun[3:]

        seen = driver.wait(lambda s: len(after(s)) >= 12, "batches with dear records", 240)
        most = 1000 / dear
        assert all(batch.limit for batch in after(seen))
        assert sum((batch.limit or 0) > 2 * most for batch in after(seen)) <= 1
        assert max(batch.limit or 0 for batch in after(seen)) < 5 * most
    finally:
        driver.kill()
    wait_for("its end", lambda: not driver.lives())
