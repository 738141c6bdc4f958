"""Limits that change while a query runs: the agent of the driver writes them down, and they are
looked up at every batch."""

import json
import logging
import os
from dataclasses import replace
from typing import Any

from dagster_sparkscale.driver.wire import RATES_FILE

from .options import Limits, Options

log = logging.getLogger(__name__)

MOST = 1e18
"""More is no limit."""


def live(options: Options) -> Limits:
    """The limits of the options, with those in force now in their place."""
    given = _given(options.connection.stream)
    limits = options.limits
    if records := _number(given.get("maxRecordsPerTrigger")):
        limits = replace(limits, records=max(1, round(records)))
    if size := _number(given.get("maxBytesPerTrigger")):
        limits = replace(limits, bytes=max(1, round(size)))
    if seconds := _number(given.get("maxSpanPerTrigger")):
        limits = replace(limits, span_ms=max(1, round(seconds * 1000)))
    return limits


def _number(value: Any) -> int | float | None:
    """A limit, or None for what is none: it may be of any type, not a number, or endless."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 < value < MOST else None


def _given(stream: str) -> dict[str, Any]:
    path = os.environ.get(RATES_FILE)
    if not path:
        return {}
    try:
        with open(path) as file:
            found = json.load(file).get(stream) or {}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as error:
        # A limit that cannot be read is no reason to stop a stream.
        log.warning("live limits in %s cannot be read: %s", path, error)
        return {}
    return found if isinstance(found, dict) else {}
