"""The table of `status` on terminals of all widths."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from dagster_sparkscale.cli.table import table
from dagster_sparkscale.watch.fleet.rows import Row
from tests.watch.fleets import failing, line

LONG = "clicks_of_all_pages_of_the_shop_in_the_region_"


def fleet(**fields) -> list[Row]:
    stuck = failing("batches_completing", urgent=True, text="the batch in progress is stuck")
    common = {"registered": 3, "requested": 5, "maximum": 8, "restarts": 12} | fields
    return [
        line(stream=f"{LONG}west", ratio=0.52, lag=3700.0, decision="scale to 5", **common),
        line(
            stream=f"{LONG}east",
            state="not started",
            ratio=123.45,
            lag=95.0,
            decision="hold",
            failing=(stuck,),
            **common,
        ),
        line(stream="x", state="failed", since=1000.0, reason="exit code 1", decision="restart"),
    ]


def shown(rows, width: int | None) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width or 160).print(table(rows, width))
    return [text.rstrip() for text in out.getvalue().splitlines()]


@pytest.mark.parametrize("fields", [{}, {"limit": 500.0, "limit_set": True, "throttled": True}])
@pytest.mark.parametrize("width", [60, 72, 80, 100, 120, 132])
def test_r_behind_and_health_are_whole_and_names_differ_however_narrow_it_is(width, fields):
    lines = shown(fleet(**fields), width)
    assert max(map(cell_len, lines)) <= width
    head, *body = lines
    assert head.split()[:4] == ["STREAM", "HEALTH", "R", "BEHIND"]
    west, east = body[0], next(each for each in body if "not started" in each)
    word = " throttled " if fields else " healthy "
    for part in (word, " 0.52 ", " 62 min"):
        assert part in f"{west} "
    for part in (" not started ", " 123.45 ", " 95 s"):
        assert part in f"{east} "
    assert west.split()[0] != east.split()[0]
    assert west.split()[0].endswith("west") and west.startswith("clicks")
    assert west.index("0.52") + 4 == east.index("123.45") + 6  # below each other
    assert any("failed for 17 min" in each for each in body)


def test_on_80_columns_executors_are_there_too_and_what_is_up_is_below():
    head, west, _east, stuck, x, note = shown(fleet(), 80)
    assert stuck == "    the batch in progress is stuck"
    assert "EXECUTORS" in head and "DECISION" in head and "RESTARTS" not in head
    assert "3 -> 5 of 8" in west and "scale to 5" in west
    assert x.startswith("x  ")
    assert note == "    exit code 1"


def test_a_note_is_as_long_as_it_is():
    rows = [line(state="failed", reason="a word " * 40)]
    lines = shown(rows, 60)
    assert " ".join(" ".join(lines[2:]).split()) == ("a word " * 40).strip()


@pytest.mark.parametrize("width", [None, 200])
def test_where_there_is_room_all_is_in_one_line(width):
    lines = shown([line(stream="clicks", state="failed", reason="exit code 1")], width)
    assert len(lines) == 2
    assert lines[0].endswith("RESTARTS  WHAT IS UP") and lines[1].endswith("exit code 1")


def test_without_a_terminal_names_are_whole():
    assert any(each.startswith(f"{LONG}west  ") for each in shown(fleet(), None))
