"""The rows of the fleet as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.watch.fleet.text import (
    HEAD,
    HEAD_OF_ALL,
    asset_path,
    executors,
    in_pieces,
    limit,
    markdown,
    notes,
    sentence,
    shortened,
)
from dagster_sparkscale.watch.fleet.verdict import lasting
from tests.watch.fleets import NOW, failing, fleets, line


@given(fleets, st.integers(0, 4))
def test_pieces_stay_below_their_size_and_have_the_first_rows_in_order(fleet, most):
    pieces = in_pieces(fleet, 1000, most)
    assert len(pieces) <= most
    assert all(len(piece) < 1000 and piece.startswith(HEAD) for piece in pieces)
    shown = [row for piece in pieces for row in piece.removeprefix(HEAD).splitlines()]
    whole = markdown(fleet).removeprefix(HEAD_OF_ALL).splitlines()
    # Those of the whole table have a note behind them, and spaces at which lines may end.
    plain = [row.replace("\u00a0", " ") for row in shown]
    assert all(row.startswith(each) for each, row in zip(plain, whole, strict=False))
    if len(pieces) < most:
        assert len(shown) == len(fleet)


@given(fleets)
def test_every_row_of_a_table_is_one_line_of_eight_cells(fleet):
    lines = markdown(fleet).split("\n")
    assert len(lines) == 2 + len(fleet) + 1
    for each in lines[2:-1]:
        assert len(each.replace("\\\\", "").replace("\\|", "").split("|")) == 10


def test_a_table_is_filled_up_to_its_size():
    two = [line(), line(stream="orders")]
    (whole,) = in_pieces(two, 1000, 3)
    assert in_pieces(two, len(whole) + 1, 3) == [whole]
    alone = [in_pieces([each], 1000, 1)[0] for each in two]
    assert in_pieces(two, len(whole), 3) == alone


def test_what_is_up_is_told_of_those_with_which_something_is_up():
    fleet = [
        line(state="failed", reason="driver 2 failed"),
        line(stream="fine"),
        line(stream="orders", failing=(failing(text="R is *1.20*"),)),
    ]
    told = "- [clicks](/assets/clicks): driver 2 failed\n"
    other = "- [orders](/assets/orders): R is \\*1.20\\*\n"
    assert notes(fleet, 1000) == told + other
    assert notes(fleet, len(told + other) + 20) == f"{told}\nand 1 more"
    assert notes(fleet[1:2], 1000) == ""


def test_what_is_up_is_cut_short_only_where_there_is_no_room():
    fleet = [line(stream=f"s{n}", state="failed", reason="why " * 40) for n in range(5)]
    assert notes(fleet[:1], 1000) == "- [s0](/assets/s0): " + ("why " * 40).strip() + "\n"
    assert notes(fleet, 600).count("...") == 5


def test_one_that_does_not_answer_is_not_called_running():
    silent = line(failing=(failing("running", True),))
    assert "|not answering|" in in_pieces([silent], 1000, 1)[0]
    assert "|not answering|" in markdown([silent])
    assert "|slow|" in markdown([line(failing=(failing(),))])


@given(fleets)
def test_what_is_up_stays_below_its_size(fleet):
    assert len(notes(fleet * 9, 1000)) < 1000


def test_text_is_cut_only_where_it_is_too_long():
    assert (shortened("abcde", 5), shortened("abcdef", 5)) == ("abcde", "ab...")


def test_half_a_character_is_no_text_that_can_be_stored():
    assert shortened("/data/caf\udce9 \ud83d", 90) == "/data/caf? ?"


def test_a_link_has_the_parts_of_a_key_apart():
    assert asset_path(line(asset=("a/b", "c"))) == "/assets/a%2Fb/c"


def test_a_table():
    fleet = [
        line(
            stream="my_clicks",
            asset=("web team", "my_clicks"),
            ratio=1.2,
            lag=75.0,
            registered=3,
            requested=5,
            maximum=8,
            decision="scale to 5",
            restarts=2,
            failing=(failing(text="a | b\n*c*"),),
        ),
        line(stream="orders", state="failed", since=NOW - 720, reason="x " * 100),
    ]
    assert markdown(fleet) == HEAD_OF_ALL + (
        r"|[my\_clicks](/assets/web%20team/my_clicks)|slow|1.20|75 s|3 → 5 of 8|"
        r"scale to 5|2|a \| b \*c\*|"
        "\n|[orders](/assets/orders)|failed for 12 min|-|-|-||-|" + ("x " * 43 + "x...|\n")
    )


@pytest.mark.parametrize(
    ("fleet", "text"),
    [
        ([line()], "1 stream: 1 healthy. Nothing is wrong."),
        (
            [line(), line(stream="b", state="stopped"), line(stream="c", state="not started")],
            "3 streams: 1 healthy, 1 stopped, 1 not started. Nothing is wrong.",
        ),
        (
            [line(), line(stream="b", state="failed", reason="driver 2 failed")],
            "2 streams: 1 failed, 1 healthy. Worst: b: driver 2 failed.",
        ),
        (
            [line(state="failed"), line(stream="b", state="failed", gave_up=True, reason="no")],
            "2 streams: 1 given up, 1 failed. Worst: b: no; clicks: .",
        ),
        (
            [line(stream=name, failing=(failing(),)) for name in "abc"],
            "3 streams: 3 slow. Worst: a: R is 1.20; b: R is 1.20; c: R is 1.20.",
        ),
        (
            [line(stream=name, failing=(failing(),)) for name in "abcde"],
            "5 streams: 5 slow. Worst: a: R is 1.20; b: R is 1.20; c: R is 1.20; and 2 more.",
        ),
    ],
)
def test_a_sentence(fleet, text):
    assert sentence(fleet) == text


def test_a_fleet_in_which_a_problem_stands_is_not_said_to_be_well():
    assert sentence([line()], ["clicks is too far behind"]) == (
        "1 stream: 1 healthy. Not over yet: clicks is too far behind."
    )
    four = [f"{name} is not well" for name in "abcd"]
    assert sentence([line()], four).endswith("c is not well; and 1 more.")
    assert (
        sentence([line(failing=(failing(),))], four)
        == "1 stream: 1 slow. Worst: clicks: R is 1.20."
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "-"),
        ({"registered": 3}, "3"),
        ({"registered": 3, "requested": 3, "maximum": 8}, "3 of 8"),
        ({"registered": 0, "requested": 2, "maximum": 8}, "0 -> 2 of 8"),
        ({"requested": 2}, "? -> 2"),
        ({"maximum": 8}, "-"),
    ],
)
def test_executors_as_people_say_them(fields, text):
    assert executors(line(**fields)) == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"since": 1000.0}, "healthy"),
        ({"state": "failed"}, "failed"),
        ({"state": "failed", "gave_up": True}, "given up"),
        ({"state": "failed", "gave_up": True, "since": NOW - 60}, "given up for 60 s"),
        ({"state": "unknown", "since": 1000.0}, "unknown"),
        ({"state": "stopped", "since": NOW - 60}, "stopped for 60 s"),
        ({"state": "starting", "since": NOW + 5}, "starting for 0 s"),
    ],
)
def test_a_verdict_and_how_long_it_has_lasted(fields, text):
    assert lasting(line(**fields)) == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, ""),
        ({"limit": 20000.4}, "20,000/s"),
        ({"limit": 2.25, "throttled": True}, "2.2/s reached"),
        ({"limit": 500.0, "limit_set": True, "throttled": True}, "500/s set reached"),
        ({"limit_set": True}, "set"),
    ],
)
def test_a_limit_as_people_say_it(fields, text):
    assert limit(line(**fields)) == text
