"""What a driver that is shipped to a worker is sent, and how it is told of from there. Pure."""

import json
import zlib
from collections.abc import Mapping
from typing import Any

from .ending.end_report import PARTS

CODE = "dagster_sparkscale.zip"
"""This package and the sources, in the driver's folder from the beginning."""
BEGINS = "sparkscale: {"
"""Begins a line that reports on the driver: by the names below, what it has left. The last one
counts."""

AGENT = "agent.json"
EXIT = "exit.json"
FILES = (AGENT, *(f"{part}.json" for part in PARTS), EXIT)


def pack(start: Mapping[str, Any]) -> bytes:
    """A start as it is sent. See `shipped_main.main`."""
    return zlib.compress(json.dumps(start).encode(), 9)


def unpack(packed: bytes) -> dict[str, Any]:
    """What `pack` was given."""
    start: dict[str, Any] = json.loads(zlib.decompress(packed))
    return start


def line(report: Mapping[str, Any]) -> str:
    """The line with this report."""
    return f"{BEGINS[:-1]}{json.dumps(report)}"


def last_report(written: str) -> dict[str, Any] | None:
    """The last report in what was written; None: there is none."""
    for each in reversed(written.splitlines()):
        if each.startswith(BEGINS):
            try:
                report = json.loads(each.removeprefix(BEGINS[:-1]))
            except ValueError:  # cut, or somebody else's
                continue
            if isinstance(report, dict):
                return report
    return None
