"""The pages in a real Chromium: drawn, live, readable everywhere, and from nowhere else."""

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from dagster_sparkscale.advice.backtest import run_backtest
from dagster_sparkscale.cli.locations import instance_of_home
from dagster_sparkscale.serve import http as http_module
from dagster_sparkscale.serve.http import Server
from dagster_sparkscale.serve.page.backtest import report
from dagster_sparkscale.serve.page.files import static
from dagster_sparkscale.serve.page.site import Site
from dev import browser as dev_browser
from tests.advice.recorded import STREAM as declared
from tests.advice.recorded import recorded, waves
from tests.advice.test_backtest import FIXED
from tests.cli.terminal import Terminal
from tests.serve.page.history import CLUSTER
from tests.serve.scraping import running
from tests.serve.test_http import TOKEN
from tests.serve.test_serve import fleet_of
from tests.waiting import wait_for

pytestmark = pytest.mark.browser

STREAM = f"/stream?{urlencode({'cluster': CLUSTER, 'stream': 'clicks'})}"
PHONE = {"width": 390, "height": 844}
CHARTS = ["ratio", "executors", "lag", "rates", "limits"]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    found = dev_browser.browser()
    if found is None:
        pytest.skip(dev_browser.HELP)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=found.program,
            env={**os.environ, **found.environment},
            args=["--no-proxy-server"],
        )
        yield started
        started.close()


Opens = Callable[..., Page]


@pytest.fixture
def opens(chromium: Browser) -> Iterator[Opens]:
    """Open a page; at the end, whatever it asked for was asked of its own server, and it has
    complained of nothing."""
    with contextlib.ExitStack() as stack:
        wrong: list[str] = []

        def opened(url: str, refused: bool = False, **how: Any) -> Page:
            how.setdefault("viewport", {"width": 1300, "height": 900})
            context = chromium.new_context(**how)
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(30_000)
            host = url.partition("://")[2].partition("/")[0]
            page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
            if not refused:
                page.on("console", lambda said: _complain(said.text, wrong))
            page.on("request", lambda asked: _check(asked.url, host, wrong))
            page.goto(url)
            return page

        yield opened
        assert wrong == []


def _complain(text: str, wrong: list[str]) -> None:
    if "willReadFrequently" not in text:  # which is about how these tests look at a canvas
        wrong.append(text)


def _check(url: str, host: str, wrong: list[str]) -> None:
    if url.partition("://")[2].partition("/")[0] != host:
        wrong.append(f"asked elsewhere: {url}")


def at(server: Server, path: str = STREAM) -> str:
    return f"http://127.0.0.1:{server.server_port}{path}"


def inked(page: Page, chart: str, left: float = 0.0, right: float = 1.0) -> int:
    """Points of a chart that have the color of its first curve, in a part of its width."""
    count: int = page.evaluate(
        """([key, left, right]) => {
            const canvas = document.querySelector(`[data-chart=${key}] canvas`);
            const wide = canvas.width;
            const { data } = canvas.getContext("2d").getImageData(
                Math.floor(left * wide), 0, Math.floor((right - left) * wide), canvas.height);
            const name = { ratio: "--c0", lag: "--c2" }[key];
            const color = getComputedStyle(document.documentElement).getPropertyValue(name);
            const [r, g, b] = [1, 3, 5].map((i) => parseInt(color.trim().slice(i, i + 2), 16));
            let found = 0;
            for (let i = 0; i < data.length; i += 4)
                if (data[i + 3] > 150 && Math.abs(data[i] - r) + Math.abs(data[i + 1] - g)
                    + Math.abs(data[i + 2] - b) < 24) found++;
            return found;
        }""",
        [chart, left, right],
    )
    return count


def test_charts_are_drawn_one_below_the_other(served: Server, opens: Opens) -> None:
    page = opens(at(served))
    page.locator("canvas").last.wait_for()
    shown = page.locator("[data-chart]")
    assert [each.get_attribute("data-chart") for each in shown.all()] == CHARTS
    boxes = [each.bounding_box() for each in page.locator(".u-over").all()]
    assert len({(box["x"], box["width"]) for box in boxes if box}) == 1
    assert inked(page, "ratio") > 200 and inked(page, "lag") > 200


