"""What a driver has written, as the web UI of its worker shows it. Reads only."""

import urllib.request
from http.client import HTTPException
from typing import Literal
from urllib.parse import urlencode

from dagster_sparkscale.driver.shipped import WORD

MOST = 65_536
"""Bytes that are looked through at either end of what was written."""
_HEAD = "==== Bytes "


def page(
    web_url: str,
    driver: str,
    which: Literal["stdout", "stderr"],
    *,
    at_the_end: bool = True,
    size: int = MOST,
    timeout: float = 5.0,
) -> str | None:
    """So many bytes from the end, or the beginning, of what a driver has written; None where its
    worker does not tell."""
    asked: dict[str, str | int] = {"driverId": driver, "logType": which, "byteLength": size}
    if not at_the_end:
        asked["offset"] = 0
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        url = f"{web_url.rstrip('/')}/log/?{urlencode(asked)}"
        with opener.open(url, timeout=timeout) as answer:
            text = answer.read(size + 10_000).decode("utf-8", "replace")
    except (OSError, HTTPException, ValueError):  # an URLError is an OSError
        return None
    head, _, written = text.partition("\n")
    return written if head.startswith(_HEAD) else None


def without_words(written: str) -> list[str]:
    """The lines that are not the keeper's. Pure."""
    return [line for line in written.splitlines() if line and not line.startswith(WORD)]
