"""The owner of a stream, where several deployments share one store. Pure.

Streams are known by name. Two code locations that share a namespace or a state folder, and declare
one name, would steer one driver, each by its own policy. A code location that only has another name
by now declares the same as before.
"""

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.declare import drift
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.remedy import Remedy, WithRemedy

_TELLING = ("program", "checkpoint_location")
"""Fields of a declaration, by their names in `declare.drift`."""


def identity_of(stream: Stream) -> dict[str, str]:
    """The fields that distinguish a stream from another of its name."""
    declared = drift.declared(stream)
    return {name: declared[name] for name in _TELLING}


class Anothers(ClusterError):
    """The stream is another code location's; the text says whose, and what to do."""


def whose_instead(known: Record | None, stream: Stream, owner: str) -> str | None:
    """Name the other owner of a stream called like `stream`, and what to do; None: no other is
    known.

    Args:
        known: what is remembered of a stream of that name.
        owner: who declares `stream`; empty: not known.
    """
    if known is None or not known.epoch or not owner or known.owner in ("", owner):
        return None
    now, before = identity_of(stream), known.identity or known.declared or {}
    differ = [f"{name} {before[name]}" for name in now if before.get(name, now[name]) != now[name]]
    asset = (*stream.key_prefix, stream.name)
    if known.asset and known.asset != asset:
        differ.append(f"asset {'/'.join(known.asset)}")
    if not differ:
        return None
    return WithRemedy(
        f"{stream.name!r} is a stream of {known.whose}, which declares it with "
        f"{', '.join(differ)}: two deployments that share what is remembered must not declare one "
        "name. Rename this one, or give it a namespace or state folder of its own; to take that "
        "stream over, ",
        Remedy.TAKE_OVER,
    )


def refuse_anothers(known: Record | None, stream: Stream, owner: str) -> None:
    """Refuse to touch a stream that is another's.

    Raises:
        Anothers: another code location owns the stream.
    """
    if (text := whose_instead(known, stream, owner)) is not None:
        raise Anothers(text)
