"""What the Spark that tests run on can do: `make test-spark` runs them on others."""

import pyspark

from dagster_sparkscale.driver.releases import is_before


def has(least: str) -> bool:
    """Whether it is that release, such as "4.2", or a later one."""
    return not is_before(least, pyspark.__version__)
