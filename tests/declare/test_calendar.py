"""Windows of a calendar: what holds when, held against clocks that are read minute by minute."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.calendar import Calendar, Window
from tests.declare.refusing import refusal
from tests.fakes import dstream, structured

MINUTE = 60.0
CHANGES = {
    "Europe/Berlin": ("2026-03-29T01:00", "2026-10-25T01:00"),
    "America/New_York": ("2026-03-08T07:00", "2026-11-01T06:00"),
    "America/Santiago": ("2026-09-06T04:00", "2026-04-05T03:00"),  # at midnight
    "Australia/Lord_Howe": ("2026-10-03T15:30", "2026-04-04T15:00"),  # by half an hour
    "Antarctica/Troll": ("2026-03-29T01:00", "2026-10-25T01:00"),  # by two hours
    "Africa/Casablanca": ("2026-03-22T02:00", "2026-02-15T02:00"),  # summer time but in Ramadan
    "Asia/Kolkata": ("2026-03-29T01:00",),  # never
    "UTC": ("2026-03-29T01:00",),
}
AROUND = [(zone, change) for zone, changes in CHANGES.items() for change in changes]


def seconds(text: str, zone: str = "UTC", fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def matches(wall: datetime, minute: int, hour: int | None, days: set[int] | None) -> bool:
    """Whether a cron schedule of these fields names what the clock shows."""
    return (
        wall.minute == minute
        and hour in (None, wall.hour)
        and (days is None or wall.isoweekday() % 7 in days)
    )


def held(begin: float, number: int, zone: str, fields: tuple, minutes: int) -> list[bool]:
    """Whether a window holds in each of `number` minutes: the slow way, by all that the clock may
    have shown since it could have begun."""
    shown = [
        datetime.fromtimestamp(begin + n * MINUTE, ZoneInfo(zone)).replace(tzinfo=None)
        for n in range(number)
    ]
    wall, left, holds = min(shown) - timedelta(minutes=minutes), 0, {}
    while wall <= max(shown):
        left = minutes if matches(wall, *fields) else left - 1
        holds[wall] = left > 0
        wall += timedelta(minutes=1)
    return [holds[each] for each in shown]


@st.composite
def windows(draw):
    """The fields of a cron schedule, and minutes that are no longer than its period."""
    hour = draw(st.none() | st.integers(0, 23) | st.integers(0, 4))
    days = draw(st.none() | st.sets(st.integers(0, 6), min_size=1)) if hour is not None else None
    most = 59 if hour is None else 1439 if days is None or len(days) > 1 else 7 * 1440 - 1
    return (draw(st.integers(0, 59)), hour, days), draw(st.integers(1, min(most, 4000)))


@settings(max_examples=60, deadline=None)
@given(window=windows(), around=st.sampled_from(AROUND), offset=st.integers(-900, 0))
@example(window=((30, 2, None), 60), around=AROUND[0], offset=-300)
@example(window=((30, 2, None), 60), around=AROUND[1], offset=-300)
@example(window=((0, 22, None), 480), around=AROUND[0], offset=-900)
@example(window=((0, 22, None), 480), around=AROUND[1], offset=-900)
@example(window=((45, None, None), 30), around=AROUND[7], offset=-300)
def test_a_window_holds_exactly_as_the_clock_on_the_wall_shows(window, around, offset):
    (minute, hour, days), minutes = window
    zone, change = around
    named = "*" if days is None else ",".join(map(str, sorted(days)))
    cron = f"{minute} {'*' if hour is None else hour} * * {named}"
    calendar = Calendar(
        timezone=zone,
        windows=(Window(cron=cron, duration=minutes * MINUTE, freeze=True),),
    )
    at = end = seconds(change) + offset * MINUTE
    end += 1800 * MINUTE
    expected = held(at, 1800, zone, window[0], minutes)
    while at < end:
        moment = calendar.at(at)
        first = round((at - end) / MINUTE) + 1800
        last = min(1800, round((moment.until - at) / MINUTE) + first)
        assert {bool(moment.holding)} == set(expected[first:last]), "until it changes, it holds"
        if last < 1800:
            assert expected[last] != expected[first], "it changes no earlier than it says"
        assert bool(moment.following) != bool(moment.holding)
        for spell in moment.holding:
            assert spell.until == moment.until
            began = round((spell.since - at) / MINUTE) + first
            assert began < 1 or (all(expected[began:first]) and not expected[began - 1])
        at = moment.until


def moments(zone: str, cron: str, duration: str, since: str, number: int) -> list[tuple[str, str]]:
    """When a window begins and ends, in UTC, from a time in UTC on."""
    window = Window(cron=cron, duration=duration, freeze=True)
    calendar, at, found = Calendar(timezone=zone, windows=(window,)), seconds(since), []
    while len(found) < number:
        moment = calendar.at(at)
        at = moment.until
        if spells := moment.following:
            times = (datetime.fromtimestamp(t, UTC) for t in (spells[0].since, spells[0].until))
            found.append(tuple(f"{time:%d %H:%M}" for time in times))
    return found


BERLIN = "Europe/Berlin"


def test_a_window_in_the_hour_that_is_skipped_is_as_long_as_the_clock_shows_it():
    forward = moments(BERLIN, "30 2 * * *", "1h", "2026-03-28T00:00", 3)
    assert forward == [("28 01:30", "28 02:30"), ("29 01:00", "29 01:30"), ("30 00:30", "30 01:30")]
    skipped = moments(BERLIN, "15 2 * * *", "30 min", "2026-03-28T00:00", 2)
    assert skipped == [("28 01:15", "28 01:45"), ("30 00:15", "30 00:45")]


def test_a_window_in_the_hour_that_comes_twice_holds_both_times():
    back = moments(BERLIN, "15 2 * * *", "30 min", "2026-10-25T00:00", 3)
    assert back == [("25 00:15", "25 00:45"), ("25 01:15", "25 01:45"), ("26 01:15", "26 01:45")]


def test_a_night_ends_at_six_whether_or_not_clocks_change_in_it():
    spring = moments(BERLIN, "0 22 * * *", "8h", "2026-03-28T12:00", 2)
    assert spring == [("28 21:00", "29 04:00"), ("29 20:00", "30 04:00")]
    autumn = moments(BERLIN, "0 22 * * *", "8h", "2026-10-24T12:00", 2)
    assert autumn == [("24 20:00", "25 05:00"), ("25 21:00", "26 05:00")]


def test_a_window_that_follows_itself_is_one():
    weekdays = moments(BERLIN, "0 0 * * MON-FRI", "1 d", "2026-03-21T12:00", 2)
    assert weekdays == [("22 23:00", "27 23:00"), ("29 22:00", "03 22:00")]


def test_a_window_of_a_leap_day_comes_each_four_years():
    assert moments("UTC", "0 12 29 2 *", "1h", "2025-01-01T00:00", 1) == [("29 12:00", "29 13:00")]


DAY = Window(cron="0 8 * * *", duration="12h", bounds=(4, 12), reason="office hours")
NIGHT = Window(cron="0 20 * * *", duration="12h", bounds=(1, 4))
CLOSING = Window(cron="0 18 28 * *", duration="6h", freeze=True, reason="monthly closing")


def kinds(spells):
    return [(spell.window.kind, spell.window.bounds) for spell in spells]


def test_windows_of_several_kinds_hold_at_once_and_it_says_what_follows():
    calendar = Calendar(windows=(DAY, NIGHT, CLOSING))
    moment = calendar.at(seconds("2026-05-28T19:00"))
    assert kinds(moment.holding) == [("freeze", None), ("bounds", (4, 12))]
    assert moment.until == seconds("2026-05-28T20:00")
    assert kinds(moment.following) == [("freeze", None), ("bounds", (1, 4))]
    assert [spell.until for spell in moment.following] == [
        seconds("2026-05-29T00:00"),
        seconds("2026-05-29T08:00"),
    ]


@pytest.mark.parametrize("change", CHANGES[BERLIN])
def test_windows_that_follow_each_other_leave_no_gap_where_clocks_change(change):
    calendar = Calendar(timezone=BERLIN, windows=(DAY, NIGHT))
    begin = seconds(change) - 86400
    for minute in range(3 * 1440):
        assert len(calendar.at(begin + minute * MINUTE).holding) == 1


def test_of_two_windows_of_a_kind_the_one_that_goes_on_for_longer_is_shown():
    short = Window(cron="0 10 * * *", duration="1h", freeze=True, reason="short")
    long = Window(cron="30 9 * * *", duration="3h", freeze=True, reason="long")
    for order in ((short, long), (long, short)):
        (spell,) = Calendar(windows=order).at(seconds("2026-05-28T10:30")).holding
        assert spell.window.reason == "long"


def test_a_clock_that_was_set_back_is_answered_anew():
    calendar = Calendar(windows=(DAY,))
    assert calendar.at(seconds("2026-05-28T09:00")).holding
    assert not calendar.at(seconds("2026-05-28T07:00")).holding
    assert calendar.at(seconds("2026-05-28T20:00")).holding == ()


def test_what_was_asked_before_makes_no_calendar_another_one():
    asked, other = (Calendar(windows=(DAY,)) for _ in range(2))
    asked.at(seconds("2026-05-28T09:00"))
    assert asked == other and hash(asked) == hash(other)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"cron": "at noon"}, "Window: cron = 'at noon': must be a cron schedule of five fields"),
        ({"cron": "0 0 30,31 2 *"}, "cron = '0 0 30,31 2 *': must name a day that comes"),
        ({"freeze": False}, "freeze = False: must be True, or drop it and give bounds or advise"),
        ({"advise": True}, "advise = True: drop it, or drop freeze"),
        (
            {"duration": "25h"},
            "duration = 25 h: must be at most 1 d, after which cron = '0 8 * * *'",
        ),
        ({"duration": "24h"}, "duration = 1 d: must be less: it would never end, as cron"),
        ({"duration": 30}, "duration = 30: must be at least 1 min"),
        ({"freeze": False, "bounds": (8, 2)}, "bounds = (8, 2): must have the fewest first"),
        ({"freeze": False, "bounds": (None, None)}, "bounds = (None, None): must have a number"),
        ({"freeze": False, "bounds": (2,)}, "bounds = (2,): must be two numbers, the fewest"),
        ({"freeze": False, "bounds": (0, 2)}, "bounds.0 = 0: must be at least 1"),
    ],
)
def test_a_window_that_cannot_be_is_refused(fields, said):
    assert said in refusal(
        Window, **{"cron": "0 8 * * *", "duration": "1h", "freeze": True} | fields
    )


def test_a_calendar_that_cannot_be_is_refused():
    assert "timezone = 'Mars': must be the name" in refusal(
        Calendar, timezone="Mars", windows=(DAY,)
    )
    assert "windows = (): must be one or more" in refusal(Calendar, windows=())
    longer = Window(cron="0 19 * * SUN", duration="2h", bounds=(2, 3))
    said = refusal(Calendar, windows=(DAY, longer))
    assert (
        "windows: bounds = (4, 12) at cron = '0 8 * * *' for 12 h and bounds = (2, 3) at cron"
        in said
    )
    assert (
        "must have the same bounds, or not overlap, as they do on Sunday, 07 January 2024" in said
    )
    same = Window(cron="0 19 * * SUN", duration="2h", bounds=(4, 12))
    assert Calendar(windows=(DAY, same, CLOSING)).windows


@pytest.mark.parametrize(
    ("policy", "bounds", "said"),
    [
        ({"max_executors": 8}, (4, 12), "bounds = (4, 12): must be at most 8, the most executors"),
        ({"max_executors": 8, "ceiling": 12}, (4, 12), None),
        ({}, (4, 400), None),
        (None, (4, 12), "bounds = (4, 12): drop it, or give autoscale, whose numbers it replaces"),
    ],
)
def test_bounds_of_a_window_are_within_what_the_driver_can_have(policy, bounds, said):
    window = Window(cron="0 8 * * *", duration="12h", bounds=bounds)
    fields = {"calendar": Calendar(windows=(CLOSING, window))}
    if policy is not None:
        fields["autoscale"] = RatioPolicy(**policy)
    if said is None:
        assert structured(**fields).calendar is not None
    else:
        assert f"calendar.windows.1.{said}" in refusal(structured, **fields)


def test_bounds_of_a_window_leave_receivers_their_places():
    fields = {"receivers": 3, "autoscale": RatioPolicy(max_executors=8)}
    calendar = Calendar(windows=(NIGHT,))
    said = refusal(dstream, calendar=calendar, **fields)
    assert "calendar.windows.0.bounds = (1, 4): must be at least 4, the fewest executors" in said
