from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.sources.kinesis.positions import END, Kind, Position
from dagster_sparkscale.sources.kinesis.shards import (
    Shard,
    ancestors,
    forgettable,
    missing,
    roots,
    startable,
)

READING = Position(Kind.AFTER, "1")
# a was split into b and c, of which c was merged with d into e.
A, B, C = Shard("a", (), True), Shard("b", ("a",)), Shard("c", ("a",), True)
D, E = Shard("d", (), True), Shard("e", ("c", "d"))
ALL = [A, B, C, D, E]


def test_roots_have_no_parent_that_is_listed():
    assert roots(ALL) == ["a", "d"]
    assert roots([B, C, D, E]) == ["b", "c", "d"]
    assert roots([B, E]) == ["b", "e"]


def test_ancestors_are_all_a_shard_descends_from():
    assert ancestors(["e"], ALL) == {"a", "c", "d"}
    assert ancestors(["b"], ALL) == {"a"}
    assert ancestors(["a"], ALL) == set()
    assert ancestors(["e", "c"], ALL) == {"a", "c", "d"}


def test_a_child_begins_when_every_parent_has_been_read():
    assert startable(ALL, {"a": READING, "d": READING}) == []
    assert startable(ALL, {"a": END, "d": READING}) == ["b", "c"]
    assert startable(ALL, {"a": END, "b": READING, "c": END, "d": READING}) == []
    assert startable(ALL, {"a": END, "b": READING, "c": END, "d": END}) == ["e"]


def test_parents_that_are_not_listed_are_too_old_to_wait_for():
    assert startable([B, C, D, E], {}) == ["b", "c", "d"]
    assert startable([B, E], {"b": READING}) == ["e"]


def test_a_shard_behind_which_reading_began_is_passed_over():
    # Reading began in b, c and d; a is what they came from.
    begun = {"b": READING, "c": READING, "d": READING}
    assert startable(ALL, begun) == []
    assert startable(ALL, {"b": READING, "e": READING}) == []


def test_a_parent_that_was_passed_over_does_not_hold_its_child_up():
    # Reading began in b, behind a: c, the other child of a, is wanted from its beginning.
    assert startable([A, B, C], {"b": READING}) == ["c"]


def test_what_has_gone_is_forgotten_if_it_was_read_and_missed_if_not():
    positions = {"a": END, "x": END, "y": READING, "b": READING}
    assert forgettable(ALL, positions) == ["x"]
    assert missing(ALL, positions) == ["y"]


@st.composite
def lineages(draw):
    """Shards as splits and merges make them."""
    open_now = ["0", "1"]
    listed = {"0": (), "1": ()}
    for _ in range(draw(st.integers(0, 8))):
        at = draw(st.integers(0, len(open_now) - 1))
        parents = [open_now.pop(at)]
        children = 2
        if open_now and draw(st.booleans()):
            parents.append(open_now.pop(at % len(open_now)))
            children = 1
        for _ in range(children):
            listed[str(len(listed))] = tuple(parents)
            open_now.append(str(len(listed) - 1))
    gone = draw(st.integers(0, len(listed) - 1))
    shards = [Shard(name, parents, name not in open_now) for name, parents in listed.items()]
    return [shard for shard in shards if shard.closed is False or int(shard.id) >= gone]


@given(lineages(), st.randoms(use_true_random=False))
def test_reading_whatever_may_be_begun_reads_every_shard_once_and_parents_first(listed, chance):
    parents = {shard.id: shard.parents for shard in listed}
    positions = {shard: READING for shard in roots(listed)}
    order = []
    while reading := [shard for shard, each in positions.items() if each is READING]:
        ended = chance.choice(reading)
        order.append(ended)
        positions[ended] = END
        begun = startable(listed, positions)
        assert not set(begun) & set(positions)
        positions |= {shard: READING for shard in begun}
    assert sorted(order) == sorted(parents)
    for shard in order:
        for parent in parents[shard]:
            assert parent not in parents or order.index(parent) < order.index(shard)


def test_a_shard_that_is_not_listed_any_more_has_no_known_ancestors():
    assert ancestors(["gone", "b"], ALL) == {"a"}
