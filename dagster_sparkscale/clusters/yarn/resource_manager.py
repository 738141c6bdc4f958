"""Asks ResourceManagers and NodeManagers, by their web services.

What must not change: what does not answer is `Unanswered`, never an empty answer.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, urlencode

from dagster_sparkscale.clusters.base import Capacity
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.yarn import applications
from dagster_sparkscale.clusters.yarn.applications import Application

_LARGEST = 64_000_000
"""Bytes of an answer that are read."""


class Unanswered(ClusterError):
    """Nobody in charge has answered. It says nothing about any application."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """One that stands by sends to the one in charge, which is asked in its turn."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


# Without proxies: they are on this network.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects())
_following = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class ResourceManager:
    """The ResourceManager in charge, of several that stand by for each other."""

    urls: Sequence[str]
    user: str
    """Who asks, where YARN believes what it is told (simple authentication)."""
    timeout: float = 5.0
    """Seconds for each answer."""

    def tagged(self, tag: str) -> list[Application]:
        """All applications with that tag that it knows of, those that have ended too.

        Raises:
            Unanswered: it can't be told.
        """
        content = self._ask("GET", "/ws/v1/cluster/apps", {"applicationTags": tag})
        try:
            told = applications.read(content)
        except ValueError as error:
            raise Unanswered(f"a ResourceManager of {self._who} answered {error}") from None
        # What is had from here is killed: nothing may come in that was not asked for, as where a
        # proxy before it passes no query on.
        return [each for each in told if tag in each.tags]

    def kill(self, application: str) -> None:
        """Have it end an application. One that has ended is left as it is.

        Raises:
            Unanswered: it can't be told whether it will.
        """
        path = f"/ws/v1/cluster/apps/{quote(application)}/state"
        self._ask("PUT", path, {}, {"state": "KILLED"})

    def nodes(self) -> Any:
        """What it says of its nodes.

        Raises:
            Unanswered: it says nothing.
        """
        return self._ask("GET", "/ws/v1/cluster/nodes", {})

    def node_runs(self, node: str) -> bool:
        """Whether it hears from the NodeManager whose web services are at `node`.

        Raises:
            Unanswered: it can't be told.
        """
        try:
            told = (self.nodes().get("nodes") or {}).get("node", ())
            return any(
                each.get("nodeHTTPAddress") == node and each.get("state") == "RUNNING"
                for each in told
            )
        except (AttributeError, TypeError):
            raise Unanswered(f"{self._who}: told no list of nodes") from None

    def environment(self, application: str) -> dict[str, str]:
        """The Spark settings of an application that runs, by its own page.

        Raises:
            Unanswered: it does not tell (yet).
        """
        path = f"/proxy/{quote(application)}/api/v1/applications/{quote(application)}/environment"
        content = self._ask("GET", path, {}, timeout=2.0)
        try:
            return {str(key): str(value) for key, value in content["sparkProperties"]}
        except (KeyError, TypeError, ValueError):
            raise Unanswered(f"{application} does not tell its settings") from None

    def check(self) -> str:
        """What the one in charge is, in words.

        Raises:
            Unanswered: there is none.
        """
        told = self._ask("GET", "/ws/v1/cluster/metrics", {}).get("clusterMetrics")
        if not isinstance(told, dict):
            raise Unanswered(f"{self._who}: answered something else than a ResourceManager")
        return f"{self._who}: {told.get('activeNodes')} nodes"

    @property
    def _who(self) -> str:
        return ", ".join(self.urls)

    def _ask(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: Any = None,
        timeout: float | None = None,
    ) -> Any:
        faults = []
        asked = urlencode({**query, "user.name": self.user})
        for url in self.urls:
            request = urllib.request.Request(
                f"{url.rstrip('/')}{path}?{asked}",
                method=method,
                data=None if body is None else json.dumps(body).encode(),
                headers={"Accept": "application/json", "Content-Type": "application/json"},
            )
            try:
                with _direct.open(request, timeout=timeout or self.timeout) as answer:
                    content = json.loads(answer.read(_LARGEST))
            except urllib.error.HTTPError as error:
                stands_by = 300 <= error.code < 400
                faults.append(f"{url}: " + ("stands by" if stands_by else f"HTTP {error.code}"))
                error.close()
                continue
            except (OSError, HTTPException, ValueError) as error:
                faults.append(f"{url}: {error}")
                continue
            if isinstance(content, dict):
                return content
            faults.append(f"{url}: answered something else than a ResourceManager")
        raise Unanswered(f"no ResourceManager answers ({'; '.join(faults)})")


def room_of(manager: ResourceManager) -> Capacity | None:
    """What the nodes offer now; None where that can't be told."""
    try:
        cores, free, lines = applications.room(manager.nodes())
    except (Unanswered, ValueError):
        return None
    return Capacity(cores, free, len(lines), tuple(lines))


def runs(node: str, container: str, user: str, timeout: float = 5.0) -> bool | None:
    """Whether a NodeManager has that container still; None: it can't be told."""
    url = f"http://{node}/ws/v1/node/containers/{quote(container)}?{urlencode({'user.name': user})}"
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    try:
        with _following.open(request, timeout=timeout) as answer:
            told = json.loads(answer.read(_LARGEST))
    except urllib.error.HTTPError as error:
        error.close()
        return False if error.code == 404 else None
    except (OSError, HTTPException, ValueError):
        return None
    found = told.get("container") if isinstance(told, dict) else None
    state = found.get("state") if isinstance(found, dict) else None
    return None if state is None else state not in ("COMPLETE", "DONE")


def log(
    node: str, container: str, name: str, size: int, user: str, timeout: float = 5.0
) -> str | None:
    """The last `size` bytes of a container's log, as its NodeManager has it, or the server of
    gathered logs that it sends to; None: they don't."""
    asked = urlencode({"size": -size, "user.name": user})
    url = f"http://{node}/ws/v1/node/containers/{quote(container)}/logs/{quote(name)}?{asked}"
    try:
        with _following.open(url, timeout=timeout) as answer:
            text = answer.read(_LARGEST).decode("utf-8", "replace")
    except (OSError, HTTPException):  # an HTTPError is an OSError
        return None
    return applications.log_in(text)
