"""Every row is found again, where Spark looks for its key; anything else is a fault."""

from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.state import compare
from dagster_sparkscale.driver.state.fingerprint import Fingerprint, Group, Partition, Rows
from dagster_sparkscale.driver.state.operators import Store

GROUPS = 16
STORES = ((0, "default"), (1, "left"), (1, "right"))

Kept = dict[tuple[Store, int], int]
"""Rows by their store and their key, the hash of which is the key itself."""

rows = st.dictionaries(
    st.tuples(st.sampled_from(STORES), st.integers(0, 10_000)), st.integers(0, 2**62), max_size=60
)
counts = st.sampled_from([1, 2, 4, 8, 16, 3, 5])


def state(of: Kept, partitions: int, batch: int = 7, moved: int | None = None) -> Fingerprint:
    """That of these rows, each where it belongs but for those of the key `moved`."""
    stores = {}
    for store in STORES:
        groups: dict[int, Group] = {}
        places: dict[int, Partition] = {}
        for key, value in ((key, value) for (its, key), value in of.items() if its == store):
            place, misplaced = (key + (key == moved)) % partitions, int(key == moved)
            was, there = groups.get(key % GROUPS, Group(0, (0, 0))), places.get(place, Partition(0))
            upper, lower = was.hashes[0] + (value >> 32), was.hashes[1] + (value & 0xFFFFFFFF)
            groups[key % GROUPS] = Group(was.rows + 1, (upper, lower))
            places[place] = Partition(there.rows + 1, there.misplaced + misplaced)
        stores[store] = Rows(groups, places)
    return Fingerprint(batch, partitions, stores)


@given(rows, counts, counts)
def test_the_same_rows_in_other_partitions_are_the_same_state(of, before, after):
    was, now = state(of, before), state(of, after, 8)
    assert compare.faults(was, now) == ()
    assert was.rows == now.rows == len(of) == sum(now.partition_rows())
    assert was.group_rows(GROUPS) == now.group_rows(GROUPS)


@given(rows.filter(bool), counts, counts, st.data())
def test_a_row_that_is_lost_doubled_changed_or_of_another_key_is_a_fault(of, before, after, data):
    was = state(of, before)
    (store, key), value = data.draw(st.sampled_from(sorted(of.items())))
    others = {where: what for where, what in of.items() if where != (store, key)}
    assert compare.faults(was, state(others, after))
    assert compare.faults(was, state({**of, (store, key): value ^ 1}, after))
    elsewhere = (store, key + 10_001 + GROUPS - 10_001 % GROUPS + 1)
    assert compare.faults(was, state({**others, elsewhere: value}, after))
    twice = {**of, (store, key + GROUPS * 1000): value}
    assert compare.faults(was, state(twice, after))


@given(rows.filter(bool), counts.filter(lambda count: count > 1), st.data())
def test_rows_where_spark_does_not_look_are_a_fault(of, after, data):
    """Also those of a key group of which some are in a partition, and some in another."""
    _, key = data.draw(st.sampled_from(sorted(of)))
    now, moved = state(of, after), state(of, after, moved=key)
    assert any("rows are not where" in each for each in compare.faults(now, moved))
    assert compare.faults_of(now) == () and compare.faults_of(moved)


def test_a_store_that_is_missing_is_told_by_its_rows():
    was = state({((1, "left"), 5): 9, ((0, "default"), 5): 9}, 4)
    now = Fingerprint(8, 8, {(0, "default"): was.stores[0, "default"]})
    assert compare.faults(was, now) == (
        "operator 1, store 'left': key group 5 had 1 rows and has 0",
    )


def test_of_many_faults_the_first_are_told():
    was = state({((0, "default"), key): 9 for key in range(GROUPS)}, 4)
    *shown, more = compare.faults(was, state({}, 4))
    assert len(shown) == 5 and more == "and 11 more"
