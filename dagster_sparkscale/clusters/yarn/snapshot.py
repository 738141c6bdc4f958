"""The applications of all streams at one moment: a few questions, whatever their number.

One question lists what lives. A driver that is not among them has ended since, or is another
user's, or YARN has forgotten it: it is asked for alone, and where there are many such, as after a
ResourceManager was started anew without what it knew, all of them together.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dagster_sparkscale.clusters.yarn.applications import Application
from dagster_sparkscale.clusters.yarn.resource_manager import ResourceManager, Unanswered

ONE_BY_ONE = 20
"""Drivers that are asked for one by one, before all are asked for together."""
TOGETHER = 100
"""Tags in a question: 3 KB, where proxies take 8."""


@dataclass(frozen=True)
class Snapshot(ResourceManager):
    """The ResourceManager in charge, as it was a moment ago. For many threads at once."""

    glancing: ClassVar[bool] = True
    listed: Mapping[str, list[Application]] = field(default_factory=dict, repr=False)
    """The user's applications that lived, by each of their tags."""
    silent: str | None = None
    """Why no ResourceManager answered: none is asked again. None: one did."""
    tags: Callable[[], Iterable[str]] = tuple
    """Tells the tags of all drivers that are not known to have ended."""
    _later: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """What was asked for after that, or the error that came of it."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def tagged(self, *tags: str) -> list[Application]:
        if self.silent is not None:
            raise Unanswered(self.silent)
        if len(tags) > 1:
            return super().tagged(*tags)
        (tag,) = tags
        if tag in self.listed:
            return self.listed[tag]
        with self._lock:
            alone = self._later["alone"] = self._later.get("alone", 0) + 1
        if alone <= ONE_BY_ONE:
            return super().tagged(tag)
        together: dict[str, list[Application]] = self._once("together", self._together)
        return together[tag] if tag in together else super().tagged(tag)

    def nodes(self) -> Any:
        if self.silent is not None:
            raise Unanswered(self.silent)
        return self._once("nodes", super().nodes)

    def _together(self) -> dict[str, list[Application]]:
        found: dict[str, list[Application]] = {}
        missing = [tag for tag in self.tags() if tag not in self.listed]
        for first in range(0, len(missing), TOGETHER):
            some = missing[first : first + TOGETHER]
            by_tag = _by_tag(super().tagged(*some))
            found |= {tag: by_tag.get(tag, []) for tag in some}
        return found

    def _once(self, what: str, ask: Callable[[], Any]) -> Any:
        """What `ask` brings, or its error: each of a thousand streams would wait for that."""
        with self._lock:
            if what not in self._later:
                try:
                    self._later[what] = ask()
                except Unanswered as error:
                    self._later[what] = error
            found = self._later[what]
        if isinstance(found, Unanswered):
            raise found
        return found


def take_snapshot(
    manager: ResourceManager, kind: str, tags: Callable[[], Iterable[str]] = tuple
) -> Snapshot:
    """Ask which applications of the user live.

    Args:
        kind: what YARN calls applications such as the streams': `SPARK`.
        tags: tells the tags of all drivers that are not known to have ended, if that is needed.
    """
    try:
        listed, silent = _by_tag(manager.alive(kind)), None
    except Unanswered as error:
        listed, silent = {}, str(error)
    return Snapshot(manager.urls, manager.web, listed, silent, tags)


def _by_tag(found: Iterable[Application]) -> dict[str, list[Application]]:
    by_tag: dict[str, list[Application]] = {}
    for each in found:
        for tag in each.tags:
            by_tag.setdefault(tag, []).append(each)
    return by_tag
