"""Takes the README's pictures of a running demo in a browser, and checks what is on them."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from playwright.sync_api import Error

from dagster_sparkscale.names import STREAM_TAG
from dagster_sparkscale.watch.fleet.verdict import OF_RUNNING
from dev.browser import Browser
from dev.pages import Pages, pages

ROOT = Path(__file__).parents[1]


class NotSeen(Exception):
    """A page does not show what people are to see; the text says which, and what is missing."""


def take(browser: Browser, url: str, streams: Sequence[str], folder: Path) -> list[Path]:
    """Save pictures of the first of `streams`, of the fleet, of a rescale run and of the live page
    in `folder`.

    Every stream of the demo at `url` was scaled before. All pages are tried, and what is wrong with
    one is on its picture.

    Raises:
        NotSeen: what must be seen is not.
    """
    overview, fleet, rescale = (folder / f"{n}.png" for n in ("overview", "fleet", "rescale"))
    wrong = []
    with pages(browser, url) as seen:
        for path, check in (
            (overview, partial(_stream, seen, streams[0])),
            (fleet, partial(_fleet, seen, streams)),
            (rescale, partial(_rescale, seen, streams[0])),
        ):
            try:
                check()
            except (Error, NotSeen) as missing:
                wrong.append(f"{seen.url}: {missing}")
            seen.picture(path)
    live = folder / "page.png"
    with _serving() as served, pages(browser, served) as seen:
        try:
            seen.open("/")
            seen.follow(streams[0])
            seen.follow("1h")
            _check(seen.charts() >= 3, "there are fewer than three charts")
            seen.see("Rescales", "reached")
        except (Error, NotSeen) as missing:
            wrong.append(f"{seen.url}: {missing}")
        seen.picture(live, wide=1200, height=1400, live=True)
    if wrong:
        raise NotSeen("\n".join(wrong))
    return [overview, fleet, rescale, live]


@contextmanager
def _serving() -> Iterator[str]:
    """The URL of `sparkscale serve` for the demo's code location; it ends with the block."""
    command = [sys.executable, "-m", "dagster_sparkscale", "serve"]
    server = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        urls = [server.stdout.readline().strip() for _ in range(2)]
        if not urls[1]:
            raise NotSeen("sparkscale serve has ended")
        yield urls[1].removesuffix("/")
    finally:
        server.terminate()
        server.wait()


def _stream(seen: Pages, stream: str) -> None:
    shown = seen.overview(stream)
    state = shown["state"].inner_text()
    health = re.split(r"[,;]| for ", state)[0]
    _check(health in OF_RUNNING, f"state {state!r} does not begin with one of {OF_RUNNING}")
    _check("last hours" in shown, "there is no picture of the last hours")
    # Decoded: what a browser can't draw is no picture.
    shown["last hours"].locator("img").evaluate("image => image.decode()")
    _check("what happened" in shown, "nothing has happened")
    told = shown["what happened"].inner_text()
    _check("executors in" in told, f"no rescale among {told!r}")
    _check(shown["what happened"].get_by_role("link").count() > 0, "nothing leads to the runs")
    _check(not (wide := seen.too_wide()), f"the metadata are wider than their place: {wide}")


def _fleet(seen: Pages, streams: Sequence[str]) -> None:
    shown = seen.overview("fleet", "streams 1")
    linked = shown["streams 1"].get_by_role("link").all_inner_texts()
    missing = ", ".join(sorted(set(streams) - set(linked)))
    _check(not missing, f"not in the table: {missing}")
    _check(not (wide := seen.too_wide()), f"the table is wider than its place: {wide}")


def _rescale(seen: Pages, stream: str) -> None:
    seen.open(f"/runs?q[0]=tag:{STREAM_TAG}={stream}&q[1]=job:rescale")
    seen.open_run(seen.runs()[0])
    seen.see("rescale", "executors", "Success")


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise NotSeen(otherwise)
