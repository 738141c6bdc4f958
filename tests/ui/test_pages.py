"""What people see of streams in a browser: real pages of a Dagster that the sensor has told."""

import re
from collections.abc import Iterator

import pytest

from dev import browser
from dev.pages import Pages, pages
from tests.ui.scene import LOG, STREAMS, play
from tests.ui.served import served

pytestmark = [pytest.mark.browser, pytest.mark.clusters]


@pytest.fixture(scope="module")
def chromium() -> browser.Browser:
    found = browser.browser()
    if found is None:
        pytest.skip(browser.HELP)
    return found


@pytest.fixture(scope="module")
def url(chromium: browser.Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Dagster whose streams have lived for two hours."""
    home = tmp_path_factory.mktemp("home")
    play(home)
    with served(home) as found:
        yield found


@pytest.fixture(scope="module")
def seen(chromium: browser.Browser, url: str) -> Iterator[Pages]:
    with pages(chromium, url) as opened:
        yield opened


def test_overview_of_a_stream_that_runs(seen: Pages) -> None:
    shown = seen.overview("clicks")
    assert list(shown)[:2] == ["state", "last hours"]
    state = shown["state"].inner_text()
    assert re.match("(healthy|slow|throttled), ", state)
    assert " (1 to 8 allowed), R 0." in state
    assert "Spark UI" in state
    image = shown["last hours"].locator("img")
    image.wait_for()
    # Decoded: what a browser can't draw has no width.
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") > 300
    assert shown["executors"].locator("tbody tr").count() >= 2
    assert re.search("executors in", shown["what happened"].inner_text())
    assert seen.too_wide() == []


def test_what_happened_leads_to_the_runs_of_the_stream_alone(seen: Pages) -> None:
    seen.overview("clicks")["what happened"].get_by_role("link", name="runs, UTC").click()
    assert seen.runs()
    seen.see("rescale", "dagster-sparkscale/stream: clicks")


def test_plots_have_what_matters_first(seen: Pages) -> None:
    seen.overview("clicks")
    assert seen.plots() == ["1. R", "2. lag (s)", "3. executors", "4. input (records/s)"]


@pytest.mark.parametrize(
    ("stream", "state"),
    [
        ("orders", "crash-looping, "),
        ("payments", "given up since "),
        ("returns", "healthy, "),
        ("searches", "not answering; hold: the agent of driver 1 does not answer"),
        ("sessions", "stopped since "),
        ("tickets", "slow, 2 executors (1 to 2 allowed), R 1."),
        ("uploads", "idle, 1 executor (1 to 8 allowed), 0 s behind; hold: "),
        ("visits", "starting since "),
        ("wishes", "not started: materialize the asset to start it"),
    ],
)
def test_overview_says_first_how_a_stream_is(seen: Pages, stream: str, state: str) -> None:
    shown = seen.overview(stream)
    assert shown["state"].inner_text().startswith(state)
    assert next(iter(shown)) == "state"
    assert ("the declaration has changed" in shown["state"].inner_text()) is (stream == "returns")
    assert seen.too_wide() == []


@pytest.mark.parametrize(
    ("stream", "tables"),
    [
        ("baskets", ("query state", "kafka")),
        ("sockets", ("receivers", "receivers away", "limits")),
    ],
)
def test_tables_fit_into_the_window_of_a_laptop(
    seen: Pages, stream: str, tables: tuple[str, ...]
) -> None:
    shown = seen.overview(stream)
    for each in tables:
        assert shown[each].locator("tbody tr").count() > 0
    assert seen.too_wide() == []


def test_the_fleet_shows_all_streams_the_worst_first(seen: Pages) -> None:
    shown = seen.overview("fleet", "streams 1")
    assert shown["at a glance"].inner_text().split(": ")[1] == "13 streams"
    linked = shown["streams 1"].get_by_role("link").all_inner_texts()
    assert set(linked) == {*(stream.name for stream in STREAMS), "legacy"}
    assert set(linked[:3]) == {"orders", "payments", "searches"}
    assert linked[3:6] == ["legacy", "tickets", "returns"]
    assert "nobody declares" not in shown["streams 1"].inner_text()
    assert "legacy: orphan: driver 1 is running" in shown["what is up"].inner_text()
    assert seen.too_wide() == []


def test_the_fleet_shows_problems_as_people_read_them(seen: Pages) -> None:
    shown = seen.overview("fleet", "streams 1")
    problems = shown["problems"].inner_text()
    assert "payments has failed, is given up and not restarted any more, since " in problems
    assert "tickets is slow, too far behind, since " in problems
    assert "{" not in problems
    assert "{" not in shown["for alerts"].inner_text()


def test_a_long_path_is_broken_and_copied_as_it_is(seen: Pages) -> None:
    state = seen.overview("tickets")["state"]
    select = "element => { getSelection().selectAllChildren(element); return `${getSelection()}` }"
    assert LOG in state.evaluate(select)
    assert seen.too_wide() == []


def test_an_orphan_is_told_of_among_its_events(seen: Pages) -> None:
    seen.open("/assets/legacy?view=events")
    seen.see("legacy: orphan: driver 1 is running")
