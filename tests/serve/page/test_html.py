"""HTML that is written by functions: whatever names and reasons say, it is text."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.serve.page import fleet_html, frame, stream_html
from dagster_sparkscale.serve.page.elements import Html, el, from_markdown, inner
from dagster_sparkscale.serve.page.files import static
from dagster_sparkscale.serve.page.fleet_html import FleetPage
from dagster_sparkscale.serve.page.operated import Operations, of_story
from dagster_sparkscale.watch.fleet.rows import Failing, Row
from tests.serve.page.test_stream_page import LIVE, NOW, minute, page

HOSTILE = """</script><script>alert(1)</script><img src=x onerror="alert(2)">'"&\0\ud800"""


class Found(HTMLParser):
    """All elements, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.ids: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_data(self, data: str) -> None:
        self.text += data


def addresses(found: Found) -> Iterator[str]:
    for name, value in found.attributes:
        if name in ("href", "src", "action"):
            yield value or ""


HOSTILE_ROW = Row(
    *(HOSTILE, (HOSTILE.replace("\ud800", ""), "x"), "running", NOW),
    reason=HOSTILE,
    decision=HOSTILE,
    failing=(Failing(HOSTILE, HOSTILE, "", True),),
    waits=HOSTILE,
)


def hostile_stream() -> str:
    live = replace(LIVE, row=HOSTILE_ROW, said=HOSTILE, sections={HOSTILE: HOSTILE})
    story = {"reason": HOSTILE, "ending": HOSTILE}
    known = Operations({}, {"r": of_story("r", "rescale", NOW - 60, story)})
    known.events["s"] = of_story("s", HOSTILE, NOW - 60, story)
    shown = page([minute(60, ratio=0.5)], live=live, operations=known, fault=HOSTILE)
    return stream_html.stream(replace(shown, cluster=HOSTILE), "v", "http://dagster.example")


@pytest.mark.parametrize(
    "text",
    [
        hostile_stream(),
        fleet_html.fleet([FleetPage(HOSTILE, NOW, [HOSTILE_ROW], [HOSTILE])], "v"),
        frame.not_found(HOSTILE, "v"),
    ],
    ids=["stream", "fleet", "not found"],
)
def test_hostile_names_are_text(text: str) -> None:
    found = Found(text)
    assert "img" not in found.tags and "alert(1)" in found.text
    assert not any(name.startswith("on") or name == "style" for name, _ in found.attributes)
    scripts = [tag for tag in found.tags if tag == "script"]
    of_ours = re.findall(r'<script src="static/[a-z]+\.js\?v=v" defer></script>', text)
    data = re.findall(r'<script type="application/json" id="charts">', text)
    assert len(scripts) == len(of_ours) + len(data)
    text.encode()  # half a character would not be sent


def test_all_addresses_are_relative_but_for_dagsters() -> None:
    shown = page([minute(60, ratio=0.5)])
    for text in (
        stream_html.stream(shown, "v"),
        fleet_html.fleet([FleetPage("c", NOW, [LIVE.row])], "v"),
    ):
        assert all(re.match(r"(static/|stream\?|\.$|#main$)", at) for at in addresses(Found(text)))


def test_what_changes_has_a_place_of_its_own() -> None:
    shown = page([minute(60, ratio=0.5)])
    whole = Found(stream_html.stream(shown, "v"))
    assert len(set(whole.ids)) == len(whole.ids)
    assert set(stream_html.stream_parts(shown)) <= set(whole.ids)
    fleet = [FleetPage("c", NOW, [LIVE.row])]
    assert set(fleet_html.fleet_parts(fleet)) <= set(Found(fleet_html.fleet(fleet, "v")).ids)


def test_each_chart_has_a_table_and_a_sentence() -> None:
    text = stream_html.stream(page([minute(60, ratio=0.512)]), "v")
    assert "R, processing time / batch interval, as a table" in text
    assert "<td>0.512</td>" in text
    assert 'aria-labelledby="title-ratio summary-ratio"' in text


def test_the_data_of_the_charts_are_read_back() -> None:
    shown = page([minute(60, ratio=0.5)])
    found = re.search(r'id="charts">(.*?)</script>', stream_html.stream(shown, "v"))
    assert found and json.loads(found[1]) == shown.as_json()


def test_a_report_has_all_in_it_and_may_load_nothing() -> None:
    text = stream_html.report(page([minute(60, ratio=0.5)]), static())
    found = Found(text)
    assert [*addresses(found)] == ["#main"]
    policy = re.search(r'content="(default-src[^"]*)"', text)
    assert policy and "default-src &#x27;none&#x27;" in policy[1]
    assert len(re.findall("sha256-", policy[1])) == 2
    assert "var uPlot=" in text and "data-live" not in text.partition("<main")[0]


@pytest.mark.parametrize("name", sorted(static()))
def test_no_file_ends_the_element_that_it_is_in(name: str) -> None:
    assert "</s" not in static()[name].lower() or name == "icon.svg"


def test_what_is_loaded_is_there() -> None:
    assert {*frame.STYLES, *frame.SCRIPTS, "icon.svg"} == set(static())


class TestMarkdown:
    def test_a_table_of_ours(self) -> None:
        text = from_markdown("a|b\n-|-:\n[x](/runs/1) ![]()y|**2**", "http://d")
        assert 'href="http://d/runs/1"' in text and "<strong>2</strong>" in text
        assert "style" not in text and "<img" not in text and "y</td>" in text

    def test_without_dagsters_address_its_links_are_text(self) -> None:
        assert "href" not in from_markdown("[x](/runs/1)") and "x" in from_markdown("[x](/runs/1)")

    @given(st.text(), st.sampled_from(["", "http://d"]))
    def test_whatever_it_is_there_is_nothing_that_acts(self, text: str, url: str) -> None:
        found = Found(from_markdown(text, url))
        assert not set(found.tags) & {"script", "style", "img", "iframe", "form", "link", "meta"}
        for name, value in found.attributes:
            assert name in ("href", "rel", "title", "class", "start"), found.attributes
            assert name != "href" or str(value).startswith(("http://", "https://"))

    @pytest.mark.parametrize("to", ["javascript:alert(1)", "//evil.example", "data:text/html,x"])
    def test_other_links_are_text(self, to: str) -> None:
        assert "href" not in from_markdown(f"[x]({to})", "http://d")


@given(st.recursive(st.text(), lambda inside: st.lists(inside, max_size=3), max_leaves=6))
def test_text_is_escaped_wherever_it_stands(content: object) -> None:
    def plain(of: object) -> str:
        return of if isinstance(of, str) else "".join(map(plain, of))  # type: ignore[call-overload]

    made = el("p", content, title=plain(content))  # type: ignore[arg-type]
    found = Found(made)
    assert found.tags == ["p"] and [name for name, _ in found.attributes] == ["title"]
    assert inner(made) is made and isinstance(made, Html)
