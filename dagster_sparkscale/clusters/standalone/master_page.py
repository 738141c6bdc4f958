"""The drivers and workers on a master's overview page. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from dagster_sparkscale.clusters.standalone.submission import MAIN_CLASS

ENDED = ("FINISHED", "FAILED", "KILLED")
"""States in which the worker itself reports the end of the JVM. ERROR is no such state: a driver
whose worker is lost has it too, and may run on."""


@dataclass(frozen=True)
class ListedDriver:
    """One driver on the page of the master in charge."""

    id: str
    state: str
    """SUBMITTED, RUNNING, FINISHED, RELAUNCHING, UNKNOWN, KILLED, FAILED or ERROR."""
    worker: str | None
    """The id of its worker; None: no worker has it yet."""
    ours: bool
    """Whether `submission` can have made it."""


def drivers(overview: Mapping[str, Any]) -> dict[str, ListedDriver]:
    """The drivers of an overview by their ids. Entries without Spark's form are passed over."""
    found = {}
    for which in ("completeddrivers", "activedrivers"):
        for each in _objects(overview, which):
            id, state, worker = each.get("id"), each.get("state"), each.get("worker")
            if isinstance(id, str) and isinstance(state, str):
                known = worker if isinstance(worker, str) and worker != "None" else None
                found[id] = ListedDriver(id, state, known, each.get("mainclass") == MAIN_CLASS)
    return found


def host_of(overview: Mapping[str, Any], worker: str | None) -> str | None:
    """The host of a worker, by its id; None: the master does not know it (any more)."""
    hosts = [each.get("host") for each in _objects(overview, "workers") if each.get("id") == worker]
    return hosts[0] if hosts and isinstance(hosts[0], str) else None


def web_uis(overview: Mapping[str, Any], worker: str | None, host: str | None) -> list[str]:
    """The web UIs that can show what a driver has written: its worker's, or, when that is gone,
    those of the workers on its host now, which may have the same folder."""
    alive = [each for each in _objects(overview, "workers") if each.get("state") == "ALIVE"]
    its = [each for each in alive if each.get("id") == worker]
    there = [each for each in alive if host is not None and each.get("host") == host]
    urls = [each.get("webuiaddress") for each in its or there]
    return [url for url in urls if isinstance(url, str) and url]


def reached_at(agent: str, web_ui: str) -> str:
    """The agent's address, with the host name by which its worker's web UI was reached: the driver
    can't know its host's name elsewhere."""
    host, port = urlsplit(web_ui).hostname or "", urlsplit(agent).port
    name = f"[{host}]" if ":" in host else host
    return urlunsplit(urlsplit(agent)._replace(netloc=f"{name}:{port}"))


def _objects(overview: Mapping[str, Any], which: str) -> Iterator[Mapping[str, Any]]:
    listed = overview.get(which)
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict):
            yield each
