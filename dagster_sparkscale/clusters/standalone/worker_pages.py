"""The output of a driver on the web UI of its worker. Reads only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Literal
from urllib.parse import urlencode

from dagster_sparkscale.clusters.agents import timed_http
from dagster_sparkscale.clusters.standalone.master_page import reached_at
from dagster_sparkscale.driver import shipped

MOST = 65_536
"""Bytes at either end of the output that are searched."""
_HEAD = "==== Bytes "


@dataclass(frozen=True)
class Output:
    """The output of one driver."""

    driver: str
    """The id of the driver."""
    web_uis: Sequence[str]
    """The web UIs of the workers that may show it."""

    def is_marked(self, mark: str) -> bool:
        """Whether the driver's command line, with which its log begins, has that mark."""
        for url in self.web_uis:
            written = page(url, self.driver, "stderr", at_the_end=False) or ""
            if f'"{mark}"' in written.partition("\n====")[0]:
                return True
        return False

    def agent(self) -> Mapping[str, Any] | None:
        """The agent's announcement; None: the driver has made none."""
        for url in self.web_uis:
            written = page(url, self.driver, "stdout", at_the_end=False) or ""
            note = (shipped.last_report(written) or {}).get(shipped.AGENT)
            if isinstance(note, dict) and isinstance(note.get("url"), str):
                return {**note, "url": reached_at(note["url"], url)}
        return None

    def last_report(self) -> Mapping[str, Any] | None:
        """The last report of the driver's keeper; empty: it made none. None: no worker shows the
        output."""
        report = None
        for url in self.web_uis:
            written = page(url, self.driver, "stdout")
            if written is not None and (report := shipped.last_report(written) or {}):
                break
        return report

    def log(self, lines: int) -> str:
        """The last lines of the driver's log, and of what its JVM printed, such as a console sink:
        half of them at most."""
        for url in self.web_uis:
            log = page(url, self.driver, "stderr", size=200 * lines + MOST)
            if log is None:
                continue
            printed = _without_reports(page(url, self.driver, "stdout") or "")
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
    """Read `size` bytes from the end, or the beginning, of a driver's output; None where its worker
    does not show it.

    Args:
        timeout: seconds for the whole request.
    """
    asked: dict[str, str | int] = {"driverId": driver, "logType": which, "byteLength": size}
    if not at_the_end:
        asked["offset"] = 0
    try:
        url = f"{web_url.rstrip('/')}/log/?{urlencode(asked)}"
        with timed_http.answer(url, timeout) as answer:
            text = answer.read(size + 10_000).decode("utf-8", "replace")
    except (OSError, HTTPException, ValueError):  # an URLError is an OSError
        return None
    head, _, written = text.partition("\n")
    return written if head.startswith(_HEAD) else None


def _without_reports(written: str) -> list[str]:
    """The lines that are not the keeper's. Pure."""
    return [line for line in written.splitlines() if line and not line.startswith(shipped.BEGINS)]


def _last(lines: list[str], number: int) -> list[str]:
    return lines[-number:] if number > 0 else []
