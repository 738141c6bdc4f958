"""The pages as HTML: the fleet, a stream, and both as one file. Pure.

What changes while a page is open has an `id`: the script asks for these parts anew. There is no
script and no style within the HTML but in a file of its own, which names theirs by their hashes.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from dagster_sparkscale.durations import in_units
from dagster_sparkscale.markdown import clock
from dagster_sparkscale.quantities import DASH, number
from dagster_sparkscale.serve.page.charts import Chart, summary, table
from dagster_sparkscale.serve.page.elements import Html, Inner, el, from_markdown, inner
from dagster_sparkscale.serve.page.elements import table as html_table
from dagster_sparkscale.serve.page.operated import Operated, Took
from dagster_sparkscale.serve.page.stream import RANGES, StreamPage
from dagster_sparkscale.watch.fleet import text as fleet_text
from dagster_sparkscale.watch.fleet.behind import behind, in_a_cell
from dagster_sparkscale.watch.fleet.rows import ORPHAN, Row, in_trouble
from dagster_sparkscale.watch.fleet.verdict import lasting

SCRIPTS = ("uplot.js", "page.js")
STYLES = ("uplot.css", "page.css")


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


def query(**values: str) -> str:
    """The end of an address, from the question mark on."""
    return f"?{urlencode(values, errors='replace')}"


def _page(title: str, body: Inner, head: Inner, **data: str) -> str:
    meta = (
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", title),
    )
    made = el(
        "html",
        el("head", meta, head),
        el("body", el("a", "To the content", href="#main", class_="skip"), body, **data),
        lang="en",
    )
    return f"<!doctype html>\n{made}\n"


def _linked(version: str) -> Inner:
    return (
        el("link", rel="icon", href=f"static/icon.svg?v={version}"),
        [el("link", rel="stylesheet", href=f"static/{name}?v={version}") for name in STYLES],
        [el("script", src=f"static/{name}?v={version}", defer=True) for name in SCRIPTS],
    )


def _linked_styles(version: str) -> Inner:
    """What a page needs on which nothing is drawn."""
    return (
        el("link", rel="icon", href=f"static/icon.svg?v={version}"),
        el("link", rel="stylesheet", href=f"static/page.css?v={version}"),
    )


def _footer() -> Html:
    said = el("p", "Live: connecting", id="connection")
    # Said once it is known, and only where it is not as it should be.
    return el("footer", said, el("noscript", "Without JavaScript: no charts, and not live."))


# The fleet


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
        _footer(),
    )
    return _page("Streams", body, _linked(version), data_parts="fleet.json", data_live="events")


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


# A stream


def stream_parts(page: StreamPage, dagster_url: str = "") -> dict[str, str]:
    """What changes on the page of a stream, by id."""
    row = page.live.row
    asset = fleet_text.asset_path(row)
    seen = [f"Looked at {clock(row.seen_at)}"]
    head = (
        el("p", page.live.said, class_="said", role="status"),
        el("p", f"{far[0].upper()}{far[1:]}.") if (far := behind(row)) else (),
        [
            el("p", f"{each.check}: {each.text}", class_="bad")
            for each in row.failing
            if row.state == "running"
        ],
        el(
            "p",
            seen,
            (". ", el("a", "In Dagster", href=dagster_url + asset, rel="noreferrer"))
            if dagster_url
            else (),
            class_="note",
        ),
    )
    parts: dict[str, Inner] = {
        "head": head,
        "unknown": _unknown(page.unknown),
        "operations": (_rescales(page.rescales, page.took), _others(page.others)),
        "sections": [
            el("section", el("h2", title.capitalize()), _wide(from_markdown(text, dagster_url)))
            for title, text in page.live.sections.items()
        ],
        "notes": [el("p", note, class_="note") for note in page.notes],
    }
    parts |= {f"table-{chart.key}": _table(chart, page.times) for chart in page.charts}
    parts |= {f"summary-{chart.key}": summary(chart) for chart in page.charts}
    return {key: inner(content) for key, content in parts.items()}


def stream(page: StreamPage, version: str, dagster_url: str = "") -> str:
    """The page of a stream."""
    of = {"cluster": page.cluster, "stream": page.stream}
    ranges = [
        el(
            "a",
            name,
            href=f"stream{query(**of, range=name)}",
            aria_current="page" if name == page.shown else None,
        )
        for name in RANGES
    ]
    top = el("nav", el("a", "All streams", href="."), aria_label="Pages")
    body = (
        el("header", top, el("h1", page.stream)),
        _stream_main(
            page, el("nav", "Show ", ranges, class_="ranges", aria_label="Time"), dagster_url
        ),
        _footer(),
    )
    asked = query(**of, range=page.shown)
    return _page(
        f"{page.stream}: Streams",
        body,
        _linked(version),
        data_parts=f"stream.json{asked}",
        data_live="events",
    )


def _stream_main(page: StreamPage, ranges: Inner, dagster_url: str) -> Html:
    parts = {key: Html(text) for key, text in stream_parts(page, dagster_url).items()}

    def part(key: str, tag: str = "div", **attributes: str) -> Html:
        return el(tag, parts[key], id=key, **attributes)

    drawn = json.dumps(page.as_json(), separators=(",", ":"), allow_nan=False)
    return el(
        "main",
        part("head"),
        ranges,
        el("p", id="at", role="status", class_="note"),
        [_chart(chart, part) for chart in page.charts],
        el("p", _MARKS, class_="note"),
        part("operations"),
        part("sections"),
        part("unknown"),
        part("notes"),
        # A browser runs no script of another type; its end must not be in it.
        el("script", Html(drawn.replace("<", "\\u003c")), type="application/json", id="charts"),
        id="main",
    )


_MARKS = (
    "Uprights in the charts: blue a rescale, red what a person has asked for, grey another driver "
    "or another operation. In a chart, the arrow keys go from moment to moment. Select in a legend "
    "to show or hide a curve."
)


def _chart(chart: Chart, part: Any) -> Html:
    title = f"title-{chart.key}"
    drawn = el(
        "div",
        class_="chart",
        data_chart=chart.key,
        tabindex="0",
        role="img",
        aria_labelledby=f"{title} summary-{chart.key}",
    )
    return el(
        "section",
        el("h2", chart.title, id=title),
        () if chart.absent else drawn,
        part(f"summary-{chart.key}", "p", class_="unknown" if chart.absent else "summary"),
        el("details", el("summary", f"{chart.title}, as a table"), part(f"table-{chart.key}"))
        if not chart.absent
        else part(f"table-{chart.key}"),
    )


def chart(each: Chart, times: Sequence[float]) -> Html:
    """The place of a chart that does not change, with its sentence and its table."""
    parts = {f"summary-{each.key}": summary(each), f"table-{each.key}": _table(each, times)}

    def part(key: str, tag: str = "div", **attributes: str) -> Html:
        return el(tag, parts[key], id=key, **attributes)

    return _chart(each, part)


def _table(chart: Chart, times: Sequence[float]) -> Inner:
    if chart.absent or not times:
        return ()
    step, lines = table(chart, times)
    each = "" if step == 1 else f"; each line has the highest of {step} moments from there on"
    head = ("Time (UTC)", *(series.label for series in chart.series))
    return html_table(
        f"{chart.title}, the newest first{each}",
        head,
        [(clock(at), *(_value(value) for value in values)) for at, values in lines],
    )


def _value(value: float | None) -> str:
    return DASH if value is None else number(value)


def _rescales(listed: Sequence[Operated], of_all: Took) -> Html:
    if not of_all.rescales:
        text = "None is known that is over in this time."
    else:
        text = f"{of_all.rescales} in this time, of which {of_all.reached} reached their target"
        if of_all.p50 is not None and of_all.p95 is not None:
            text += f": half of these within {of_all.p50:.3g} s (p50), 95 % within "
            text += f"{of_all.p95:.3g} s (p95)"
        text += "."
    head = ("Began (UTC)", "From", "Asked", "Reached", "Seconds", "Ending", "By", "Why")
    lines = [
        (
            *(clock(each.at), _value(each.before), _value(each.asked), _value(each.reached)),
            *(_seconds(each), _ending(each), each.by or "not known", each.reason or DASH),
        )
        for each in listed
    ]
    made = html_table("The last rescales, the newest first", head, lines) if lines else ()
    return el("section", el("h2", "Rescales"), el("p", text), made)


def _seconds(each: Operated) -> str:
    return DASH if each.seconds is None else f"{each.seconds:.1f}"


def _ending(each: Operated) -> str:
    """How a rescale ended, and why it failed."""
    failed = each.ending == "failed" and each.outcome
    return f"failed: {each.outcome}" if failed else each.ending


def _others(listed: Sequence[Operated]) -> Inner:
    if not listed:
        return ()
    head = ("Began (UTC)", "Operation", "Seconds", "Came to", "By", "Why")
    lines = [
        (
            *(clock(each.at), each.operation, _seconds(each), each.outcome or each.ending),
            *(each.by or "not known", each.reason or DASH),
        )
        for each in listed
    ]
    made = html_table("Other operations, the newest first", head, lines)
    return el("section", el("h2", "Other operations"), made)


def _unknown(texts: Sequence[str]) -> Inner:
    if not texts:
        return ()
    listed = el("ul", [el("li", each) for each in texts], class_="unknown")
    return el("section", el("h2", "Not known"), listed)


def _wide(content: Html) -> Html:
    return el("div", content, class_="wide", tabindex="0")


# One file


def report(page: StreamPage, files: Mapping[str, str], dagster_url: str = "") -> str:
    """The page of a stream as one file, with all that it needs in it.

    Args:
        files: the style sheets and scripts, by name.
    """
    seconds = in_units(round(page.now - page.since))
    ranges = el("p", f"The {seconds} before {clock(page.now)}.")
    header = el("header", el("h1", page.stream))
    return one_file(
        f"{page.stream}: report", header, _stream_main(page, ranges, dagster_url), files
    )


def one_file(title: str, header: Inner, main: Inner, files: Mapping[str, str]) -> str:
    """A page that needs no server and may load nothing.

    Args:
        files: the style sheets and scripts, by name.
    """
    styles = "\n".join(files[name] for name in STYLES)
    scripts = "\n".join(files[name] for name in SCRIPTS)
    policy = (
        f"default-src 'none'; style-src '{_hash(styles)}'; script-src '{_hash(scripts)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = (
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("style", Html(styles)),
    )
    # Behind what it draws: a script in the file itself can't be deferred.
    return _page(title, (header, main, el("script", Html(scripts))), head)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# Who has no token yet


def login(wrong: bool, version: str) -> str:
    """The page that asks for the token."""
    said = "This is not the token." if wrong else "Reading this needs the token of --token-file."
    form = el(
        "form",
        el("label", "Token", for_="token"),
        el(
            "input",
            *(),
            type="password",
            name="token",
            id="token",
            required=True,
            autocomplete="current-password",
        ),
        el("button", "Show the streams"),
        method="post",
        action="login",
    )
    styles = _linked_styles(version)
    body = el("main", el("h1", "Streams"), el("p", said, role="status"), form, id="main")
    return _page("Streams", body, styles)


def not_found(why: str, version: str) -> str:
    """The page for an address at which there is none."""
    styles = _linked_styles(version)
    way = el("p", el("a", "All streams", href="."))
    return _page("Streams", el("main", el("h1", "Not found"), el("p", why), way, id="main"), styles)
