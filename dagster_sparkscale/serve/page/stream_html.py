"""The page of a stream, served or as one file, as HTML. Pure.

What changes while it is open has an `id`: the script asks for these parts anew.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dagster_sparkscale.durations import in_units
from dagster_sparkscale.markdown import clock
from dagster_sparkscale.quantities import DASH, number
from dagster_sparkscale.serve.page.charts import Chart, summary, table
from dagster_sparkscale.serve.page.elements import Html, Inner, el, from_markdown, inner
from dagster_sparkscale.serve.page.elements import table as html_table
from dagster_sparkscale.serve.page.frame import footer, linked, one_file, query, whole_page
from dagster_sparkscale.serve.page.operated import Operated, Took
from dagster_sparkscale.serve.page.stream import RANGES, StreamPage
from dagster_sparkscale.watch.fleet import text as fleet_text
from dagster_sparkscale.watch.fleet.behind import behind


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
        footer(),
    )
    asked = query(**of, range=page.shown)
    return whole_page(
        f"{page.stream}: Streams",
        body,
        linked(version),
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
    "Vertical lines in the charts: blue a rescale, red what a person has asked for, grey another "
    "driver or another operation. In a chart, the arrow keys go from moment to moment. Select in a "
    "legend to show or hide a curve."
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
