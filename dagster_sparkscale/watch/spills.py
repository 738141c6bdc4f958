"""Minutes that no event of their stream tells of yet, carried by an event of the fleet.

The cursor has such minutes, for as long as there is room. It is stored with every tick; a thousand
streams make 17 KB a minute. So where it is full the fleet's event takes them, once, and the process
of the sensor remembers them; after its end they are read back.
"""

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import dagster as dg
from dagster import DagsterInstance

from dagster_sparkscale.durations import span
from dagster_sparkscale.markdown import carried
from dagster_sparkscale.names import MINUTES
from dagster_sparkscale.observe.many import joined, parted
from dagster_sparkscale.quantities import counted
from dagster_sparkscale.watch.cursor import ODD
from dagster_sparkscale.watch.memory import Memory, StreamMemory

KEPT = 4 * 3600.0
"""Seconds for which minutes wait at most: each stream has its turn long before."""
PAGE, MOST = 50, 2000
"""Events of the fleet that are read back at once, and at most: ten sensors have no more in that
time, and a hundred in a quarter of it."""
SKEW = 300.0
"""Seconds by which the clocks may differ of who tells, and of who stores."""

Packs = Mapping[str, Mapping[str, Any]]
"""Minutes by stream, packed."""


class Spills:
    """What the process of the sensor remembers of them."""

    def __init__(self) -> None:
        self._known: dict[int, Packs] = {}
        """The minutes by when the fleet was told of them, seconds since the epoch."""

    def spill(self, memory: Memory, owner: str, at: int) -> str | None:
        """Take all minutes out of the cursor; gives the text that the fleet's event is to carry.
        None: there are none.

        Args:
            owner: the code location and cluster that tells.
            at: when the tick began, seconds since the epoch; no two of an owner may be the same.
        """
        packs = {name: known.pending for name, known in memory.streams.items() if known.pending}
        if not packs:
            return None
        for name in packs:
            known = memory.of(name)
            known.spilled_at, known.spilled = known.last_at, (*known.spilled, known.pending)
            known.pending = {}
        self._known[at] = packs
        memory.spills = [*memory.spills, at]
        return written(owner, at, packs)

    def restore(
        self, memory: Memory, instance: DagsterInstance, fleet: dg.AssetKey, owner: str, now: float
    ) -> str | None:
        """Give each stream of `memory` back its minutes. Says what is missing for good; None:
        nothing.

        Args:
            fleet: the fleet's asset.
            now: seconds since the epoch.

        Raises:
            Exception: the event log can't be read.
        """
        waiting = [known for known in memory.streams.values() if known.spilled_at]
        told = (0.0 if known.is_set_back else known.told.at for known in waiting)
        since = min(told, default=now)
        # No event has older ones, and no tick looks for them for ever.
        wanted = [at for at in memory.spills if at > since]
        memory.spills = [at for at in wanted if at > now - KEPT]
        old = len(wanted) - len(memory.spills)
        self._known = {at: packs for at, packs in self._known.items() if at in memory.spills}
        unknown = {at for at in memory.spills if at not in self._known}
        self._known |= _read_back(instance, fleet, owner, unknown)
        lost = sorted(unknown - self._known.keys())
        memory.spills = [at for at in memory.spills if at in self._known]
        for name, known in memory.streams.items():
            self._give_back(name, known, memory.spills)
        return (
            "; ".join(
                f"minutes of {counted(ticks, 'tick')} are lost: {why}"
                for ticks, why in (
                    (len(lost), f"the events of {fleet.path[-1]} are gone"),
                    (old, f"they have waited for more than {span(KEPT)}"),
                )
                if ticks
            )
            or None
        )

    def _give_back(self, name: str, known: StreamMemory, spills: Iterable[int]) -> None:
        if known.spilled_at:
            every = (self._known[at].get(name) for at in spills)
            known.spilled = tuple(each for each in every if each)


def written(owner: str, at: int, packs: Packs) -> str:
    """The text that carries minutes."""
    names = sorted(packs)
    whole = {"of": owner, "at": at, "names": names, "minutes": joined([packs[n] for n in names])}
    text = json.dumps(whole, separators=(",", ":"), allow_nan=False)
    return b64encode(zlib.compress(text.encode(), level=9)).decode()


def restored(text: str) -> tuple[str, int, Packs]:
    """The owner of the minutes that a text carries, when the fleet was told of them, and by stream
    the minutes.

    Raises:
        ValueError: `written` can't have made it.
    """
    try:
        whole = json.loads(zlib.decompress(b64decode(text, validate=True)))
        packs = dict(zip(whole["names"], parted(whole["minutes"]), strict=True))
        return str(whole["of"]), int(whole["at"]), packs
    except (*ODD, zlib.error) as error:
        raise ValueError(f"{text[:40]!r}: must be compressed minutes: {error}") from None


def _read_back(
    instance: DagsterInstance, fleet: dg.AssetKey, owner: str, wanted: Iterable[int]
) -> dict[int, Packs]:
    """The minutes of those ticks that are found."""
    left, found = set(wanted), dict[int, Packs]()
    for text in _carried(instance, fleet, min(left) - SKEW) if left else ():
        try:
            of, at, packs = restored(text)
        except ValueError:
            continue  # an event of somebody else's
        if of == owner and at in left:
            found[at] = packs
            left.remove(at)
        if not left:
            break
    return found


def _carried(instance: DagsterInstance, fleet: dg.AssetKey, since: float) -> Iterator[str]:
    """What the events of the fleet carry, the newest first.

    Args:
        since: when none was stored yet of those that are looked for, seconds since the epoch.
    """
    cursor, more, read = None, True, 0
    while more and read < MOST:
        page = instance.fetch_observations(fleet, PAGE, cursor)
        for record in page.records:
            if record.timestamp < since:
                return
            event = record.asset_observation
            value = event.metadata.get(MINUTES) if event else None
            if value is not None and (text := carried(value.value)) is not None:
                yield text
        cursor, more, read = page.cursor, page.has_more, read + len(page.records)
