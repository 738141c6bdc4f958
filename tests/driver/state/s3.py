"""An object store for tests of state, by which Spark's releases it can be reached."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from dagster_sparkscale.driver.spark.releases import minor
from dev.s3.connector import WORKS_ON
from dev.s3.server import Store, tethered


@contextmanager
def served(folder: Path, *options: str) -> Iterator[Store]:
    if minor(pyspark.__version__) not in WORKS_ON:
        pytest.skip(f"the connector works on Spark {' and '.join(WORKS_ON)}")
    with tethered(folder / "s3.log", *options) as store:
        yield store
