"""What a Standalone master says of itself: addresses, and the JSON of its web UI. Reads only."""

import json
import re
from collections.abc import Iterable
from http.client import HTTPException
from typing import Any

from dagster_sparkscale.clusters.agents import timed_http
from dagster_sparkscale.clusters.capacity import Capacity, Free

_MASTER = re.compile(r"^(?P<host>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})$")
_LOOPBACK = re.compile(r"^(localhost|127(\.[0-9]{1,3}){3}|\[::1\])$")


def hosts(master: str) -> list[str]:
    """The host names in `spark://h1:7077,h2:7077`.

    Raises:
        ValueError: the URL has another form; says what would be right.
    """
    rest = master.removeprefix("spark://")
    found = [_MASTER.match(part) for part in rest.split(",")]
    if rest == master or not all(match and 0 < int(match["port"]) < 65536 for match in found):
        raise ValueError(
            f"master = {master!r}: must be the URL of a Standalone master such as "
            '"spark://host:7077", or of several, "spark://host1:7077,host2:7077"'
        )
    return [match["host"] for match in found if match]


def is_loopback(master: str) -> bool:
    """Whether every master named is on the loopback interface."""
    return all(_LOOPBACK.match(host) for host in hosts(master))


def overview(web_url: str, timeout: float) -> dict[str, Any] | None:
    """What the master at `web_url` says of itself; None if it does not answer, all of it in
    `timeout` seconds."""
    try:
        with timed_http.answer(f"{web_url.rstrip('/')}/json/", timeout) as answer:
            content = json.loads(answer.read(16_000_000))
    except (OSError, HTTPException, ValueError):  # an URLError is an OSError
        return None
    return content if isinstance(content, dict) else None


def alive(web_urls: Iterable[str], timeout: float = 5.0) -> dict[str, Any] | None:
    """The overview of the master that is in charge, of several that stand by for each other."""
    for url in web_urls:
        content = overview(url, timeout)
        if content and content.get("status") == "ALIVE":
            return content
    return None


def capacity(content: dict[str, Any]) -> Capacity | None:
    """The capacity in a master's overview; None if it has not the form that Spark gives it."""
    try:
        workers = [worker for worker in content["workers"] if worker["state"] == "ALIVE"]
        cores = sum(int(worker["cores"]) for worker in workers)
        used = sum(int(worker["coresused"]) for worker in workers)
        details = tuple(
            f"{worker['host']}:{worker['port']}: {worker['coresused']} of {worker['cores']} cores "
            f"and {worker['memoryused']} of {worker['memory']} MB in use"
            for worker in workers
        )
        free = tuple(
            Free(
                int(worker["cores"]) - int(worker["coresused"]),
                float(worker["memory"]) - float(worker["memoryused"]),
            )
            for worker in workers
        )
        granted = {str(app["id"]): int(app["cores"]) for app in content.get("activeapps", ())}
    except (KeyError, TypeError, ValueError):
        return None
    return Capacity(cores, cores - used, len(workers), details, free, granted)
