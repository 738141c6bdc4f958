"""What `sparkscale serve` answers, as Prometheus's own client reads it."""

import contextlib
import http.client
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from dagster_sparkscale.driver.metrics.exposition import Sample
from dagster_sparkscale.serve.http import Server
from tests.waiting import HANGS

Found = dict[tuple[str, frozenset[tuple[str, str]]], float]


def found_in(text: str) -> Found:
    """The samples of a text, by name and labels."""
    found: Found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type != "unknown", family
        for each in family.samples:
            key = each.name, frozenset(each.labels.items())
            assert key not in found, key
            found[key] = each.value
    return found


def of(found: Found, name: str, **labels: str) -> float | None:
    """The one sample of that name which has these labels and maybe others; None: there is none."""
    short = f"sparkscale_{name}"
    fits = [v for (n, ls), v in found.items() if n == short and labels.items() <= set(ls)]
    assert len(fits) <= 1, fits
    return fits[0] if fits else None


def named(samples: Iterable[Sample]) -> Found:
    return {(s.metric.name + s.suffix, frozenset(s.labels.items())): s.value for s in samples}


@contextlib.contextmanager
def running(server: Server) -> Iterator[Server]:
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def get(server: Server, path: str = "/metrics", **headers: str) -> tuple[int, str, Any]:
    address = ("127.0.0.1", server.server_port)
    with contextlib.closing(http.client.HTTPConnection(*address, timeout=HANGS)) as client:
        client.request("GET", path, headers=headers)
        answer = client.getresponse()
        return answer.status, answer.read().decode(), answer.headers
