"""A real query for each cause for which more executors do not help, and that it is named."""

from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale.observe.tasks import Kind, cause_of
from tests.driver.conftest import PROGRAMS
from tests.driver.running import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.clusters]

MARKED = "-Dtested.executor={{EXECUTOR_ID}}"
SMALL = "-XX:+UseSerialGC -Xmn6m"
"""A heap in which what lives for some time is collected again and again."""


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("driver", {}),
        ("skew", {}),
        ("executor", {"spark.executor.extraJavaOptions": MARKED}),
        ("partitions", {"spark.executor.cores": 2}),
        ("gc", {"spark.executor.extraJavaOptions": SMALL}),
    ],
)
def test_the_cause_is_named_from_what_a_real_driver_reports(
    cluster: Cluster, tmp_path: Path, kind: Kind, settings: dict[str, Any]
) -> None:
    program = PROGRAMS / "causes.py"
    with cluster.driver(tmp_path, program, str(tmp_path), kind, initial=2, settings=settings) as it:
        status = it.wait(lambda s: cause_of(s).kind == kind, f"{kind} to be named", 120)

    assert status.tasks is not None and {each.id for each in status.tasks.executors} <= {"0", "1"}
    assert status.tasks.stages and all(each.gc_ms is not None for each in status.tasks.stages)
    assert "tasks" not in status.lacks
