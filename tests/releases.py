"""What the Spark that tests run on can do: `make test-spark` runs them on others."""

import pyspark

from dagster_sparkscale.driver.releases import TooOld, need


def has(least: str) -> bool:
    """Whether it is that release, such as "4.2", or a later one."""
    try:
        need("", least, pyspark.__version__)
    except TooOld:
        return False
    return True
