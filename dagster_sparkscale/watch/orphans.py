"""Streams that run and are not declared any more: nobody else looks at them.

Taken out of the list, or renamed, a stream has no asset, no checks and no policy; its driver runs
on. Those that another code location has started, in the same state folder, are that one's.
"""

from collections.abc import Collection, Iterator, Sequence

import dagster as dg

from dagster_sparkscale.clusters.base import ClusterManager, Driver, DriverState
from dagster_sparkscale.deadlines import DaemonCall
from dagster_sparkscale.markdown import escaped
from dagster_sparkscale.watch.fleet.orphan import Orphan, find_orphans
from dagster_sparkscale.watch.memory import NOTHING, Memory

_ORPHAN = "orphan"
"""The key among a stream's checks that remembers what was reported of it as an orphan."""
_NOT_YET = "no look for orphans has come to its end since the code location was started"


class OrphanSearch:
    """Looks for orphans, tick by tick, and never holds one up for longer than it is told to."""

    def __init__(self) -> None:
        self._call: DaemonCall[None] | None = None
        self._found: Sequence[Orphan] | None = None

    def search(
        self,
        cluster: ClusterManager,
        declared: Collection[str],
        owner: str,
        seconds: float,
        before: Sequence[Orphan] = (),
    ) -> Sequence[Orphan]:
        """The orphans of `owner`, as the last look found them that came to its end; `before`
        if none has.

        One that takes longer than `seconds` goes on, for a later tick to tell what it has found.
        """
        if self._call is not None and self._call.hangs:
            # Nothing is waited for twice: it may hang for good.
            return before if self._found is None else self._found

        def look() -> None:
            self._found = tuple(find_orphans(cluster, declared, owner))

        self._call = DaemonCall(look, "sparkscale-orphans")
        # Where it fails, each declared stream's own look tells what is wrong.
        self._call.within(seconds)
        return before if self._found is None else self._found


def remembered(memory: Memory, declared: Collection[str]) -> list[Orphan]:
    """The orphans that were told of, as they were then: until a look comes to its end after a
    restart of the code location, they are not gone."""
    found = []
    for name, known in memory.streams.items():
        if name not in declared and _ORPHAN in known.checks:
            try:
                epoch, state = known.checks[_ORPHAN].split()
                driver = Driver(name, int(epoch), DriverState(state), 0.0)
            except ValueError:  # of another release
                continue
            found.append(Orphan(driver, (name,), ours=False, fault=_NOT_YET))
    return found


def orphan_events(
    orphans: Sequence[Orphan], memory: Memory
) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
    """What Dagster is told of orphans: each once, and again when something of it has changed."""
    for orphan in orphans:
        known = memory.of(orphan.driver.stream)
        now = f"{orphan.driver.epoch} {orphan.driver.state.value}"
        if known.checks.get(_ORPHAN) == now:
            continue
        known.checks[_ORPHAN] = now
        known.told, known.shown = NOTHING, ""  # declared again, it is told of anew
        # Another code location may declare it: then its Overview is that one's.
        kind = dg.AssetMaterialization if orphan.ours else dg.AssetObservation
        yield kind(
            asset_key=dg.AssetKey(list(orphan.asset)),
            description=str(orphan),
            metadata={"state": dg.MetadataValue.md(f"**{escaped(str(orphan))}**")},
        )
