"""The live page's addresses, and what each answers."""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from dagster import DagsterInstance

from dagster_sparkscale.durations import span
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.operations import asset_key
from dagster_sparkscale.serve.fleet import ANSWERING, ClusterLook, Fleet, unread
from dagster_sparkscale.serve.page import fleet_html, frame, stream_html
from dagster_sparkscale.serve.page.files import KINDS, static, version
from dagster_sparkscale.serve.page.reading import Reader
from dagster_sparkscale.serve.page.stream import (
    DEFAULT,
    RANGES,
    Stored,
    StreamPage,
    live,
    shortest,
    stream_page,
)

READING = 4.0
"""Seconds of an answer for reading the event log back; the next answer goes on from there."""
TOO_OLD = 300.0
"""Seconds without a tick after which nobody watches the streams of a cluster."""
_HTML = "text/html; charset=utf-8"
_JSON = "application/json; charset=utf-8"


@dataclass(frozen=True)
class Answer:
    """What an address answers."""

    code: int
    content: str
    kind: str = _HTML
    lasting: bool = False
    """Whether a browser may keep it."""


class Site:
    """The pages of all clusters that are served.

    Args:
        instance: opens Dagster's instance; None: there is none to be had.
        dagster_url: of Dagster's UI, without a slash at its end; empty: not known.
    """

    def __init__(
        self,
        fleet: Fleet,
        instance: Callable[[], AbstractContextManager[DagsterInstance]] | None,
        dagster_url: str = "",
    ) -> None:
        self.fleet, self._instance, self._url = fleet, instance, dagster_url
        self._reader = Reader()

    def file(self, path: str) -> Answer | None:
        """A style sheet or script, for who may see nothing else too; None: there is none."""
        name = path.removeprefix("static/")
        if name == path or name not in static():
            return None
        return Answer(200, static()[name], KINDS[name.rpartition(".")[2]], lasting=True)

    def login(self, wrong: bool) -> Answer:
        """The page that asks for the token."""
        return Answer(401, frame.login(wrong, version()))

    def answer(self, path: str, asked: Mapping[str, str]) -> Answer:
        """What is at an address.

        Args:
            path: without the prefix and the slash at its begin.
            asked: the values behind its question mark.

        Raises:
            Busy: a look goes on, as the cluster manager does not answer.
        """
        if path in ("", "fleet.json"):
            pages = [_fleet_page(each) for each in self.fleet.look().clusters]
            if path:
                return _as_json({"parts": fleet_html.fleet_parts(pages)})
            return Answer(200, fleet_html.fleet(pages, version()))
        if path in ("stream", "stream.json"):
            page = self._stream(asked)
            if isinstance(page, str):
                return _not_found(page)
            if path == "stream":
                return Answer(200, stream_html.stream(page, version(), self._url))
            parts = stream_html.stream_parts(page, self._url)
            return _as_json({"parts": parts, "charts": page.as_json()})
        return _not_found("there is no such page")

    def _stream(self, asked: Mapping[str, str]) -> StreamPage | str:
        """The page of a stream; a text: why there is none."""
        chosen = asked.get("range")
        shown = DEFAULT if chosen is None else chosen
        if shown not in RANGES:
            return f"range = {shown!r}: must be one of {', '.join(RANGES)}"
        cluster, stream = asked.get("cluster"), asked.get("stream", "")
        having = [
            look
            for look in self.fleet.look().clusters
            if stream in look.assessments and cluster in (None, look.watched.owner)
        ]
        if len(having) != 1:
            one = "several clusters have it; cluster must name one" if having else "there is none"
            where = "" if cluster is None else f" of cluster {cluster!r}"
            return f"stream = {stream!r}: must be a declared stream{where}: {one}"
        now = time.time()
        page = self._page(having[0], stream, shown, now)
        if chosen is None and (shorter := shortest(page)) != shown:
            # Of a young stream the rest would be empty.
            page = self._page(having[0], stream, shorter, now)
        return page

    def _page(self, look: ClusterLook, stream: str, shown: str, now: float) -> StreamPage:
        return page_of(
            *(self.fleet, look, stream, self._reader, self._instance),
            now=now,
            since=now - RANGES[shown],
            shown=shown,
            seconds=READING,
        )


def page_of(
    fleet: Fleet,
    look: ClusterLook,
    stream: str,
    reader: Reader,
    instance: Callable[[], AbstractContextManager[DagsterInstance]] | None,
    *,
    now: float,
    since: float,
    shown: str,
    seconds: float,
) -> StreamPage:
    """The page of a stream, by a look and by what is stored.

    Args:
        now, since: seconds since the epoch.
        shown: the time between, for people.
        seconds: for reading the event log.
    """
    watched = look.watched
    row = next(each for each in look.rows if each.stream == stream)
    seen = live(look.assessments[stream], row, fleet.capabilities)
    past, pending = Stored(fault="there is no DAGSTER_HOME"), list[Minute]()
    if instance is not None:

        def read() -> tuple[Stored, list[Minute]]:
            with instance() as opened:
                found = reader.past(
                    *(opened, watched.owner, stream),
                    asset_key(watched.streams.by_name[stream]),
                    cluster_key=watched.streams.cluster_key,
                    shown=shown,
                    since=since,
                    now=now,
                    seconds=seconds,
                )
                return found, list(watched.pending(opened).get(stream, ()))

        # Whatever the database does, what is live is shown.
        came = fleet.calls.within(f"page of {stream}", read, seconds + ANSWERING)
        if isinstance(came, Exception):
            past = Stored(fault=unread(came))
        else:
            past, pending = came
    return stream_page(
        watched.owner, seen, past, now=now, since=since, shown=shown, pending=pending
    )


def _fleet_page(look: ClusterLook) -> fleet_html.FleetPage:
    notes: list[str] = []
    if look.fault:
        notes.append(f"what Dagster's event log says: {look.fault}")
    elif look.ticked_at is None:
        notes.append("whether anybody watches these streams: no tick of their autoscaler is known")
    elif look.at - look.ticked_at > TOO_OLD:
        ago = span(look.at - look.ticked_at)
        notes.append(f"what was decided since: the autoscaler last ticked {ago} ago")
    return fleet_html.FleetPage(look.watched.owner, look.at, look.rows, notes)


def _as_json(content: Mapping[str, object]) -> Answer:
    return Answer(200, json.dumps(content, separators=(",", ":"), allow_nan=False), _JSON)


def _not_found(why: str) -> Answer:
    return Answer(404, frame.not_found(why, version()))
