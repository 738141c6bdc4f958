"""The picture of the last hours: true, well-formed, inside its box, and small whatever happens."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.watch.page.picture import BUCKETS, FEW, WIDTHS, Bucket, Buckets, picture

FIRST, SECOND, WIDEST = WIDTHS
STEP = 240 // BUCKETS
START = 3_000_000 * WIDEST
QUIET = Minute(START, "running", epoch=1, ratio=0.5, lag=5, registered=2, requested=2)


def later(minutes=0, buckets=0, **fields):
    return replace(QUIET, at=START + int(60 * minutes) + FIRST * buckets, **fields)


def filled(*minutes):
    buckets = Buckets()
    for minute in minutes:
        buckets.add(minute)
    return buckets


def numbers(buckets):
    """Of the buckets that are kept, counted from the first one of all."""
    return [each.number - START // buckets.width for each in buckets.kept]


class Drawn:
    """What is seen of a picture."""

    def __init__(self, markdown):
        link, _, self.words = markdown.partition("\n\n")
        source = re.fullmatch(r"!\[\]\(<data:image/svg\+xml,([^<>\n]*)>\)", link)
        assert source, link
        svg = ElementTree.fromstring(unquote(source[1]))
        assert svg.tag == "{http://www.w3.org/2000/svg}svg"
        self.width, self.height = int(svg.get("width")), int(svg.get("height"))
        *paths, texts = svg
        self.texts = [text.text for text in texts]
        assert all(0 <= int(text.get("x", "0")) < self.width for text in texts)
        assert all(0 < int(text.get("y")) <= self.height for text in texts)
        self.paths = {path.get("stroke"): path.get("d") for path in paths}
        assert next(iter(self.paths)) == "silver", "the others are drawn over it"
        assert all(re.fullmatch(r"(M\d+ \d+([hv]\d+|l[-\d ]+))*", d) for d in self.paths.values())
        assert [path.tag.rpartition("}")[2] for path in paths] == ["path"] * len(paths)

    def lines(self, color):
        """The lines of a color, each as the points it goes through."""
        found = []
        for command, numbers in re.findall(r"([Mlhv])([-\d ]+)", self.paths[color]):
            values = [int(each) for each in re.findall(r"-?\d+", numbers)]
            if command == "M":
                found.append([tuple(values)])
                continue
            if command == "h":
                values = [values[0], 0]
            elif command == "v":
                values = [0, values[0]]
            pairs = zip(values[::2], values[1::2], strict=True)
            for right, down in pairs:
                x, y = found[-1][-1]
                found[-1].append((x + right, y + down))
        return found


def drawn(*minutes):
    return Drawn(picture(filled(*minutes)))


class TestBuckets:
    def test_one_has_the_worst_of_its_minutes(self):
        (bucket,) = filled(
            later(0, ratio=0.5, lag=9, registered=2),
            later(0.5, ratio=0.7, lag=None, registered=4),
            later(1, ratio=None, lag=12, registered=2),
            later(1.5, ratio=0.6, lag=3, registered=3),
        ).kept
        assert bucket == Bucket(START // FIRST, 0.7, 12, 3)

    def test_what_was_measured_in_none_of_them_is_none(self):
        (bucket,) = filled(later(ratio=None, lag=None), later(1, ratio=None, lag=None)).kept
        assert bucket == Bucket(START // FIRST, None, None, 2)

    def test_they_end_with_their_time(self):
        last = later(0, buckets=1)
        assert numbers(filled(later(0), replace(last, at=last.at - 1), last)) == [0, 1]

    @pytest.mark.parametrize(
        ("fields", "operated"),
        [
            *(({"requested": 3}, True), ({"epoch": 2}, True), ({"registered": 3}, False)),
            *(({"requested": None}, False), ({"epoch": None}, False), ({}, False)),
            ({"requested": 0}, True),
        ],
    )
    @pytest.mark.parametrize("apart", [0, 1])
    def test_they_say_whether_something_was_done_in_them(self, fields, operated, apart):
        buckets = filled(later(), later(1, buckets=apart, **fields))
        assert [each.scaled or each.restarted for each in buckets.kept] == [False] * apart + [
            operated
        ]

    def test_it_is_said_of_the_whole_bucket(self):
        (bucket,) = filled(later(), later(0.5, requested=3), later(1, requested=3)).kept
        assert bucket.scaled and not bucket.restarted

    def test_a_change_is_seen_across_what_was_not_known(self):
        silent = {"requested": None, "epoch": None}
        for fields, operated in (({"requested": 3}, True), ({"epoch": 2}, True), ({}, False)):
            buckets = filled(later(), later(buckets=1, **silent), later(buckets=2, **fields))
            assert [each.scaled or each.restarted for each in buckets.kept] == [
                False,
                False,
                operated,
            ]

    def test_a_clock_that_was_set_back_takes_back_what_has_not_been_yet(self):
        assert numbers(filled(later(), later(buckets=1), later(buckets=25), later(2))) == [0, 1]
        assert numbers(filled(later(buckets=500), later())) == [0]


UNKNOWN = {"ratio": None, "lag": None, "registered": None}


class TestHowWideTheyAre:
    @pytest.mark.parametrize(
        ("last", "width", "kept"),
        [
            (29, FIRST, [0, 29]),
            (30, SECOND, [0, 10]),
            (89, SECOND, [0, 29]),
            (90, WIDEST, [0, 15]),
            (179, WIDEST, [0, 29]),
            (180, FIRST, [180]),
        ],
    )
    def test_as_narrow_as_one_picture_of_all_allows(self, last, width, kept):
        buckets = filled(later(), later(buckets=last))
        assert (buckets.width, numbers(buckets)) == (width, kept)

    def test_a_picture_has_six_hours_at_most(self):
        buckets = filled(*(later(buckets=number) for number in range(200)))
        assert buckets.width == WIDEST
        assert numbers(buckets) == [*range(4, 34)]

    def test_those_that_become_one_keep_the_worst_and_what_was_done(self):
        buckets = filled(
            later(ratio=0.5, lag=9, registered=2),
            later(buckets=1, ratio=0.9, lag=3, registered=5, requested=3),
            later(buckets=2, ratio=None, lag=None, registered=4, requested=3),
            later(buckets=30, requested=3),
        )
        assert buckets.kept == [
            Bucket(START // SECOND, 0.9, 9, 4, True),
            Bucket(START // SECOND + 10, 0.5, 5, 2),
        ]

    def test_what_was_not_measured_before_anything_was_is_no_part_of_it(self):
        waiting = [later(buckets=number, **UNKNOWN) for number in range(200)]
        assert filled(*waiting) == Buckets(requested=2, epoch=1)
        buckets = filled(*waiting, later(buckets=200), later(buckets=201, **UNKNOWN))
        assert (buckets.width, numbers(buckets)) == (FIRST, [200, 201])

    def test_after_long_silence_it_begins_anew(self):
        lived = [later(buckets=number) for number in range(100)]
        silent = [later(buckets=number, **UNKNOWN) for number in range(100, 300)]
        assert filled(*lived, *silent[:50]).width == WIDEST
        assert filled(*lived, *silent) == Buckets(requested=2, epoch=1)
        again = filled(*lived, *silent, later(buckets=300, requested=3))
        assert (again.width, numbers(again)) == (FIRST, [300])
        assert again.kept[0].scaled


class TestThePicture:
    def test_of_nothing_is_none(self):
        assert picture(Buckets()) == ""
        assert picture(filled(Minute(START, "stopped"))) == ""

    @pytest.mark.parametrize(
        ("last", "times", "begins"),
        [
            (0, "-20min now", 240 - 24),
            (FEW - 1, "-20min now", 0),
            (FEW, "-60min now", 240 - 8 * (FEW + 1)),
            (29, "-60min now", 0),
            (30, "-3h now", 240 - 8 * 11),
            (90, "-6h now", 240 - 8 * 16),
        ],
    )
    def test_is_of_as_much_time_as_there_is(self, last, times, begins):
        seen = drawn(*(later(buckets=number) for number in range(last + 1)))
        assert seen.width == 330
        assert (seen.texts[-1], seen.words) == (times, "")
        (line,) = seen.lines("red")
        assert line[0][0] == begins
        assert line[-1][0] == (237 if last == 0 else 240 - (24 if last < FEW else 8))

    def test_each_value_has_a_lane_of_its_own_drawn_to_its_largest(self):
        seen = drawn(
            later(ratio=0, lag=50, registered=4),
            later(buckets=1, ratio=2, lag=100, registered=2),
            later(buckets=FEW, ratio=1, lag=100, registered=2),
        )
        assert (seen.width, seen.height) == (330, 78 + 12)
        x = 240 - (FEW + 1) * STEP
        assert seen.lines("red")[0] == [(x, 20), (x + STEP, 0)]
        assert seen.lines("red")[1][0] == (240 - STEP, 10)
        assert seen.lines("blue")[0] == [(x, 26), (x + STEP, 36)]
        assert seen.lines("green")[0] == [(x, 62), (x + STEP, 52)]

    def test_a_line_shows_where_r_is_one(self):
        seen = drawn(later(ratio=0.5), later(buckets=1, ratio=2))
        assert seen.lines("silver") == [[(0, 10), (240, 10)]]
        assert drawn(later(ratio=0.5)).lines("silver") == [[(0, 0), (240, 0)]]

    def test_what_is_small_does_not_fill_its_lane(self):
        assert drawn(later(ratio=0.5)).lines("red")[0][0] == (216, 10)

    def test_uprights_show_where_something_was_done_the_latest_ones(self):
        seen = drawn(*(later(buckets=number, requested=number) for number in range(12)))
        first = BUCKETS - 12
        marks = [[((first + n) * STEP, 0), ((first + n) * STEP, 78)] for n in range(6, 12)]
        assert seen.lines("silver")[1:] == marks

    def test_a_gap_shows_where_a_value_is_not_known(self):
        ratios = (0, None, 1, 1, None, 0, 0)
        seen = drawn(*(later(buckets=n, ratio=ratio) for n, ratio in enumerate(ratios)))
        x = 240 - 7 * 24
        assert seen.lines("red") == [
            [(x, 20), (x + 21, 20)],
            [(x + 48, 0), (x + 72, 0)],
            [(x + 120, 20), (x + 144, 20)],
        ]
        assert len(seen.lines("blue")) == 1

    def test_a_gap_shows_where_nobody_looked(self):
        seen = drawn(later(), later(buckets=2))
        assert len(seen.lines("red")) == len(seen.lines("blue")) == 2

    def test_what_stays_the_same_is_one_step(self):
        buckets = filled(*(later(buckets=n) for n in range(BUCKETS)))
        assert Drawn(picture(buckets)).lines("red") == [[(0, 10), (240 - STEP, 10)]]
        assert len(picture(buckets)) < 750

    def test_a_lag_that_wavers_by_a_pixel_is_drawn_as_one_that_does_not(self):
        lags = (100, 50, 53, 47, 50, 60, 57, 96, 100)
        seen = drawn(*(later(buckets=n, lag=lag) for n, lag in enumerate(lags)))
        (line,) = seen.lines("green")
        assert [y - 52 for _, y in line] == [0, 10, 10, 8, 8, 1, 0]

    def test_what_was_never_known_has_no_lane(self):
        seen = drawn(later(ratio=None, lag=None))
        assert set(seen.paths) == {"silver", "blue"}
        assert (seen.height, seen.words) == (38, "")
        assert seen.texts == ["executors 2", "-20min now"]
        assert drawn(later(registered=None)).lines("green")[0][0][1] == 26

    def test_names_and_numbers_are_in_it(self):
        seen = drawn(
            later(ratio=1.2345, lag=70), later(buckets=1, registered=3, requested=3, lag=5)
        )
        assert seen.texts[:3] == ["R 0.5, max 1.23", "executors 3", "lag (s) 5, max 70"]
        assert seen.words == "silver lines: rescaled"
        again = drawn(later(), later(buckets=1, epoch=2, requested=5))
        assert again.words == "orange lines: restarted"
        assert len(again.lines("orange")) == 1

    def test_its_numbers_are_of_the_last_minute_and_not_the_worst_of_its_bucket(self):
        long = [later(minutes) for minutes in range(350)]
        seen = drawn(*long, later(351, ratio=3.0, lag=90), later(352, ratio=0.4, lag=6))
        assert seen.texts[:3] == ["R 0.4, max 3", "executors 2", "lag (s) 6, max 90"]

    def test_what_is_not_known_now_is_a_dash_and_not_what_it_was(self):
        down = [later(minutes, **UNKNOWN) for minutes in range(30, 60)]
        seen = drawn(*(later(minutes) for minutes in range(30)), *down)
        assert seen.texts[:3] == ["R -, max 0.5", "executors -, max 2", "lag (s) -, max 5"]

    def test_the_worst_minutes_are_there_where_no_batch_completed(self):
        hung = [later(buckets=n, ratio=None, overdue=10.0 * n) for n in range(1, 4)]
        seen = drawn(later(), *hung, later(buckets=4, ratio=1.5))
        (line,) = seen.lines("red")
        assert [y for _, y in line] == [17, 0, 0, 10]
        assert seen.texts[0] == "R 1.5, max 30"
        assert seen.words.endswith("where no batch completed, R is the age of the one in progress")
        # Measured and overdue beside it, as of another query: R is what was measured.
        assert drawn(later(overdue=9.0)).texts[0] == "R 0.5"

    def test_what_is_below_zero_stays_in_the_box(self):
        assert drawn(later(lag=-50)).lines("green")[0][0][1] == 72


measured = st.none() | st.floats(0, 1) | st.floats(-1e99, 1e99) | st.sampled_from([0, 1e-9, 10**99])
counted = st.none() | st.integers(0, 3) | st.integers(-(2**70), 2**70)
# Seconds since the minute before.
steps = st.just(60) | st.integers(-7200, 7200) | st.sampled_from([600, 1200, -(10**9), 10**9])
walks = st.lists(st.tuples(steps, measured, measured, counted, counted, counted), max_size=80)
up_and_down = [(WIDEST, (n % 2) * 1.23e99, (n % 2) * 1.23e99, n % 2, n, n) for n in range(80)]
in_pieces = [(WIDEST, *((-1.23e-99, None) * 2)[n % 2 :][:2], n, n, n) for n in range(80)]
worst = [
    (WIDEST, 1.11e-99 + (n % 2) * 1.23e99, (n % 2) * 1.23e99 - 1.11e-9, -n % 2 * 10**9, n, n)
    for n in range(80)
]


@given(walks)
@example(up_and_down)
@example(in_pieces)
@example(worst)
def test_whatever_happens_it_is_small_well_formed_and_inside_its_box(walk):
    buckets, at = Buckets(), 10**10
    for step, ratio, lag, registered, requested, epoch in walk:
        at += step
        buckets.add(Minute(at, "running", epoch, ratio, lag, lag, registered, requested))
        found = [each.number for each in buckets.kept]
        assert found == sorted(set(found))
        assert not found or found[-1] <= at // buckets.width < found[0] + BUCKETS
        assert not found or buckets.kept[0].measured
    text = picture(buckets)
    assert len(text) < 1000
    assert bool(text) == bool(buckets.kept)
    if not text:
        return
    seen = Drawn(text)
    for color in seen.paths:
        for line in seen.lines(color):
            assert len(line) > 1
            assert all(0 <= x <= seen.width and 0 <= y <= seen.height for x, y in line)
    # Where times have no room, it says so in words.
    count = FEW if re.search("-20min now|The last 20 min", text) else BUCKETS
    for color, values in (
        ("red", [b.load for b in buckets.kept]),
        ("blue", [b.executors for b in buckets.kept]),
        ("green", [b.lag for b in buckets.kept]),
    ):
        assert (color in seen.paths) == any(value is not None for value in values)
        if color in seen.paths:
            step = 240 // count
            ends = [(line[0][0] // step, line[-1][0] // step) for line in seen.lines(color)]
            shown = {place for first, last in ends for place in range(first, last + 1)}
            first = buckets.kept[-1].number - count + 1
            known = {
                bucket.number - first
                for bucket, value in zip(buckets.kept, values, strict=True)
                if value is not None
            }
            assert shown == known
