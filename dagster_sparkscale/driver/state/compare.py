"""Whether a state that was distributed anew is the same state, every key where it belongs. Pure."""

from .fingerprint import Fingerprint, Group, Rows
from .operators import Store

_SHOWN = 5
_NONE = Group(0, (0, 0))


def faults(before: Fingerprint, after: Fingerprint) -> tuple[str, ...]:
    """What is wrong with the state `after`, in words; nothing if it is all right.

    Where the number of partitions divides that of key groups, a key group of which all rows are
    where Spark looks for their keys is whole.
    """
    found: list[str] = []
    for store in sorted(before.stores.keys() | after.stores.keys()):
        was, now = (state.stores.get(store, Rows()) for state in (before, after))
        found += _of_store(store, was, now)
    more = len(found) - _SHOWN
    return (*found[:_SHOWN], f"and {more} more") if more > 0 else tuple(found)


def _of_store(store: Store, before: Rows, after: Rows) -> list[str]:
    where = f"operator {store[0]}, store {store[1]!r}"
    found = []
    if after.misplaced:
        found.append(f"{where}: {after.misplaced} rows are not where Spark looks for their keys")
    for group in sorted(before.groups.keys() | after.groups.keys()):
        was, now = (state.groups.get(group, _NONE) for state in (before, after))
        if was.rows != now.rows:
            found.append(f"{where}: key group {group} had {was.rows} rows and has {now.rows}")
        elif was != now:
            found.append(f"{where}: rows of key group {group} have changed")
    return found


def faults_of(state: Fingerprint) -> tuple[str, ...]:
    """What is wrong with a state that nothing was done to yet, in words."""
    if not state.misplaced:
        return ()
    return (
        f"{state.misplaced} of its {state.rows} rows are not where Spark looks for their keys: "
        "its keys can't be told from its rows, so a change could not be verified",
    )
