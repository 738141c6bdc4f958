"""What a driver has written, as the web UI of its worker shows it. Reads only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Literal
from urllib.parse import urlencode

from dagster_sparkscale.clusters.agents import timed_urls
from dagster_sparkscale.clusters.standalone.master_page import reached_at
from dagster_sparkscale.driver.begin import shipped

MOST = 65_536
"""Bytes that are looked through at either end of what was written."""
_HEAD = "==== Bytes "


@dataclass(frozen=True)
class Output:
    """What one driver has written."""

    driver: str
    """Its id."""
    web_uis: Sequence[str]
    """Of the workers that may show it."""

    def is_marked(self, mark: str) -> bool:
        """Whether that mark is in its command line, with which its log begins."""
        for url in self.web_uis:
            written = page(url, self.driver, "stderr", at_the_end=False) or ""
            if f'"{mark}"' in written.partition("\n====")[0]:
                return True
        return False

    def agent(self) -> Mapping[str, Any] | None:
        """Where its agent is, as it has announced it; None: it has not."""
        for url in self.web_uis:
            written = page(url, self.driver, "stdout", at_the_end=False) or ""
            note = (shipped.last_word(written) or {}).get(shipped.AGENT)
            if isinstance(note, dict) and isinstance(note.get("url"), str):
                return {**note, "url": reached_at(note["url"], url)}
        return None

    def last_word(self) -> Mapping[str, Any] | None:
        """What its keeper has told of it; empty: nothing. None: no worker shows that."""
        told = None
        for url in self.web_uis:
            written = page(url, self.driver, "stdout")
            if written is not None and (told := shipped.last_word(written) or {}):
                break
        return told

    def log(self, lines: int) -> str:
        """The last lines of its log, and of what its JVM has printed, as a console sink does, which
        has half of them at most."""
        for url in self.web_uis:
            log = page(url, self.driver, "stderr", size=200 * lines + MOST)
            if log is None:
                continue
            printed = _without_words(page(url, self.driver, "stdout") or "")
            other = _last(printed, lines // 2)
            return "\n".join([*_last(log.splitlines(), lines - len(other)), *other])
        return ""


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
    worker does not tell.

    Args:
        timeout: seconds for all of it.
    """
    asked: dict[str, str | int] = {"driverId": driver, "logType": which, "byteLength": size}
    if not at_the_end:
        asked["offset"] = 0
    try:
        url = f"{web_url.rstrip('/')}/log/?{urlencode(asked)}"
        with timed_urls.answer(url, timeout) as answer:
            text = answer.read(size + 10_000).decode("utf-8", "replace")
    except (OSError, HTTPException, ValueError):  # an URLError is an OSError
        return None
    head, _, written = text.partition("\n")
    return written if head.startswith(_HEAD) else None


def _without_words(written: str) -> list[str]:
    """The lines that are not the keeper's. Pure."""
    return [line for line in written.splitlines() if line and not line.startswith(shipped.WORD)]


def _last(lines: list[str], number: int) -> list[str]:
    return lines[-number:] if number > 0 else []
