"""The live limits of a Python data source, for the source to look up before each batch.

    from dagster_sparkscale.driver.live_limits import live_limits

    class Reader(DataSourceStreamReader):
        def latestOffset(self, start, limit):
            limits = live_limits("clicks")
            most = limits.get("maxRecordsPerTrigger")   # None: no limit
            ...

It needs the standard library alone, and works where the batches of a query are planned: in the
driver, and in the Python process that Spark starts beside it. Executors have no live limits.
`docs/agent.md` ("Sources") says how a source tells that it heeds them.
"""

import json
import logging
import os
from typing import Any

from .settings import RATES_FILE

EVERY = "*"
"""What stands for a source that the file does not name."""
ESTIMATED = "estimated"
"""True where `maxRecordsPerTrigger` is the driver's own estimate."""

log = logging.getLogger(__name__)


def live_limits(source: str) -> dict[str, Any]:
    """The limits in force now, by name; empty: there are none.

    `maxRecordsPerTrigger` (records of a batch), `maxBytesPerTrigger` (bytes) and
    `maxSpanPerTrigger` (seconds of the source's time). Where `estimated` is true, the first of
    these is what the driver believes that a batch can have: a limit of the source's own stands
    beside it, and the smaller one counts. What a person has set stands for the source's own.

    A file that can't be read is said (logging), and no limit: it is no reason to stop a stream.

    Args:
        source: the source's name, which its report has in `stream`.
    """
    path = os.environ.get(RATES_FILE)
    if not path:
        return {}
    try:
        with open(path) as file:
            content = json.load(file)
        found = content[source] if source in content else content.get(EVERY)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        log.warning("live limits in %s cannot be read: %s", path, error)
        return {}
    return found if isinstance(found, dict) else {}
