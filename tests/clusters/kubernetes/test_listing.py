"""Long lists, page by page, while what is listed changes and is forgotten."""

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.clusters.kubernetes import listing
from dagster_sparkscale.clusters.kubernetes.listing import Expired, Unfinished, listed
from tests.clusters.kubernetes.memory import Client, Server


class Changing:
    """A list that is another one at each request, of which a page is `listing.PAGE` long."""

    def __init__(self, moments: list[list[int]], forgets: set[int]) -> None:
        self.moments, self.forgets = moments, forgets
        self.asked = 0
        self.limits: list[str] = []

    def now(self) -> list[int]:
        return self.moments[min(self.asked, len(self.moments)) - 1]

    def __call__(self, query: Mapping[str, str]) -> dict[str, Any]:
        self.asked += 1
        self.limits.append(query["limit"])
        found, begun = self.now(), self.asked
        first = 0
        if "continue" in query:
            if self.asked in self.forgets:
                raise Expired
            begun, first = map(int, query["continue"].split())
            found = self.moments[min(begun, len(self.moments)) - 1]
        last = first + int(query["limit"])
        page: dict[str, Any] = {"items": [{"n": each} for each in found[first:last]]}
        if last < len(found):
            page["metadata"] = {"continue": f"{begun} {last}"}
        return page


@given(
    moments=st.lists(st.lists(st.integers(0, 9), max_size=12), min_size=1, max_size=8),
    forgets=st.sets(st.integers(2, 12), max_size=4),
    page=st.integers(1, 5),
)
def test_a_list_is_of_one_moment_and_whole_or_there_is_none(
    moments: list[list[int]], forgets: set[int], page: int
) -> None:
    server = Changing(moments, forgets)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "PAGE", page)
        try:
            found = listed(server, {}, lambda each: each["n"])
        except Unfinished as error:
            assert len(forgets) >= 3 and "expired 3 times" in str(error)
            return
    assert found in moments
    assert set(server.limits) == {str(page)}


def test_what_is_not_kept_is_left_out_and_the_query_goes_with_each_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listing, "PAGE", 2)
    asked: list[dict[str, str]] = []
    server = Changing([[1, 2, 3, 4, 5]], set())

    def ask(query: Mapping[str, str]) -> dict[str, Any]:
        asked.append(dict(query))
        return server(query)

    odd = listed(ask, {"labelSelector": "a"}, lambda each: each["n"] if each["n"] % 2 else None)
    assert odd == [1, 3, 5]
    assert [each["labelSelector"] for each in asked] == ["a"] * 3


def test_a_list_without_an_end_is_given_up() -> None:
    seconds = itertools.count(0.0, 3.0)

    def ask(query: Mapping[str, str]) -> dict[str, Any]:
        return {"items": [{}], "metadata": {"continue": "x"}}

    with pytest.raises(Unfinished, match="not come to its end after 40 s"):
        listed(ask, {}, lambda each: each, clock=lambda: next(seconds))


def test_an_answer_without_items_or_metadata_is_an_empty_list() -> None:
    assert listed(lambda query: {}, {}, lambda each: each) == []
    assert listed(lambda query: {"items": None, "metadata": None}, {}, lambda each: each) == []


def test_the_api_takes_only_a_page_for_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the API server says is gone without a page of it having been asked for, is refused."""
    monkeypatch.setattr(listing, "PAGE", 2)
    server = Server()
    for number in range(5):
        body = {"metadata": {"name": f"p{number}", "labels": {}}, "spec": {}}
        Client(server).create("pods", body)
    forgetful = Client(server)
    calls = itertools.count()

    def forget(call: str) -> None:
        if next(calls) in (1, 3):
            server.forgets()

    forgetful.before = forget
    assert len(forgetful.find("pods")) == 5
    assert next(calls) == 2 + 2 + 3  # begun three times, and the third time came to its end