def test_a_legend_has_numbers_of_the_moment_that_is_pointed_at(
    served: Server, opens: Opens
) -> None:
    page = opens(at(served))
    page.locator("canvas").last.wait_for()
    lag = page.locator("[data-chart=lag] .u-legend .u-value")
    assert {each.inner_text().strip() for each in lag.all()} == {""}
    over = page.locator("[data-chart=lag] .u-over")
    box = over.bounding_box()
    assert box
    over.hover(position={"x": 0.2 * box["width"], "y": 20})
    expect(lag.nth(1)).to_have_text(re.compile(r"[0-9.]*[1-9]"))
    # Of a moment at which nothing was measured a dash says so.
    over.hover(position={"x": 0.65 * box["width"], "y": 20})
    expect(lag.nth(1)).to_have_text("-")


def test_in_a_table_short_words_stay_whole(served: Server, opens: Opens) -> None:
    page = opens(at(served), viewport=PHONE)
    ending = page.get_by_role("cell", name="reached").first
    box = ending.bounding_box()
    assert (
        box
        and page.evaluate(
            """(cell) => {
            const range = document.createRange();
            range.selectNodeContents(cell);
            return new Set([...range.getClientRects()].map((each) => each.top)).size;
        }""",
            ending.element_handle(),
        )
        == 1
    )


def test_where_nothing_was_measured_there_is_a_gap(served: Server, opens: Opens) -> None:
    page = opens(at(served))  # six hours, nothing from three hours to one hour before the end
    page.locator("canvas").last.wait_for()
    assert inked(page, "lag", 0.1, 0.5) > 100
    assert inked(page, "lag", 0.58, 0.78) == 0
    assert inked(page, "lag", 0.88, 0.97) > 20
    assert page.get_by_text("Nothing was measured from").is_visible()


def test_the_time_is_chosen_and_long_times_are_thinned(served: Server, opens: Opens) -> None:
    page = opens(at(served))
    page.get_by_role("link", name="7d").click()
    page.locator("[aria-current=page]", has_text="7d").wait_for()
    page.locator("canvas").last.wait_for()
    assert page.get_by_text("Each point is the worst of 7 min").is_visible()
    assert page.evaluate("JSON.parse(document.getElementById('charts').text).times.length") < 1600
    assert inked(page, "ratio", 0.1, 0.5) == 0  # it is three days old
    assert inked(page, "ratio", 0.6, 0.9) > 100


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_in_light_and_in_the_dark(served: Server, opens: Opens, scheme: str) -> None:
    page = opens(at(served), color_scheme=scheme)
    page.locator("canvas").last.wait_for()
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert back == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(18, 22, 29)")
    for selector in ("body", ".note", ".unknown", ".ranges a", "summary", "a"):
        assert contrast(page, selector) >= 4.5, selector
    assert inked(page, "ratio") > 200


def test_when_it_gets_dark_charts_are_drawn_anew(served: Server, opens: Opens) -> None:
    page = opens(at(served), color_scheme="light")
    page.locator("canvas").last.wait_for()
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("matchMedia('(prefers-color-scheme: dark)').matches")
    wait_for("they are drawn", lambda: inked(page, "ratio") > 200)


def contrast(page: Page, selector: str) -> float:
    """Contrast of a text with the page (WCAG 2.2, 1.4.3)."""
    ratio: float = page.evaluate(
        """(selector) => {
            const light = (color) => {
                const [r, g, b] = color.match(/\\d+/g).map((v) => v / 255).map(
                    (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const back = light(getComputedStyle(document.body).backgroundColor);
            const text = light(getComputedStyle(document.querySelector(selector)).color);
            return (Math.max(back, text) + 0.05) / (Math.min(back, text) + 0.05);
        }""",
        selector,
    )
    return ratio


@pytest.mark.parametrize("path", ["/", STREAM, f"{STREAM}&range=28d"])
def test_on_a_phone_nothing_is_wider_than_the_page(served: Server, opens: Opens, path: str) -> None:
    page = opens(at(served, path), viewport=PHONE, is_mobile=True, has_touch=True)
    page.get_by_role("heading", level=1).wait_for()
    if path != "/":
        page.locator("canvas").last.wait_for()
    for each in page.locator("details").all():
        each.evaluate("details => { details.open = true }")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_by_keyboard_one_gets_through_and_hears_the_numbers(served: Server, opens: Opens) -> None:
    page = opens(at(served))
    page.locator("canvas").last.wait_for()
    order = []
    for _ in range(10):
        page.keyboard.press("Tab")
        order.append(
            page.evaluate(
                "document.activeElement.dataset.chart ?? document.activeElement.innerText"
            )
        )
    assert order[:7] == ["To the content", "All streams", "1h", "6h", "24h", "7d", "28d"]
    assert order[7:10] == ["ratio", "R, processing time / batch interval, as a table", "executors"]
    page.locator("[data-chart=ratio]").focus()
    page.keyboard.press("Home")
    first = page.locator("#at").inner_text()
    assert " UTC: R 0." in first and "more executors from 0.9" in first
    page.keyboard.press("ArrowRight")
    assert page.locator("#at").inner_text() != first
    page.keyboard.press("ArrowLeft")
    assert page.locator("#at").inner_text() == first
    page.keyboard.press("Escape")
    assert page.locator("#at").inner_text() == ""


