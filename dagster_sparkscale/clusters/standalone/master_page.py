"""The drivers and workers on a master's overview page. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
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


class Page(dict[str, Any]):
    """An overview that is read for many streams: what each needs of it is sought once for all."""

    @cached_property
    def drivers(self) -> Mapping[str, ListedDriver]:
        return _drivers(self)

    @cached_property
    def hosts(self) -> Mapping[str, str]:
        return _hosts(self)

    @cached_property
    def alive(self) -> "_Alive":
        return _alive(self)


class _Alive(NamedTuple):
    """The web UIs of the workers that live."""

    by_worker: Mapping[str, Sequence[str]]
    by_host: Mapping[str, Sequence[str]]


def drivers(overview: Mapping[str, Any]) -> Mapping[str, ListedDriver]:
    """The drivers of an overview by their ids. Entries without Spark's form are passed over."""
    return overview.drivers if isinstance(overview, Page) else _drivers(overview)


def _drivers(overview: Mapping[str, Any]) -> dict[str, ListedDriver]:
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
    hosts = overview.hosts if isinstance(overview, Page) else _hosts(overview)
    return None if worker is None else hosts.get(worker)


def _hosts(overview: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in _objects(overview, "workers"):
        id, host = each.get("id"), each.get("host")
        if isinstance(id, str) and isinstance(host, str):
            found.setdefault(id, host)
    return found


def web_uis(overview: Mapping[str, Any], worker: str | None, host: str | None) -> list[str]:
    """The web UIs that can show what a driver has written: its worker's, or, when that is gone,
    those of the workers on its host now, which may have the same folder."""
    alive = overview.alive if isinstance(overview, Page) else _alive(overview)
    its = alive.by_worker.get(worker) if worker is not None else None
    there = alive.by_host.get(host) if host is not None else None
    return list(its or there or ())


def _alive(overview: Mapping[str, Any]) -> _Alive:
    by_worker: dict[str, list[str]] = {}
    by_host: dict[str, list[str]] = {}
    for each in _objects(overview, "workers"):
        url = each.get("webuiaddress")
        if each.get("state") == "ALIVE" and isinstance(url, str) and url:
            for key, urls in ((each.get("id"), by_worker), (each.get("host"), by_host)):
                if isinstance(key, str):
                    urls.setdefault(key, []).append(url)
    return _Alive(by_worker, by_host)


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
