"""What is stored of a stream's minutes is what is read back, and small."""

import json
import zlib
from base64 import b64decode, b64encode
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.markdown import carried, hidden
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.minutes import (
    Minute,
    added,
    check,
    merged,
    minute,
    pack,
    restored,
    stored,
    unpack,
)

NOON = 1_800_000_000

measured = st.none() | st.floats(-1e99, 1e99) | st.integers(-(2**70), 2**70)
counted = st.none() | st.integers(-(2**70), 2**70)
texts = st.none() | st.text(max_size=5)
minutes = st.builds(
    Minute,
    at=st.integers(0, 10**11),
    state=st.text(max_size=5),
    epoch=counted,
    ratio=measured,
    overdue=measured,
    lag=measured,
    registered=counted,
    requested=counted,
    processing_ms=measured,
    scheduling_ms=measured,
    input_rate=measured,
    processed_rate=measured,
    backlog=counted,
    pending=counted,
    completed=counted,
    failed=counted,
    shards=counted,
    decision=texts,
    reason=texts,
    limit=measured,
    peak_rate=measured,
    delay=measured,
    throttled=texts,
)
# Also of those in which little changes, as it is with streams.
few = st.builds(
    Minute,
    at=st.integers(NOON, NOON + 600),
    ratio=st.sampled_from([None, 0, 0.5]),
    registered=st.sampled_from([None, 0, 2]),
    decision=st.sampled_from([None, "scale to 3"]),
)


@given(st.lists(minutes, max_size=6) | st.lists(few, max_size=12))
def test_what_is_packed_is_read_again_also_through_json_and_in_any_order(some):
    packed = pack(some)
    assert unpack(packed) == some
    assert unpack(json.loads(json.dumps(packed, allow_nan=False))) == some
    assert restored(carried(hidden("minutes", stored(some)))) == some


@given(st.lists(few) | st.lists(minutes), few | minutes)
def test_a_minute_is_added_to_packed_ones_as_if_all_were_packed_anew(some, one):
    assert added(pack(some), one) == added(pack(some) if some else {}, one) == pack([*some, one])


def test_each_column_is_stored_as_shortly_as_it_can_be():
    same = Minute(NOON, "running", epoch=1, ratio=0.5, registered=0)
    later = replace(same, at=NOON + 60, ratio=0.6)
    assert pack([same, later]) == {
        "at": [NOON, 60],
        "state": "running",
        "epoch": 1,
        "ratio": [0.5, 0.6],
        "registered": 0,
    }


def test_one_that_is_known_later_only_is_null_before():
    some = [Minute(NOON), Minute(NOON + 60, ratio=0), Minute(NOON + 120)]
    assert pack(some)["ratio"] == [None, 0, None]


def test_ten_minutes_are_some_500_characters_and_less_as_an_event_carries_them():
    some = [
        Minute(
            at=NOON + 60 * n,
            state="running",
            epoch=3,
            ratio=0.512 + n / 1000,
            lag=4.21 + n / 10,
            registered=3,
            requested=3,
            processing_ms=5120 + 10 * n,
            scheduling_ms=12 + n,
            input_rate=1230 + 10 * n,
            processed_rate=2340 + 10 * n,
            backlog=10 + n,
            completed=6,
            failed=0,
        )
        for n in range(10)
    ]
    assert len(json.dumps(pack(some), separators=(",", ":"))) < 800
    assert len(stored(some)) < 500


def test_an_event_of_an_older_release_is_read_which_had_no_dictionary():
    some = [Minute(NOON, "running", ratio=0.5), Minute(NOON + 60)]
    text = json.dumps(pack(some)).encode()
    assert restored(b64encode(zlib.compress(text, level=9)).decode()) == some


def test_what_is_stored_goes_on_being_readable():
    """Stored by this release: a later one reads it with the same dictionary."""
    text = "ePmLHLBdQ48zEmMG5AS0QI42gokScCos8UIlgxQM9CxNsfoBbh6SH8BitQDtuTt/"
    assert restored(text) == [
        Minute(NOON, "running", epoch=1, ratio=0.5, registered=2, peak_rate=1200, delay=12.5),
        Minute(NOON + 60, "running", epoch=1, decision="scale to 3", reason="R 0.95"),
    ]


def test_columns_of_a_newer_release_are_passed_over_and_missing_ones_were_not_measured():
    assert unpack({"at": [NOON, 60], "mood": ["good", "bad"]}) == [Minute(NOON), Minute(NOON + 60)]


def test_nothing_is_nothing():
    assert unpack(pack([])) == []


def test_a_clock_that_was_set_back_is_stored_too():
    some = [Minute(NOON), Minute(NOON - 7200), Minute(NOON - 7140)]
    assert pack(some)["at"] == [NOON, -7200, 60]
    assert unpack(pack(some)) == some


