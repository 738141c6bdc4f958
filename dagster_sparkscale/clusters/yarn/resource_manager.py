"""Asks ResourceManagers and NodeManagers, by their web services.

What must not change: what does not answer is `Unanswered`, never an empty answer.
"""

import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

from dagster_sparkscale.clusters.agents import timed_http
from dagster_sparkscale.clusters.capacity import Capacity
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.yarn import applications
from dagster_sparkscale.clusters.yarn.applications import Application

_LARGEST = 64_000_000
"""Bytes of an answer that are read: some 30,000 applications."""


class Unanswered(ClusterError):
    """Nobody in charge has answered. It says nothing about any application."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """One that stands by sends to the one in charge, which is asked in its turn."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


@dataclass(frozen=True)
class Web:
    """How the web services of a YARN are asked."""

    user: str
    """The user name that is sent where YARN believes it (simple authentication)."""
    ca_file: str | None = None
    """Certificates by which those are known that speak HTTPS, PEM; None: what REQUESTS_CA_BUNDLE
    names, or the system's."""

    def ask(
        self,
        method: str,
        url: str,
        query: Mapping[str, str],
        body: Any = None,
        timeout: float = 5.0,
        follow: bool = True,
        accept: str = "application/json",
    ) -> bytes:
        """What is answered.

        Args:
            timeout: seconds for all of it.

        Raises:
            urllib.error.HTTPError: it is refused, or sent elsewhere and that is not followed.
            OSError, HTTPException, ValueError: nothing is.
        """
        request = urllib.request.Request(
            f"{url}?{urlencode({**query, 'user.name': self.user})}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Accept": accept, "Content-Type": "application/json"},
        )
        context = self._tls() if url.startswith("https:") else None
        other = () if follow else (_NoRedirects(),)
        with timed_http.answer(request, timeout, *other, context=context) as answer:
            return answer.read(_LARGEST)

    def _tls(self) -> ssl.SSLContext:
        ca_file = self.ca_file or os.environ.get("REQUESTS_CA_BUNDLE")
        if ca_file is None:
            return ssl.create_default_context()
        try:
            folder = os.path.isdir(ca_file)
            return ssl.create_default_context(
                cafile=None if folder else ca_file, capath=ca_file if folder else None
            )
        except OSError as error:
            what = "ca_file" if self.ca_file else "REQUESTS_CA_BUNDLE"
            said = error.strerror or error
            raise ValueError(f"{what} = {ca_file!r}: must be certificates, PEM: {said}") from None


