"""Live limits as the tests set them: their names, the file they are in, and what is refused."""

import json
from typing import Any

from dagster_sparkscale.driver.backpressure.rates import Rates

RECORDS, BYTES, SPAN = "maxRecordsPerTrigger", "maxBytesPerTrigger", "maxSpanPerTrigger"
RATE = "maxRate"


def written(rates: Rates) -> Any:
    assert rates.file is not None
    return json.loads(rates.file.read_text())


BAD = [
    (None, "rates: missing: must be an object with the limits of each source"),
    ([], "rates: []: must be an object with the limits of each source"),
    ({"clicks": 5}, "rates.clicks: 5: must be an object with limits, or null"),
    ({"": {}}, 'rates: "": a source\'s name must have 1 to 255 characters'),
    ({"x" * 256: {}}, 'rates: "' + "x" * 39 + ": a source's name must have 1 to 255 characters"),
    (
        {"clicks": {"records": 5}},
        f"rates.clicks.records: no such limit; there are {RATE}, {RECORDS}, {BYTES}, {SPAN}",
    ),
    *(
        (
            {"clicks": {name: value}},
            f"rates.clicks.{name}: {json.dumps(value)}: must be a whole number above 0, "
            "or null for no limit",
        )
        for name in (RECORDS, BYTES)
        for value in (0, -1, 1.0, 2.5, True, "5", [], {})
    ),
    *(
        (
            {"clicks": {SPAN: value}},
            f"rates.clicks.{SPAN}: {json.dumps(value)}: must be a number of seconds above 0, "
            "or null for no limit",
        )
        for value in (0, -0.5, float("nan"), float("inf"), True, "5 s", 2**63)
    ),
]
"""What nobody may ask for, and what is said of it."""
