"""What steers a stream, and what it makes of a decision."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.clusters.records.steering import EFFECT, KINDS, Kind, Steered
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.calendar import Calendar, Window
from dagster_sparkscale.declare.decisions import Decision, Hold, Move, MoveReceivers, ScaleTo
from dagster_sparkscale.in_force.steering import (
    Entry,
    Steering,
    allowed,
    beside,
    bounded,
    combined,
    in_force,
    steer,
)
from tests.fakes import scaled

NOON = 1_700_049_600.0  # 2023-11-15 12:00 UTC
HOUR = 3600.0
BOUNDS = Bounds(2, 8, 2, least=1, ceiling=16)
DOWN = ScaleTo(3, "R 0.20 is at or below 0.3")
STEADY = Hold("R 0.70 is in between")
MOVES = MoveReceivers((Move(0, "1", "2"),), "executor 1 has two")

sizes = st.integers(1, 20)
decisions = st.one_of(
    st.builds(Hold, st.text(min_size=1), broken=st.booleans(), pinned=st.booleans()),
    st.builds(ScaleTo, sizes, st.text(min_size=1)),
)


def entry(kind: Kind, **fields: object) -> Steered:
    plain: dict[str, object] = {"by": "ann", "reason": "load test", "since": NOON, "until": None}
    if kind == "pin":
        plain["size"] = 6
    return Steered(**{**plain, **fields})  # type: ignore[arg-type]


def steering(*kinds: Kind, **fields: object) -> Steering:
    return combined({kind: entry(kind, **fields) for kind in kinds}, {}, NOON)


@st.composite
def any_steering(draw: st.DrawFn) -> Steering:
    def entries(keys: tuple[str, ...]) -> dict[str, Steered]:
        found = {}
        for key in draw(st.sets(st.sampled_from(keys))):
            low, high = draw(st.none() | sizes), draw(st.none() | sizes)
            of = {"minimum": low, "maximum": high} if key in ("bounds", EFFECT) else {}
            until = draw(st.none() | st.floats(NOON - HOUR, NOON + HOUR))
            size = draw(sizes) if key == "pin" else None
            found[key] = Steered("ann", "test", NOON - 2 * HOUR, until, size, **of)
        return found

    return combined(entries((*KINDS, EFFECT)), entries(KINDS), NOON)  # type: ignore[arg-type]


@st.composite
def any_bounds(draw: st.DrawFn) -> Bounds:
    least, low = sorted((draw(st.integers(1, 4)), draw(st.integers(1, 8))))
    high = draw(st.none() | st.integers(low, 12))
    top = draw(st.integers(high or low, 16)) if high or draw(st.booleans()) else None
    return Bounds(low, high if top else None, low, least=least, ceiling=top)


class TestTheNumberOfExecutors:
    @given(decisions, any_steering(), st.none() | sizes, any_bounds())
    def test_the_most_decisive_entry_decides(
        self, decision: Hold | ScaleTo, of: Steering, requested: int | None, bounds: Bounds
    ) -> None:
        came = steer(decision, of, requested, bounds)
        kind = of.decisive.kind if of.decisive else None
        if kind is None:
            assert came is decision
        elif kind == "pin":
            pin = of.of("pin")
            assert pin is not None and pin.steered.size is not None
            size = bounds.within_reach(pin.steered.size)
            assert isinstance(came, ScaleTo) == (requested not in (None, size))
            assert not isinstance(came, ScaleTo) or came.target == size
        else:
            assert isinstance(came, Hold)

    @given(decisions, any_steering(), st.none() | sizes, any_bounds())
    def test_the_reason_says_who_steers_and_what_the_policy_would_do(
        self, decision: Hold | ScaleTo, of: Steering, requested: int | None, bounds: Bounds
    ) -> None:
        came = steer(decision, of, requested, bounds)
        assert decision.reason in came.reason
        if came != decision:
            assert of.decisive is not None and of.in_words(of.decisive) in came.reason
            would = f"go to {decision.target}" if isinstance(decision, ScaleTo) else "hold"
            assert f"the policy would {would}: " in came.reason

    @given(any_steering(), any_bounds(), sizes)
    def test_a_pin_asks_once(self, of: Steering, bounds: Bounds, requested: int) -> None:
        came = steer(STEADY, of, requested, bounds)
        if isinstance(came, ScaleTo):
            assert isinstance(steer(STEADY, of, came.target, bounds), Hold)

    def test_a_pin_holds_and_says_who_until_when_and_why(self) -> None:
        of = steering("pin", by="rescale run 1a2b3c4d", until=NOON + 2 * HOUR)
        assert steer(DOWN, of, 6, BOUNDS) == Hold(
            "pinned to 6 by rescale run 1a2b3c4d until 14:00 UTC (load test), the policy would go "
            "to 3: R 0.20 is at or below 0.3"
        )

    def test_a_pin_asks_for_its_number_where_the_driver_has_another_target(self) -> None:
        assert steer(STEADY, steering("pin"), 3, BOUNDS) == ScaleTo(
            6,
            "pinned to 6 by ann until it is resumed (load test), the policy would hold: R 0.70 is "
            "in between",
        )

    def test_a_pin_out_of_reach_asks_for_what_can_be(self) -> None:
        came = steer(STEADY, steering("pin", size=40), 3, BOUNDS)
        assert isinstance(came, ScaleTo)
        assert came.target == 16
        assert "pinned to 40 by ann until it is resumed (load test), of which the driver can " in (
            came.reason
        )
        assert "can have 16, the policy" in came.reason

    def test_what_the_driver_has_is_not_known_so_a_pin_holds(self) -> None:
        came = steer(DOWN, steering("pin"), None, BOUNDS)
        assert isinstance(came, Hold)
        assert came.reason.startswith("the driver's number of executors is not known; pinned to 6")

    @pytest.mark.parametrize("requested", [6, None])
    def test_a_policy_that_is_broken_is_no_less_so_for_a_pin(self, requested: int | None) -> None:
        broken = Hold("it could not decide", broken=True)
        came = steer(broken, steering("pin"), requested, BOUNDS)
        assert isinstance(came, Hold) and came.broken
        came = steer(STEADY, steering("pin"), requested, BOUNDS)
        assert isinstance(came, Hold) and not came.broken

    @pytest.mark.parametrize(
        ("kind", "text"),
        [
            ("freeze", "frozen by ann until it is resumed (load test)"),
            ("pause", "paused by ann until it is resumed (load test)"),
            ("advise", "advice only, set by ann until it is resumed (load test)"),
        ],
    )
    def test_others_hold_what_the_policy_would_do(self, kind: Kind, text: str) -> None:
        held = Hold(f"{text}, the policy would go to 3: R 0.20 is at or below 0.3")
        assert steer(DOWN, steering(kind), 8, BOUNDS) == held
        assert steer(STEADY, steering(kind), 8, BOUNDS) is STEADY


class TestAllElse:
    @given(any_steering())
    def test_freeze_and_advise_hold_it_and_no_other(self, of: Steering) -> None:
        came = beside(MOVES, of)
        assert (came is MOVES) == (of.of("freeze", "advise") is None)
        assert beside(STEADY, of) is STEADY

    def test_the_reason_says_what_would_be_done(self) -> None:
        came: Decision = beside(MOVES, steering("freeze", "advise"))
        assert came == Hold(
            "frozen by ann until it is resumed (load test); otherwise: move receiver 0 from "
            "executor 1 to 2: executor 1 has two"
        )


class TestBounds:
    @given(any_bounds(), any_steering())
    def test_they_stay_within_what_the_driver_can_have(self, bounds: Bounds, of: Steering) -> None:
        came = bounded(bounds, of)
        assert came.within_reach(came.minimum) == came.minimum
        assert came.maximum is None or came.within_reach(came.maximum) == came.maximum
        assert came.maximum is None or came.minimum <= came.maximum
        if of.of("bounds") is None:
            assert came == bounds

    @given(any_bounds(), any_steering())
    def test_a_rescale_may_go_to_the_pin_and_wherever_the_bounds_allow(
        self, bounds: Bounds, of: Steering
    ) -> None:
        others = tuple(each for each in of.entries if each.source != "autoscaler")
        came, within = allowed(bounds, of), bounded(bounds, replace(of, entries=others))
        for size in range(within.minimum, (within.maximum or 20) + 1):
            assert came.clamp(size) == size
        if (pin := of.of("pin")) is not None:
            assert pin.steered.size is not None
            size = bounds.within_reach(pin.steered.size)
            assert came.clamp(size) == size
        else:
            assert came == within

    def test_a_person_may_go_beyond_the_declared_maximum_up_to_the_ceiling(self) -> None:
        came = bounded(BOUNDS, steering("bounds", minimum=1, maximum=12))
        assert (came.minimum, came.maximum) == (1, 12)
        assert (
            came.note
            == "bounds of at least 1 and at most 12 executors set by ann until it is"
            + (" resumed (load test)")
        )
        assert bounded(BOUNDS, steering("bounds", maximum=99)).maximum == 16

    def test_a_side_that_was_not_set_is_as_declared_and_gives_way(self) -> None:
        came = bounded(BOUNDS, steering("bounds", minimum=4))
        assert (came.minimum, came.maximum, came.note) == (4, 8, None)
        assert came.minimum_note == "bounds of at least 4 executors set by ann until it is " + (
            "resumed (load test)"
        )
        both = {"bounds": entry("bounds", minimum=4), "pin": entry("pin", size=2)}
        assert allowed(BOUNDS, combined(both, {}, NOON)).minimum_note is None
        came = bounded(BOUNDS, steering("bounds", minimum=10))
        assert (came.minimum, came.maximum) == (10, 10)
        came = bounded(BOUNDS, steering("bounds", maximum=1))
        assert (came.minimum, came.maximum) == (1, 1)

    @pytest.mark.parametrize(("by_hand", "effect", "most"), [(6, 4, 4), (3, 5, 3), (12, 9, 9)])
    def test_of_a_persons_maximum_and_the_autoscalers_the_smaller_counts(
        self, by_hand: int, effect: int, most: int
    ) -> None:
        both = {"bounds": entry("bounds", maximum=by_hand), EFFECT: entry("bounds", maximum=effect)}
        came = bounded(BOUNDS, combined(both, {}, NOON))
        assert came.maximum == most
        ours = {EFFECT: entry("bounds", maximum=effect)}
        assert bounded(replace(BOUNDS, maximum=None), combined(ours, {}, NOON)).maximum == effect


class TestWhatIsInForce:
    def test_a_persons_entry_beats_the_calendars_of_its_kind_alone(self) -> None:
        by_hand = {"bounds": entry("bounds", maximum=4)}
        calendar: dict[Kind, Steered] = {"bounds": entry("bounds", maximum=2)}
        calendar["freeze"] = entry("freeze")
        found = combined(by_hand, calendar, NOON).entries
        assert found == (
            Entry("freeze", "calendar", calendar["freeze"]),
            Entry("bounds", "person", by_hand["bounds"]),
        )

    def test_an_expired_entry_is_none_and_the_calendars_counts_again(self) -> None:
        over = {"freeze": entry("freeze", until=NOON)}
        assert combined(over, {}, NOON).entries == ()
        assert combined(over, {"freeze": entry("freeze")}, NOON).entries[0].source == "calendar"
        assert combined({}, over, NOON).entries == ()  # type: ignore[arg-type]

    def test_kinds_of_a_later_release_are_passed_over(self) -> None:
        assert combined({"throttle": entry("freeze")}, {}, NOON).entries == ()

    def test_a_record_brings_its_entries_and_none_brings_nothing(self) -> None:
        record = replace(Record.new("r"), steering={"pause": entry("pause")})
        assert in_force(record, scaled(), NOON).lines == (
            "paused by ann until it is resumed (load test)",
        )
        assert in_force(None, scaled(), NOON) == Steering(NOON)

    def test_an_entry_without_a_reason_has_none_in_brackets(self) -> None:
        said = Entry("pause", "person", entry("pause", reason="")).in_words(NOON)
        assert said == "paused by ann until it is resumed"

    def test_another_day_is_named(self) -> None:
        until = Entry("pause", "person", entry("pause", until=NOON + 24 * HOUR)).ends(NOON)
        assert until == "until 2023-11-16 12:00 UTC"


class TestTheCalendar:
    NIGHT = Window(cron="0 20 * * *", duration="12h", bounds=(1, 4), reason="little comes in")
    CLOSING = Window(cron="0 18 * * WED", duration="4h", freeze=True, reason="closing")

    def at(self, hour: float, record: Record | None = None) -> Steering:
        stream = scaled(max_executors=8)
        calendar = Calendar(windows=(self.NIGHT, self.CLOSING))
        return in_force(
            record, stream.model_copy(update={"calendar": calendar}), NOON + hour * HOUR
        )

    def test_it_says_what_holds_until_when_and_what_is_ahead(self) -> None:
        before, during, after = self.at(0), self.at(9), self.at(11)
        night = (
            "bounds of at least 1 and at most 4 executors set by calendar until "
            "2023-11-16 08:00 UTC (little comes in)"
        )
        frozen = "frozen by calendar until 22:00 UTC (closing)"
        assert (before.lines, before.ahead) == ((), f"from 18:00 UTC on: {frozen}")
        assert (during.lines, during.ahead) == ((frozen, night), f"from 22:00 UTC on: {night}")
        assert (after.lines, after.ahead) == ((night,), "from 2023-11-16 08:00 UTC on: as declared")

    def test_it_decides_as_an_entry_of_a_person_does(self) -> None:
        said = "frozen by calendar until 22:00 UTC (closing), the policy would go to 3"
        assert steer(DOWN, self.at(9), 6, BOUNDS).reason.startswith(said)
        assert bounded(BOUNDS, self.at(11)).maximum == 4
        assert bounded(BOUNDS, self.at(0)) == BOUNDS

    def test_a_persons_entry_of_the_kind_stands_in_its_place(self) -> None:
        by_hand = replace(Record.new("r"), steering={"bounds": entry("bounds", maximum=12)})
        steering = self.at(11, by_hand)
        assert bounded(BOUNDS, steering).maximum == 12
        assert [each.source for each in steering.entries] == ["person"]