@pytest.mark.parametrize(
    ("packed", "text"),
    [
        ({}, "at = None: must be a list of whole numbers"),
        ({"at": NOON}, "at = 1800000000: must be a list"),
        ({"at": [1.5]}, "must be a list of whole numbers"),
        ({"at": [True]}, "must be a list of whole numbers"),
        ({"at": [-1]}, "at = -1: must be seconds since the epoch"),
        ({"at": [5, -6]}, "at = -1: must be seconds since the epoch"),
        ({"at": [253402300800]}, "must be seconds since the epoch"),
        ({"at": [5], "ratio": [0.5, 0.6]}, "ratio: 2 values for 1 minutes"),
        ({"at": [5, 6], "ratio": [0.5]}, "ratio: 1 values for 2 minutes"),
        ({"at": [5, 6], "ratio": [0.5, float("nan")]}, "must be a number"),
        ({"at": [5], "ratio": -1e100}, "must be a number"),
        ({"at": [5], "ratio": "high"}, "ratio = 'high': must be a number"),
        ({"at": [5], "ratio": {}}, "ratio = {}: must be a number"),
        ({"at": [5], "ratio": True}, "ratio = True: must be a number"),
        (
            {"at": [5], "ratio": [float("nan")]},
            r"ratio = \[nan\]: must be a number, or one a minute",
        ),
        ({"at": [5], "lag": float("inf")}, "lag = inf: must be a number"),
        ({"at": [5], "lag": 1e100}, "must be a number"),
        ({"at": [5], "lag": -(10**400)}, "must be a number"),
        ({"at": [5], "registered": 2.0}, "registered = 2.0: must be a whole number"),
        ({"at": [5], "registered": [[]]}, r"registered = \[\[\]\]: must be a whole number"),
        ({"at": [5], "state": None}, "state = None: must be a text"),
        ({"at": [5], "decision": 5}, "decision = 5: must be a text"),
    ],
)
def test_what_pack_does_not_make_is_refused_by_name_and_value(packed, text):
    with pytest.raises(ValueError, match=text):
        unpack(packed)


def compressed(text):
    return b64encode(zlib.compress(text)).decode()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *((text, "must be compressed minutes") for text in ("", "eA==", "no base64", "\u20ac")),
        (compressed(b"\xff"), "must be compressed minutes"),
        (compressed(b"[" * 100_000), "must be compressed minutes"),
        (compressed(b"[]"), "must hold an object"),
        (compressed(b"{}"), "at = None"),
    ],
)
def test_what_stored_does_not_make_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        restored(text)


@pytest.mark.parametrize("cut", [slice(-1), slice(-4), slice(-20), slice(None)])
def test_of_an_event_that_is_cut_off_or_goes_on_nothing_is_read(cut):
    whole = b64decode(stored([Minute(at=NOON + 60 * n, ratio=n / 10) for n in range(10)]))
    other = whole[cut] if cut.stop else whole + b"more"
    with pytest.raises(ValueError, match="must be compressed minutes"):
        restored(b64encode(other).decode())


def test_the_first_and_the_last_second_that_a_clock_shows():
    assert [each.at for each in unpack({"at": [0, 253402300799]})] == [0, 253402300799]


values = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just({})
names = st.sampled_from([field.name for field in fields(Minute)])


@given(st.dictionaries(names, values | st.lists(values, max_size=3)), st.lists(st.integers(0, 9)))
def test_whatever_somebody_has_stored_only_minutes_come_of_it(packed, ats):
    try:
        found = unpack({"at": ats} | packed)
    except ValueError:
        return
    assert unpack(json.loads(json.dumps(pack(found), allow_nan=False))) == found


class TestOfOneTick:
    SEEN = Evaluation(
        window=60.0,
        ratio=0.51249,
        overdue=2.0049,
        lag=12345.6,
        registered=3,
        requested=4,
        processing_ms=5124.9,
        scheduling_ms=0.00012345,
        input_rate=1234.5,
        processed_rate=99.96,
        backlog_records=123456,
        pending_batches=7,
        completed=6,
        failed=1,
        shards=8,
    )

    def test_it_has_what_was_evaluated_to_three_digits(self):
        assert minute(NOON + 0.9, "running", 2, self.SEEN, "scale to 4", "R is 1.20") == Minute(
            at=NOON,
            state="running",
            epoch=2,
            ratio=0.512,
            overdue=2,
            lag=12300,
            registered=3,
            requested=4,
            processing_ms=5120,
            scheduling_ms=0.000123,
            input_rate=1230,
            processed_rate=100,
            backlog=123456,
            pending=7,
            completed=6,
            failed=1,
            shards=8,
            decision="scale to 4",
            reason="R is 1.20",
        )

    def test_whole_numbers_are_stored_as_such(self):
        packed = pack([minute(NOON, "running", 2, replace(self.SEEN, ratio=1.0, lag=0.0))])
        assert json.dumps([packed["ratio"], packed["lag"]]) == "[1, 0]"

    @pytest.mark.parametrize("odd", [float("inf"), float("-inf"), float("nan"), 1e300])
    def test_a_number_that_no_clock_of_today_can_make_is_not_measured(self, odd):
        seen = minute(NOON, "running", 2, replace(self.SEEN, input_rate=odd))
        assert seen.input_rate is None
        check(pack([seen]))

    def test_what_was_not_measured_is_none(self):
        seen = minute(NOON, "running", 2, Evaluation(window=60.0))
        assert seen == Minute(NOON, "running", 2, completed=0, failed=0)

    def test_without_an_evaluation_there_is_the_state_alone(self):
        seen = minute(NOON + 0.9, "failed", 2, None, "restart", "driver 2 failed")
        assert seen == Minute(NOON, "failed", 2, decision="restart", reason="driver 2 failed")


def test_merged_are_in_order_and_each_once():
    a, b, c, d = (Minute(NOON + 60 * n, ratio=n) for n in range(4))
    assert merged([[c, d], [a, b], [b, c]]) == [a, b, c, d]
    assert merged([]) == []


@given(st.lists(st.lists(few, max_size=5), max_size=4))
def test_merged_has_every_minute(parts):
    found = [each.at for each in merged(parts)]
    assert found == sorted({each.at for part in parts for each in part})
