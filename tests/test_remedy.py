"""Texts that carry what is to be done as data."""

import copy
import json

import pytest

from dagster_sparkscale.clusters.requests import Refused
from dagster_sparkscale.remedy import Remedy, WithRemedy, joined, worded

TEXT = WithRemedy("'web' is failed: ", Remedy.START, ", then scale it")


def test_as_a_string_it_has_the_words_of_a_page() -> None:
    assert TEXT == "'web' is failed: materialize its asset to start it, then scale it"


def test_a_surface_words_it_in_its_own_way() -> None:
    words = {Remedy.START: "`sparkscale start web` starts it"}
    assert worded(TEXT, words) == "'web' is failed: `sparkscale start web` starts it, then scale it"


def test_a_text_without_a_remedy_stays_as_it_is() -> None:
    assert worded("materialize its asset to start it", {}) == "materialize its asset to start it"


@pytest.mark.parametrize(
    "through",
    [
        lambda text: str(Refused(text)),
        lambda text: WithRemedy(text),
        lambda text: copy.deepcopy(text),
        lambda text: WithRemedy.unpacked(json.loads(json.dumps(text.packed())), str(text)),
    ],
    ids=["an error", "another text", "a copy", "JSON"],
)
def test_the_remedy_stays_with_it_through(through) -> None:  # type: ignore[no-untyped-def]
    came = through(TEXT)
    assert came == TEXT
    assert worded(came, {Remedy.START: "!"}) == "'web' is failed: !, then scale it"


def test_part_of_another_it_is_kept() -> None:
    whole = WithRemedy("it failed of: ", TEXT)
    assert whole.parts == ("it failed of: ", *TEXT.parts)


def test_filled_into_a_template_it_is_kept() -> None:
    filled = WithRemedy.filled("driver {epoch}: {error}.", epoch=3, error=Refused(TEXT))
    assert filled == f"driver 3: {TEXT}."
    assert Remedy.START in filled.parts


def test_joined_with_others_it_is_kept() -> None:
    line = joined(["not moved", TEXT])
    assert line == f"not moved; {TEXT}"
    assert line.advises and not joined(["not moved", "gone"]).advises


def test_a_remedy_of_another_release_leaves_the_text_as_a_page_has_it() -> None:
    packed = ["it is held: ", {"remedy": "ASK_A_FRIEND"}]
    assert WithRemedy.unpacked(packed, "it is held: ask a friend") == "it is held: ask a friend"
