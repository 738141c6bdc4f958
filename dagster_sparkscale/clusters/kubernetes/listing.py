"""Long lists of Kubernetes' API, page by page.

A list of thousands of pods is some 10 KB for each: asked for at once, the API server, this process
and a proxy between them would hold all of it. So it comes in pages, and of each object only that
is kept which is needed.

What must not change: a list is whole, or there is none. The pages of one list are of one moment;
where the API server does not remember that moment any more (410 Gone), what has come of it is
thrown away and the list is begun anew.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from dagster_sparkscale.clusters.errors import ClusterError

Object = dict[str, Any]
T = TypeVar("T")

PAGE = 500
"""Objects in a page, as `kubectl` has them."""
SECONDS = 40.0
"""Seconds for all pages of a list."""
_TRIES = 3
"""Times that a list is begun."""


class Unfinished(ClusterError):
    """A list did not come to its end. What has come of it is not the list."""


class Expired(Exception):
    """The API server does not remember the moment that the list is of any more."""


def listed(
    ask: Callable[[Mapping[str, str]], Object],
    query: Mapping[str, str],
    keep: Callable[[Object], T | None],
    clock: Callable[[], float] = time.monotonic,
) -> list[T]:
    """What is kept of the objects of a list, in the API server's order.

    Args:
        ask: asks for one page, by its query. Raises Expired where that can't be had any more.
        query: what the list is of, such as `labelSelector`.
        keep: what is to be kept of an object; None: nothing.

    Raises:
        Unfinished: it did not come to its end in time.
    """
    deadline = clock() + SECONDS
    for _ in range(_TRIES):
        try:
            return _pages(ask, query, keep, deadline, clock)
        except Expired:
            continue
    raise Unfinished(f"it has changed too fast: its pages expired {_TRIES} times")


def _pages(
    ask: Callable[[Mapping[str, str]], Object],
    query: Mapping[str, str],
    keep: Callable[[Object], T | None],
    deadline: float,
    clock: Callable[[], float],
) -> list[T]:
    kept: list[T] = []
    wanted = {**query, "limit": str(PAGE)}
    while True:
        page = ask(wanted)
        kept += [part for each in page.get("items") or () if (part := keep(each)) is not None]
        # A server that knows no pages gives all at once.
        following = (page.get("metadata") or {}).get("continue")
        if not following:
            return kept
        if clock() > deadline:
            raise Unfinished(f"it had not come to its end after {SECONDS:g} s")
        wanted["continue"] = str(following)
