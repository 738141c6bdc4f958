"""Where receivers of executors that are to go are sent."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.receivers.evacuation import (
    AGAIN_AFTER,
    SETTLE,
    STUCK_AFTER,
    TELL_AFTER,
    Host,
    counted,
    in_words,
    spread,
    stuck,
    to_be_sent,
)
from dagster_sparkscale.driver.receivers.watch import Order, Standing

HOSTS = st.lists(
    st.builds(
        Host,
        id=st.integers(0, 20).map(str) | st.sampled_from(["pod-1", "pod-2"]),
        tasks=st.integers(0, 5),
        receivers=st.integers(0, 5),
    ),
    max_size=8,
    unique_by=lambda host: host.id,
)


@given(st.lists(st.integers(0, 50), unique=True, max_size=12), HOSTS)
def test_each_finds_a_free_core_where_there_is_one_and_none_more(
    receivers: list[int], hosts: list[Host]
) -> None:
    placed = spread(receivers, hosts)
    free = sum(max(0, host.tasks - host.receivers) for host in hosts)
    assert list(placed) == receivers[:free]
    given_to = Counter(placed.values())
    for host in hosts:
        assert not given_to[host.id] or host.receivers + given_to[host.id] <= host.tasks


@given(st.lists(st.integers(0, 50), unique=True, max_size=12), HOSTS)
def test_they_are_spread(receivers: list[int], hosts: list[Host]) -> None:
    """Nobody is given one while another with a free core would have fewer."""
    given_to = Counter(spread(receivers, hosts).values())
    has = {host.id: host.receivers + given_to[host.id] for host in hosts}
    for host in hosts:
        for other in hosts:
            if given_to[host.id] and has[other.id] < other.tasks:
                assert has[host.id] <= has[other.id] + 1


def test_the_example_of_the_document() -> None:
    """Five executors of four cores with a receiver each, of which two stay: [3, 2]."""
    assert spread([2, 3, 4], [Host("1", 4, 1), Host("0", 4, 1)]) == {2: "0", 3: "1", 4: "0"}


def test_of_executors_that_host_as_many_the_oldest_is_chosen() -> None:
    assert spread([5], [Host("10", 2), Host("9", 2), Host("11", 2)]) == {5: "9"}


def ordered(executor: str, at: float, cause: str = "evacuation") -> Order:
    return Order(executor, cause, at, None, "start-1")


NOW = 1000.0


@pytest.mark.parametrize(
    ("standing", "sent"),
    [
        (Standing(1, "4"), True),  # it runs on one that is to go
        (Standing(1, "0"), False),
        (Standing(1, None), False),  # it has run nowhere yet
        (Standing(1, "4", away=SETTLE - 0.1), False),  # it has failed, and may come up elsewhere
        (Standing(1, "4", away=SETTLE), True),
        (Standing(1, "0", away=SETTLE), False),
        (Standing(1, "4", 1.0, ordered("0", NOW - 1)), False),  # it is on its way
        (Standing(1, "4", 40.0, ordered("0", NOW - AGAIN_AFTER)), True),
        (Standing(1, "4", 1.0, ordered("3", NOW - 1)), True),  # to one that is to go, too
        (Standing(1, "0", 1.0, ordered("4", NOW - 1, "move")), True),
        (Standing(1, "0", 1.0, ordered("9", NOW - 1)), True),  # to one that has gone
        (Standing(1, "0", 99.0, ordered("1", NOW - 99, "move")), False),  # there, or nowhere
    ],
)
def test_who_is_sent(standing: Standing, sent: bool) -> None:
    assert to_be_sent([standing], {"3", "4"}, {"0", "1"}, NOW) == ([1] if sent else [])


@pytest.mark.parametrize(
    ("standing", "is_stuck"),
    [
        (Standing(1, "0"), False),
        (Standing(1, "0", STUCK_AFTER - 0.1), False),
        (Standing(1, None, STUCK_AFTER), True),
        (Standing(1, "4", STUCK_AFTER, ordered("0", NOW, "move")), False),  # sent again, if ever
        (Standing(1, "4", STUCK_AFTER - 0.1, ordered("9", NOW, "move")), False),
        (Standing(1, "4", STUCK_AFTER, ordered("9", NOW, "move")), True),  # to one that has died
        (Standing(1, "4", 0.1, ordered("2", NOW, "move")), True),  # to one that is leaving
        (Standing(1, "0", STUCK_AFTER, pauses_until=NOW + 90), False),  # it pauses by itself
        (Standing(1, "0", STUCK_AFTER, pauses_until=NOW - SETTLE + 0.1), False),
        (Standing(1, "0", STUCK_AFTER, pauses_until=NOW - SETTLE), True),
        (Standing(1, "0", 0.1, ordered("2", NOW, "move"), NOW + 90), True),
    ],
)
def test_who_is_stuck(standing: Standing, is_stuck: bool) -> None:
    assert stuck([standing], {"0", "1"}, {"2"}, NOW) == ([1] if is_stuck else [])


def test_they_are_sent_by_their_numbers() -> None:
    standings = [Standing(3, "4"), Standing(1, "4"), Standing(2, "3")]
    assert to_be_sent(standings, {"3", "4"}, {"0"}, NOW) == [1, 2, 3]


def test_who_is_on_the_way_counts_where_it_goes() -> None:
    standings = {
        1: Standing(1, "0"),
        2: Standing(2, "4", 1.0, ordered("0", NOW)),
        3: Standing(3, "4"),
        4: Standing(4, None),
    }
    assert counted(standings, ()) == {"0": 2, "4": 1}
    assert counted(standings, {3}) == {"0": 2}


def test_what_is_waited_for_is_said() -> None:
    going = {"4", "10"}
    on_its_way = Standing(1, "4", 3.0, ordered("0", NOW))
    assert in_words([Standing(1, "0")], going, (), NOW) is None
    assert in_words([on_its_way, Standing(2, "0")], going, (), NOW) == (
        "1 receiver(s) are being moved away from executor(s) 4, which go then"
    )
    late = replace(on_its_way, away=TELL_AFTER)
    assert in_words([late], going, (), NOW) == (
        "receiver 1 was to come up on executor 0 and has not for 60 s; executor(s) 4, 10 wait for "
        "that"
    )
    assert in_words([Standing(1, "0")], going, {"10", "0"}, NOW) == (
        "executor(s) 10 hold what receivers took there and no batch has processed yet; they go then"
    )
