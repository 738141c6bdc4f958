"""What a driver that is shipped to a worker is sent, and how it is told of from there. Pure."""

import json
import zlib
from collections.abc import Mapping
from typing import Any

from .ending.end_report import PARTS

CODE = "dagster_sparkscale.zip"
"""This package and the sources, in the driver's folder from the beginning."""
WORD = "sparkscale: {"
"""Begins a line that tells of the driver: by the names below, what it has left word of. The last
one counts."""

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


def line(words: Mapping[str, Any]) -> str:
    """The line that tells these words."""
    return f"{WORD[:-1]}{json.dumps(words)}"


def last_word(written: str) -> dict[str, Any] | None:
    """What was told last in what was written; None: nothing."""
    for each in reversed(written.splitlines()):
        if each.startswith(WORD):
            try:
                told = json.loads(each.removeprefix(WORD[:-1]))
            except ValueError:  # cut, or somebody else's
                continue
            if isinstance(told, dict):
                return told
    return None
