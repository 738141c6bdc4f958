"""What the Spark and the Dagster that tests run on can do: `make test-spark` and
`make test-dagster` run them on others."""

import dagster as dg
import pyspark
import pytest
from packaging.version import Version

from dagster_sparkscale.driver.spark.releases import is_before

# No name in Python, and what Dagster takes: before 1.13 no dot (docs/declaring.md).
PREFIX = ("raw", "web-logs.v2" if Version(dg.__version__) >= Version("1.13") else "web-logs")


def has(least: str) -> bool:
    """Whether it is that release, such as "4.2", or a later one."""
    return not is_before(least, pyspark.__version__)


CHANGES_STATE = pytest.mark.skipif(
    not has("4.2"), reason="Spark changes the partitions of state from 4.2 on"
)
