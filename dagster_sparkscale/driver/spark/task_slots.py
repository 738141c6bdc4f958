"""How many tasks Spark can run at a time."""

from typing import Any

from .features import SLOTS
from .private import PrivateSpark


def registered(context: Any, private: PrivateSpark) -> int | None:
    """Task slots of the executors that have registered and stay; None: Spark does not tell."""
    spark = context._jsc.sc()
    return private.use(
        SLOTS,
        lambda: int(
            spark.maxNumConcurrentTasks(spark.resourceProfileManager().defaultResourceProfile())
        ),
        None,
    )
