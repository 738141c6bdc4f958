"""A request to steer: what it makes of the entries, and what is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.steer import (
    RESUME,
    Asker,
    SteerRequest,
    moment,
    pinned_by_hand,
    steered,
)
from dagster_sparkscale.clusters.errors import Overtaken
from dagster_sparkscale.clusters.records.overtaking import CLOCKS_DIFFER, Requester
from dagster_sparkscale.clusters.records.steering import EFFECT, KINDS, Entries, Steered, standing
from dagster_sparkscale.clusters.requests import Refused
from dagster_sparkscale.declare.bounds import Bounds

NOON = 1_700_049_600.0  # 2023-11-15 12:00 UTC
HOUR = 3600.0
REACH = Bounds(2, 8, 2, least=2, ceiling=16)
ANN = Asker("steer run 1", "load test", NOON, NOON)


def after(action: str, entries: Entries | None = None, asker: Asker = ANN, **of: Any) -> Entries:
    return steered(entries or {}, SteerRequest("clicks", action, **of), asker, REACH)


def entry(since: float = NOON, until: float | None = None, size: int | None = None) -> Steered:
    return Steered("steer run 0", "a demo", since, until, size)


def asked(at: float) -> Asker:
    return Asker("steer run 1", "load test", at, NOON)


class TestSet:
    def test_who_why_and_since_when_are_those_of_the_request(self) -> None:
        assert after("pin", asker=asked(NOON - 9), size=6, lasts="2h") == {
            "pin": Steered("steer run 1", "load test", NOON - 9, NOON + 2 * HOUR, 6)
        }
        assert after("bounds", minimum=3, maximum=9)["bounds"] == Steered(
            "steer run 1", "load test", NOON, None, None, 3, 9
        )

    def test_a_time_of_day_is_the_next_one_from_when_it_was_asked_for(self) -> None:
        # A day more, where the run has waited beyond it.
        with pytest.raises(Refused, match="until = '11:59': is over; must be a time to come"):
            after("freeze", asker=asked(NOON - 300), until="11:59")
        assert after("freeze", asker=asked(NOON - 300), until="12:01")["freeze"].until == NOON + 60

    def test_who_carries_on_has_asked_now(self) -> None:
        assert Asker.of(Requester("a"), "why", NOON) == Asker("a", "why", NOON, NOON)
        assert Asker.of(Requester("a", asked_at=5.0), "why", NOON) == Asker("a", "why", 5.0, NOON)

    @given(st.sampled_from(KINDS), st.sampled_from(KINDS), st.floats(0, 3 * CLOCKS_DIFFER))
    def test_a_later_request_is_not_undone_by_one_that_has_waited(
        self, known: str, kind: str, earlier: float
    ) -> None:
        of: dict[str, Any] = {"pin": {"size": 6}, "bounds": {"maximum": 6}}.get(kind, {})
        before = {known: entry(NOON)}
        same = known == kind or {known, kind} == {"pin", "pause"}
        if same and NOON - asked(NOON - earlier).asked_at > CLOCKS_DIFFER:
            with pytest.raises(Overtaken, match="'clicks': steer run 0 has changed it "):
                after(kind, before, asked(NOON - earlier), **of)
        else:
            assert kind in after(kind, before, asked(NOON - earlier), **of)

    def test_what_is_resumed_is_not_set_again_by_a_request_of_before(self) -> None:
        ended = after(RESUME, {"pin": entry(NOON - HOUR, size=6)})
        assert not standing(ended, NOON)
        with pytest.raises(Overtaken, match="steer run 1 has changed it 90 s after this was"):
            after("pin", ended, asked(NOON - 90), size=5)

    def test_an_entry_of_a_clock_that_was_ahead_overtakes_nothing(self) -> None:
        assert after("pin", {"pin": entry(NOON + HOUR, size=6)}, size=5)["pin"].size == 5


class TestResume:
    @given(st.sets(st.sampled_from((*KINDS, EFFECT))), st.sets(st.sampled_from(KINDS)))
    def test_it_ends_what_it_names_or_all(self, there: set[str], kinds: set[str]) -> None:
        before = {key: entry(NOON - HOUR) for key in there}
        left = standing(after(RESUME, before, kinds=tuple(kinds)), NOON)
        named = kinds | {EFFECT} if "bounds" in kinds else kinds
        assert set(left) == (there - named if kinds else set())

    def test_what_was_set_since_it_was_asked_for_stands(self) -> None:
        before = {"pin": entry(NOON), "freeze": entry(NOON - HOUR)}
        assert set(standing(after(RESUME, before, asked(NOON - 90)), NOON)) == {"pin"}


@pytest.mark.parametrize(
    ("action", "of", "why"),
    [
        ("pin", {}, "size: missing; must be the number of executors to pin it to"),
        ("pin", {"size": 1}, "size = 1: must be at least 2, the fewest that 'clicks' can run with"),
        ("pin", {"size": 17}, "size = 17: must be at most 16, as many as a driver"),
        ("pin", {"size": 6, "maximum": 7}, "maximum = 7: leave it out, pin has none"),
        ("bounds", {}, "minimum and maximum: neither given; give one of them, or both"),
        ("bounds", {"maximum": 17}, "maximum = 17: must be at most 16"),
        ("bounds", {"minimum": 1}, "minimum = 1: must be at least 2"),
        ("bounds", {"minimum": 5, "maximum": 4}, "maximum = 4: must be at least minimum = 5"),
        ("freeze", {"size": 6}, "size = 6: leave it out, freeze has none"),
        ("pause", {"lasts": "0"}, "lasts = '0': must be above 0"),
        ("pause", {"lasts": "ever"}, "lasts = 'ever': must be seconds or a duration"),
        ("pause", {"until": "noon"}, "until = 'noon': must be a time of day, such as \"14:00\""),
        ("pause", {"until": "2023-11-15T12:00"}, "until = '2023-11-15T12:00': is over"),
        ("pause", {"until": "13:00", "lasts": "1h"}, "lasts and until: both given"),
        (RESUME, {"lasts": "1h"}, "lasts = '1h': leave it out, resume has none"),
        (RESUME, {"kinds": ("pins",)}, "kinds = 'pins': must be one of freeze, pin, pause, advise"),
    ],
)
def test_what_makes_no_sense_is_refused(action: str, of: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused) as refused:
        after(action, **of)
    assert str(refused.value).startswith(why)


def test_the_edges_of_what_can_be_are_within() -> None:
    assert after("pin", size=2)["pin"].size == 2
    assert after("pin", size=16)["pin"].size == 16
    both = after("bounds", minimum=4, maximum=4)["bounds"]
    assert (both.minimum, both.maximum) == (4, 4)
    free = Bounds(1, None, 1)
    assert steered({}, SteerRequest("clicks", "pin", 99), ANN, free)["pin"].size == 99


class TestARescaleByHand:
    def test_it_pins_for_its_while(self) -> None:
        found = pinned_by_hand({}, 6, HOUR, ANN)
        assert found == {"pin": Steered("steer run 1", "load test", NOON, NOON + HOUR, 6)}
        assert pinned_by_hand({}, 6, 0, ANN) == {}

    @pytest.mark.parametrize(
        ("until", "lasts", "then"),
        [
            (None, HOUR, None),
            (NOON + 2 * HOUR, HOUR, NOON + 2 * HOUR),
            (NOON + 60, HOUR, NOON + HOUR),
            (NOON + 60, 0, NOON + 60),
            (NOON - 60, HOUR, NOON + HOUR),
        ],
    )
    def test_a_pin_that_stands_gets_the_number_and_is_not_shortened(
        self, until: float | None, lasts: float, then: float | None
    ) -> None:
        found = pinned_by_hand({"pin": entry(NOON - HOUR, until, 3)}, 6, lasts, ANN)["pin"]
        assert (found.size, found.until) == (6, then)

    def test_where_it_is_paused_or_overtaken_nothing_changes(self) -> None:
        paused = {"pause": entry(NOON - HOUR)}
        assert pinned_by_hand(paused, 6, HOUR, ANN) is paused
        later = {"pin": entry(NOON, size=3)}
        assert pinned_by_hand(later, 6, HOUR, asked(NOON - 90)) is later

    def test_a_pause_that_is_over_is_none(self) -> None:
        assert "pin" in pinned_by_hand({"pause": entry(NOON - HOUR, NOON)}, 6, HOUR, ANN)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("14:00", NOON + 2 * HOUR),
        (" 9:30 ", NOON + 21.5 * HOUR),
        ("12:00", NOON + 24 * HOUR),
        ("2023-11-15T14:00", NOON + 2 * HOUR),
        ("2023-11-15 15:00+01:00", NOON + 2 * HOUR),
        ("2023-11-16", NOON + 12 * HOUR),
    ],
)
def test_a_time_is_the_next_one_and_in_utc(text: str, at: float) -> None:
    assert moment(text, NOON) == at
