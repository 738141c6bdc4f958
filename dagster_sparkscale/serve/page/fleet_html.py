"""The page of all streams, as HTML. Pure.

What changes while it is open has an `id`: the script asks for these parts anew.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dagster_sparkscale.markdown import clock
from dagster_sparkscale.quantities import DASH
from dagster_sparkscale.serve.page.elements import Html, Inner, el, inner
from dagster_sparkscale.serve.page.elements import table as html_table
from dagster_sparkscale.serve.page.frame import footer, linked, query, whole_page
from dagster_sparkscale.watch.fleet import text as fleet_text
from dagster_sparkscale.watch.fleet.behind import in_a_cell
from dagster_sparkscale.watch.fleet.rows import ORPHAN, Row, in_trouble
from dagster_sparkscale.watch.fleet.verdict import lasting


@dataclass(frozen=True, slots=True)
class FleetPage:
    """All streams of one cluster."""

    cluster: str
    seen_at: float
    """When they were looked at, seconds since the epoch."""
    rows: Sequence[Row]
    """The worst first."""
    notes: Sequence[str] = ()
    """What is not known."""


def fleet_parts(pages: Sequence[FleetPage]) -> dict[str, str]:
    """What changes on the page of the fleet, by id."""
    return {"fleet": inner(map(_cluster, pages))}


def fleet(pages: Sequence[FleetPage], version: str) -> str:
    """The page of all streams.

    Args:
        version: of the style sheets and scripts.
    """
    parts = [el("div", Html(text), id=key) for key, text in fleet_parts(pages).items()]
    body = (
        el("header", el("h1", "Streams")),
        el("main", parts, id="main"),
        footer(),
    )
    return whole_page("Streams", body, linked(version), data_parts="fleet.json", data_live="events")


_COLUMNS = ("Stream", "Health", "R", "Behind", "Executors", "Limit", "Decision", "What is up")


def _cluster(page: FleetPage) -> Html:
    lines = [_fleet_line(page.cluster, row) for row in page.rows]
    return el(
        "section",
        el("h2", page.cluster),
        el("p", fleet_text.sentence(page.rows), class_="said", role="status"),
        html_table(f"Streams of {page.cluster}, the worst first", _COLUMNS, lines)
        if lines
        else el("p", "No stream is declared."),
        [el("p", f"Not known: {note}", class_="unknown") for note in page.notes],
        el("p", f"Looked at {clock(page.seen_at)}.", class_="note"),
    )


def _fleet_line(cluster: str, row: Row) -> Iterable[Inner]:
    declared = row.state != ORPHAN
    name = el("a", row.stream, href=f"stream{query(cluster=cluster, stream=row.stream)}")
    return (
        name if declared else row.stream,
        el("span", lasting(row), class_="bad" if in_trouble(row) else "good"),
        DASH if row.ratio is None else f"{row.ratio:.2f}",
        in_a_cell(row),
        fleet_text.executors(row),
        fleet_text.limit(row) or DASH,
        row.decision or DASH,
        row.note or DASH,
    )