@dataclass(frozen=True)
class ResourceManager:
    """The ResourceManager in charge, of several that stand by for each other."""

    urls: Sequence[str]
    web: Web
    glancing: ClassVar[bool] = False
    """Whether many drivers are looked at in a row, by whom nothing is waited for."""

    def alive(self, kind: str) -> list[Application]:
        """The user's applications of that kind that live.

        Raises:
            Unanswered: it can't be told.
        """
        return self._applications(
            {
                "user": self.web.user,
                "states": ",".join(applications.ALIVE),
                "applicationTypes": kind,
                "deSelects": "resourceRequests",
            }
        )

    def tagged(self, *tags: str) -> list[Application]:
        """All applications with one of those tags that YARN knows, ended ones too.

        Raises:
            Unanswered: it can't be told.
        """
        found = self._applications(
            {"applicationTags": ",".join(tags), "deSelects": "resourceRequests"}
        )
        # What is had from here is killed: nothing may come in that was not asked for, as where a
        # proxy before it passes no query on.
        return [each for each in found if not each.tags.isdisjoint(tags)]

    def kill(self, application: str) -> None:
        """Have YARN end an application. An ended one stays as it is.

        Raises:
            Unanswered: YARN does not say whether it will.
        """
        path = f"/ws/v1/cluster/apps/{quote(application)}/state"
        self._ask("PUT", path, {}, {"state": "KILLED"})

    def nodes(self) -> Any:
        """The nodes, as YARN lists them.

        Raises:
            Unanswered: no ResourceManager answers.
        """
        return self._ask("GET", "/ws/v1/cluster/nodes", {})

    def last_report(self, node: str) -> int | None:
        """When the NodeManager at `node` last reported its health, by the node's clock. None: it
        never did, or YARN has given the node up.

        Raises:
            Unanswered: it can't be told.
        """
        try:
            nodes = (self.nodes().get("nodes") or {}).get("node", ())
            reports = [
                each.get("lastHealthUpdate")
                for each in nodes
                if each.get("nodeHTTPAddress") == node and each.get("state") == "RUNNING"
            ]
            return reports[0] if reports else None
        except (AttributeError, TypeError):
            raise Unanswered(f"{self._who}: told no list of nodes") from None

    def environment(self, app: Application) -> dict[str, str]:
        """The Spark settings of a running application, from its own pages: at YARN's address for
        them, or through the ResourceManager, which may be reached by another way from here.

        Raises:
            Unanswered: no page shows the settings (yet).
        """
        ours = [f"{url.rstrip('/')}/proxy/{quote(app.id)}" for url in self.urls]
        pages = [app.pages.rstrip("/")] if app.pages else []
        faults = []
        for each in dict.fromkeys([*pages, *ours]):
            url = f"{each}/api/v1/applications/{quote(app.id)}/environment"
            try:
                content = json.loads(self.web.ask("GET", url, {}, timeout=2.0))
                return {str(key): str(value) for key, value in content["sparkProperties"]}
            except (OSError, HTTPException) as error:
                faults.append(f"{each}: {_fault(error)}")
            except (KeyError, TypeError, ValueError):
                faults.append(f"{each}: answers, but not as Spark does")
        raise Unanswered(f"no page of {app.id} answers ({'; '.join(faults)})")

    def check(self) -> str:
        """Describe the ResourceManager in charge.

        Raises:
            Unanswered: no ResourceManager is in charge.
        """
        metrics = self._ask("GET", "/ws/v1/cluster/metrics", {}).get("clusterMetrics")
        if not isinstance(metrics, dict):
            raise Unanswered(f"{self._who}: answered something else than a ResourceManager")
        return f"{self._who}: {metrics.get('activeNodes')} nodes"

    def _applications(self, query: dict[str, str]) -> list[Application]:
        content = self._ask("GET", "/ws/v1/cluster/apps", query)
        try:
            return applications.read(content)
        except ValueError as error:
            raise Unanswered(f"a ResourceManager of {self._who} answered {error}") from None

    @property
    def _who(self) -> str:
        return ", ".join(self.urls)

    def _ask(self, method: str, path: str, query: dict[str, str], body: Any = None) -> Any:
        faults = []
        for url in self.urls:
            try:
                answer = self.web.ask(method, f"{url.rstrip('/')}{path}", query, body, follow=False)
                content = json.loads(answer)
            except (OSError, HTTPException, ValueError) as error:
                faults.append(f"{url}: {_fault(error)}")
                continue
            if isinstance(content, dict):
                return content
            faults.append(f"{url}: answered something else than a ResourceManager")
        raise Unanswered(f"no ResourceManager answers ({'; '.join(faults)})")


def _fault(error: Exception) -> str:
    """Why there is no answer, in words; those of YARN where it has said some."""
    if not isinstance(error, urllib.error.HTTPError):
        return str(error)
    if 300 <= error.code < 400:
        error.close()
        return "stands by"
    try:
        with error:
            said = json.loads(error.read(_LARGEST))["RemoteException"]["message"]
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        said = None
    why = f": {applications.in_one_line(said)}" if isinstance(said, str) and said else ""
    return f"HTTP {error.code}{why}"


def room_of(manager: ResourceManager) -> Capacity | None:
    """What the nodes offer now; None where that can't be told."""
    try:
        return applications.room(manager.nodes())
    except (Unanswered, ValueError):
        return None


def runs(node_url: str, container: str, web: Web) -> bool | None:
    """Whether a NodeManager has that container still; None: it can't be told."""
    try:
        answer = json.loads(
            web.ask("GET", f"{node_url}/ws/v1/node/containers/{quote(container)}", {})
        )
    except urllib.error.HTTPError as error:
        error.close()
        return False if error.code == 404 else None
    except (OSError, HTTPException, ValueError):
        return None
    found = answer.get("container") if isinstance(answer, dict) else None
    state = found.get("state") if isinstance(found, dict) else None
    return None if state is None else state not in ("COMPLETE", "DONE")


def log(node_url: str, container: str, name: str, size: int, web: Web) -> str | None:
    """The last `size` bytes of a container's log, as its NodeManager has it, or the server of
    gathered logs that it sends to; None: they don't."""
    url = f"{node_url}/ws/v1/node/containers/{quote(container)}/logs/{quote(name)}"
    try:
        text = web.ask("GET", url, {"size": str(-size)}, accept="*/*")
    except (OSError, HTTPException, ValueError):  # an HTTPError is an OSError
        return None
    return applications.log_in(text.decode("utf-8", "replace"))