def test_a_screen_reader_has_a_name_a_sentence_and_a_table(served: Server, opens: Opens) -> None:
    page = opens(at(served))
    chart = page.get_by_role("img", name="R, processing time / batch interval R, processing")
    chart.wait_for()
    page.get_by_text("R, processing time / batch interval, as a table").click()
    table = page.get_by_role("table", name="R, processing time / batch interval, the newest first")
    assert table.locator("tbody tr").count() > 30
    headings = page.get_by_role("heading").all_inner_texts()
    assert headings[0] == "clicks" and "Rescales" in headings and "Not known" in headings


def test_hostile_texts_are_shown_as_they_are(served: Server, opens: Opens) -> None:
    page = opens(at(served))
    row = page.locator("#operations tbody tr").first
    assert "<b>a launch</b>" in row.inner_text()
    assert row.locator("b").count() == 0


def test_it_is_live(
    lived: Terminal, served: Server, opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_module, "BEAT", 0.1)
    page = opens(at(served))
    page.locator("#connection", has_text="Live: last changed").wait_for()
    page.locator("summary").first.click()
    assert lived.ask("scale", "clicks", "5").exit_code == 0
    page.locator("#head", has_text="5 executors (1 to 10 allowed)").wait_for()
    page.get_by_role("row").filter(has_text="by hand").first.wait_for()
    assert page.locator("details").first.get_attribute("open") is not None
    served.ending.set()
    page.locator("#connection", has_text="Not live").wait_for()


def test_the_fleet_leads_to_its_streams(served: Server, opens: Opens) -> None:
    page = opens(at(served, "/"))
    page.get_by_role("link", name="clicks").click()
    page.get_by_role("heading", name="clicks").wait_for()
    page.get_by_role("link", name="All streams").click()
    page.get_by_role("heading", name="Streams", exact=True).wait_for()


def test_behind_a_proxy_with_a_token(lived: Terminal, opens: Opens, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    fleet = fleet_of()
    site = Site(fleet, instance_of_home)
    made = Server(("127.0.0.1", 0), fleet.samples, token_file=file, prefix="/s", site=site)
    with running(made) as server:
        page = opens(at(server, f"/s{STREAM}"), refused=True)
        page.get_by_label("Token").fill("not the token at all")
        page.get_by_role("button").click()
        page.get_by_text("This is not the token.").wait_for()
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button").click()
        page.get_by_role("link", name="clicks").click()
        page.locator("canvas").last.wait_for()


def test_a_report_opens_from_the_disk(lived: Terminal, chromium: Browser, tmp_path: Path) -> None:
    file = tmp_path / "clicks report.html"
    done = lived.ask("report", "clicks", "--since", "6h", "--output", str(file))
    assert done.exit_code == 0, done.output
    page = chromium.new_page(viewport={"width": 1300, "height": 900}, color_scheme="dark")
    wrong: list[str] = []
    page.on("console", lambda said: wrong.append(said.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda asked: wrong.append(asked.url) if asked.url[:4] == "http" else None)
    page.goto(file.as_uri())
    page.locator("canvas").last.wait_for()
    assert inked(page, "ratio") > 200
    assert "The 6 h before" in page.locator("main").inner_text()
    assert wrong == []
    page.close()


def test_a_backtest_opens_from_the_disk(chromium: Browser, tmp_path: Path) -> None:
    of = run_backtest(recorded(), declared, FIXED[:1], most_late=5.0)
    traced = run_backtest(recorded(), declared, FIXED[:1], most_late=5.0, load=waves(1))
    for number, each in enumerate((of, traced)):
        file = tmp_path / f"{number}.html"
        file.write_text(report("clicks", each, static()), encoding="utf-8")
        page = chromium.new_page(viewport={"width": 390, "height": 900})
        wrong: list[str] = []
        page.on("console", lambda said, wrong=wrong: wrong.append(said.text))
        page.on("pageerror", lambda error, wrong=wrong: wrong.append(str(error)))
        page.goto(file.as_uri())
        page.locator("canvas").last.wait_for()
        assert page.locator("canvas").count() == 3
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert wrong == []
        page.close()
