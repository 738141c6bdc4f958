"""Dagster's pages in a browser: what is to be seen on them, and pictures of them."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Locator, Page, sync_playwright

from dev.browser import Browser

WIDE, HIGH = 1800, 1300
"""Pixels of the window."""
WIDTHS = (1366, 1440, WIDE)
"""Pixels of windows in which all must be to be seen: laptops, and a large screen."""
PATIENCE = 30.0
"""Seconds that a page has to show what it should."""


# Once the page is laid out anew: pixels of the table that its place has no room for.
_OVER = """table => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() =>
    done(table.offsetWidth - table.parentElement.clientWidth))))"""
# The rows whose content is widest, and by how many pixels.
_WIDEST = """table => [...table.querySelectorAll(':scope > tbody > tr')].map(row => [
    Math.max(0, ...[...row.lastElementChild.querySelectorAll('table, img, p')].map(
        each => each.scrollWidth)), row.firstElementChild.innerText]
    ).sort((one, other) => other[0] - one[0]).slice(0, 3).map(each => each.join(' ')).join(', ')"""
_RUN = re.compile(r"^[0-9a-f]{8}$")


class Pages:
    """The pages of one Dagster, in one window."""

    def __init__(self, page: Page, url: str) -> None:
        self._page = page
        self._url = url

    @property
    def url(self) -> str:
        """Of the page that is open."""
        return self._page.url

    def open(self, path: str) -> None:
        self._page.goto(self._url + path)

    def overview(self, asset: str, has: str = "state") -> dict[str, Locator]:
        """Open the Overview of an asset; returns what it shows as metadata, by key.

        Args:
            has: a key that is waited for: Dagster shows the definition's first, then an event's.
        """
        self.open(f"/assets/{asset}")
        rows_shown = self._metadata().locator("xpath=./tbody/tr")
        rows_shown.filter(has_text=has).first.wait_for()
        values = {
            row.locator("td").first.inner_text(): row.locator("xpath=./td[last()]")
            for row in rows_shown.all()
        }
        for value in values.values():
            # What renders Markdown is loaded when it is first needed.
            drawn = value.filter(has=self._page.locator("img"))
            value.filter(has_text=re.compile(r"\S")).or_(drawn).wait_for()
        return values

    def too_wide(self) -> list[str]:
        """The widths of a window, out of `WIDTHS`, at which something of the metadata is out of
        sight, and by how many pixels; empty: all is to be seen at each."""
        found = []
        for width in WIDTHS:
            self._page.set_viewport_size({"width": width, "height": HIGH})
            over: int = self._metadata().evaluate(_OVER)
            if over > 2:
                widest = self._metadata().evaluate(_WIDEST)
                found.append(f"{over} pixels at {width}: {widest}")
        self._page.set_viewport_size({"width": WIDE, "height": HIGH})
        return found

    def plots(self) -> list[str]:
        """What the plots of the asset draw that is open, in their order."""
        self._page.get_by_role("button", name="Plots").click()
        self._page.locator("canvas").first.wait_for()
        return re.findall(r"^\d\. .*$", self._page.locator("body").inner_text(), re.MULTILINE)

    def see(self, *texts: str) -> None:
        """Wait until all of `texts` are to be seen.

        Raises:
            playwright.sync_api.TimeoutError: one was not; names it.
        """
        for text in texts:
            self._page.get_by_text(text).first.wait_for()

    def follow(self, name: str) -> None:
        """Go where the link of that name leads."""
        self._page.get_by_role("link", name=name, exact=True).click()

    def charts(self) -> int:
        """How many charts the page has drawn, once it has drawn some."""
        self._page.locator("canvas").last.wait_for()
        return self._page.locator("canvas").count()

    def runs(self) -> Sequence[str]:
        """The ids of the runs in the list that is open, as they are shown there."""
        links = self._page.locator("a[href^='/runs/']").filter(has_text=_RUN)
        links.first.wait_for()
        return links.all_inner_texts()

    def open_run(self, run: str) -> None:
        self._page.locator("a[href^='/runs/']").filter(has_text=run).first.click()
        self._page.wait_for_url(f"**/runs/{run}*")

    def picture(self, path: Path, height: int = HIGH, wide: int = WIDE, live: bool = False) -> None:
        """Save what the window shows.

        Args:
            live: whether the page listens for news, for which a request never ends.
        """
        self._page.set_viewport_size({"width": wide, "height": height})
        self._page.wait_for_load_state("load" if live else "networkidle")
        self._page.screenshot(path=path)

    def _metadata(self) -> Locator:
        return self._page.locator("table:has(> thead :text-is('Timestamp'))")


@contextmanager
def pages(browser: Browser, url: str) -> Iterator[Pages]:
    """The pages of the Dagster at `url`."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=browser.program,
            env={**os.environ, **browser.environment},
            # What goes to this machine needs no proxy.
            args=["--no-proxy-server"],
        )
        try:
            page = chromium.new_page(viewport={"width": WIDE, "height": HIGH})
            page.set_default_timeout(1000 * PATIENCE)
            yield Pages(page, url)
        finally:
            chromium.close()
