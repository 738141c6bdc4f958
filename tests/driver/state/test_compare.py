"""Every row is found again, where Spark looks for its key; anything else is a fault."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.state import compare
from dagster_sparkscale.driver.state.fingerprint import Fingerprint, Part

GROUPS = 16
STORES = ((0, "default"), (1, "left"), (1, "right"))

rows = st.dictionaries(
    st.tuples(st.sampled_from(STORES), st.integers(0, 10_000)), st.integers(0, 2**62), max_size=60
)
counts = st.sampled_from([1, 2, 4, 8, 16, 3, 5])


def state(of: dict, partitions: int, batch: int = 7) -> Fingerprint:
    """That of rows by their store and their key, the hash of which is the key itself."""
    parts: dict = {store: {} for store in STORES}
    for (store, key), value in of.items():
        where = (key % GROUPS, key % partitions)
        part = parts[store].get(where, Part(0, (0, 0), 0))
        upper, lower = part.hashes[0] + (value >> 32), part.hashes[1] + (value & 0xFFFFFFFF)
        parts[store][where] = Part(part.rows + 1, (upper, lower), 0)
    return Fingerprint(batch, partitions, parts)


@given(rows, counts, counts)
def test_the_same_rows_in_other_partitions_are_the_same_state(of, before, after):
    was, now = state(of, before), state(of, after, 8)
    assert compare.faults(was, now, GROUPS) == ()
    assert was.rows == now.rows == len(of) == sum(now.partition_rows())
    assert was.group_rows(GROUPS) == now.group_rows(GROUPS)


@given(rows.filter(bool), counts, counts, st.data())
def test_a_row_that_is_lost_doubled_changed_or_of_another_key_is_a_fault(of, before, after, data):
    was = state(of, before)
    (store, key), value = data.draw(st.sampled_from(sorted(of.items())))
    others = {where: what for where, what in of.items() if where != (store, key)}
    assert compare.faults(was, state(others, after), GROUPS)
    assert compare.faults(was, state({**of, (store, key): value ^ 1}, after), GROUPS)
    elsewhere = (store, key + 10_001 + GROUPS - 10_001 % GROUPS + 1)
    assert compare.faults(was, state({**others, elsewhere: value}, after), GROUPS)
    twice = {**of, (store, key + GROUPS * 1000): value}
    assert compare.faults(was, state(twice, after), GROUPS)


@given(rows.filter(bool), counts)
def test_rows_where_spark_does_not_look_are_a_fault(of, after):
    now = state(of, after)
    store = next(store for store, parts in now.parts.items() if parts)
    where, part = next(iter(now.parts[store].items()))
    parts = {**now.parts, store: {**now.parts[store], where: replace(part, misplaced=2)}}
    moved = Fingerprint(now.batch, after, parts)
    assert any("2 rows are not where" in each for each in compare.faults(now, moved, GROUPS))
    assert compare.faults_of(now) == () and compare.faults_of(moved)


@given(rows.filter(bool))
def test_a_key_group_in_two_partitions_is_a_fault(of):
    now = state(of, 8)
    store = next(store for store, parts in now.parts.items() if parts)
    (group, partition), part = next(iter(now.parts[store].items()))
    torn = {(group, (partition + 1) % 8): part}
    rest = {where: each for where, each in now.parts[store].items() if where != (group, partition)}
    moved = Fingerprint(8, 8, {**now.parts, store: {**torn, **rest}})
    assert any("belongs in" in each for each in compare.faults(now, moved, GROUPS))


def test_a_store_that_is_missing_is_told_by_its_rows():
    was = state({((1, "left"), 5): 9, ((0, "default"), 5): 9}, 4)
    now = Fingerprint(8, 8, {(0, "default"): {(5, 5): was.parts[0, "default"][5, 1]}})
    assert compare.faults(was, now, GROUPS) == (
        "operator 1, store 'left': key group 5 had 1 rows and has 0",
    )


def test_of_many_faults_the_first_are_told():
    was = state({((0, "default"), key): 9 for key in range(GROUPS)}, 4)
    *shown, more = compare.faults(was, state({}, 4), GROUPS)
    assert len(shown) == 5 and more == "and 11 more"
