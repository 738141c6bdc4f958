"""Whether a state that was distributed anew is the same state, every key where it belongs. Pure."""

from collections.abc import Mapping

from .fingerprint import Fingerprint, Part, Store

_SHOWN = 5


def faults(before: Fingerprint, after: Fingerprint, key_groups: int) -> tuple[str, ...]:
    """What is wrong with the state `after`, in words; nothing if it is all right."""
    found: list[str] = []
    for store in sorted(before.parts.keys() | after.parts.keys()):
        found += _of_store(
            store, before.parts.get(store, {}), after.parts.get(store, {}), after, key_groups
        )
    more = len(found) - _SHOWN
    return (*found[:_SHOWN], f"and {more} more") if more > 0 else tuple(found)


def _of_store(
    store: Store,
    before: Mapping[tuple[int, int], Part],
    after: Mapping[tuple[int, int], Part],
    whole: Fingerprint,
    key_groups: int,
) -> list[str]:
    where = f"operator {store[0]}, store {store[1]!r}"
    found = []
    misplaced = sum(part.misplaced for part in after.values())
    if misplaced:
        found.append(f"{where}: {misplaced} rows are not where Spark looks for their keys")
    ours, theirs = _by_group(before), _by_group(after)
    for group in sorted(ours.keys() | theirs.keys()):
        (rows, *hashes), (rows_now, *hashes_now) = (
            ours.get(group, (0, 0, 0)),
            theirs.get(group, (0, 0, 0)),
        )
        if rows != rows_now:
            found.append(f"{where}: key group {group} had {rows} rows and has {rows_now}")
        elif hashes != hashes_now:
            found.append(f"{where}: rows of key group {group} have changed")
    if key_groups % whole.partitions == 0:
        for group, partition in sorted(after):
            if partition != group % whole.partitions:
                found.append(
                    f"{where}: key group {group} is in partition {partition} too, and belongs in "
                    f"{group % whole.partitions}"
                )
    return found


def _by_group(parts: Mapping[tuple[int, int], Part]) -> dict[int, tuple[int, int, int]]:
    summed: dict[int, tuple[int, int, int]] = {}
    for (group, _), part in parts.items():
        rows, upper, lower = summed.get(group, (0, 0, 0))
        summed[group] = (rows + part.rows, upper + part.hashes[0], lower + part.hashes[1])
    return summed


def faults_of(state: Fingerprint) -> tuple[str, ...]:
    """What is wrong with a state that nothing was done to yet, in words."""
    if not state.misplaced:
        return ()
    return (
        f"{state.misplaced} of its {state.rows} rows are not where Spark looks for their keys: "
        "its keys can't be told from its rows, so a change could not be verified",
    )
