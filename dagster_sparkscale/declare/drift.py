"""What a declaration says now, against what the running driver was started with. Pure.

A driver keeps what it was started with until it is restarted: a maximum that was raised since is
still spark.cores.max of before. So what was declared is remembered with each start, and what a
restart would change is shown.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.checkpoints import normalized
from dagster_sparkscale.declare.part import Drift
from dagster_sparkscale.declare.realtime import executors_for
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.declare.streams import KINDS_OF_PARTS

_INITIAL = ("executors", "initial_executors")
"""The fields that say how many executors to begin with. An older release did not remember them."""
_HIDDEN = "#"
"""Begins what stands for a value that may be a secret."""


def declared(stream: Stream) -> dict[str, str]:
    """What only a restart brings to a driver, by field. Values that may be secrets as digests."""
    bounds, policy = stream.bounds, stream.autoscale
    plain = {
        "program": stream.program,
        "batch_interval": f"{stream.batch_interval:g}",
        "checkpoint_location": (
            normalized(stream.checkpoint_location, stream.spark_conf)
            if stream.checkpoint_location
            else "none"
        ),
        "executor_cores": str(stream.executor_cores),
        "executor_memory": stream.executor_memory,
        "driver_memory": stream.driver_memory,
    }
    # A maximum below the ceiling needs no restart.
    field = "ceiling" if policy is not None and policy.ceiling is not None else "max_executors"
    plain[field] = "none" if bounds.ceiling is None else str(bounds.ceiling)
    if policy is None:
        plain["executors"] = str(bounds.initial)
    else:
        plain["initial_executors"] = str(policy.initial_executors or "none")
    for part in stream.parts:
        plain |= part.declared(stream)
    if not callable(stream.arguments):
        plain["arguments"] = _digest("\0".join(map(str, stream.arguments)))
    plain |= {f"spark_conf {key}": _digest(value) for key, value in stream.spark_conf.items()}
    plain |= {f"env {key}": _digest(value) for key, value in stream.env.items()}
    return plain


def drift(before: Mapping[str, str] | None, stream: Stream) -> tuple[str, ...]:
    """What a restart of the driver that was started with `before` would change, a line each.

    None: its declaration at the start is not known, and nothing is said.
    """
    if before is None:
        return ()
    now = declared(stream)
    if now == before:
        return ()
    names = [name for name in (*now, *(before.keys() - now.keys())) if _differs(name, before, now)]
    alone = tuple(f"{name}." for name in names if _drift_of(name).alone)
    names = [name for name in names if not name.startswith(alone)]
    return tuple(_line(name, before.get(name), now.get(name)) for name in sorted(names))


def executors_at_start(
    stream: Stream,
    last: int | None,
    before: Mapping[str, str] | None,
    pinned: int | None = None,
    *,
    slots: int | None = None,
) -> int:
    """How many executors a new driver of `stream` begins with.

    As many as the one before had, within the bounds. With what is declared begin the first one,
    and one for which another number is declared than was for the one before.

    Args:
        last: what was last requested of the driver before; None: there was none, or not known.
        before: what that one was started with; None: not known.
        pinned: places of tasks that are taken for good when it begins; None: as declared.
        slots: task slots that its real-time queries need by what Spark has said; None: as declared.
    """
    now, bounds = declared(stream), stream.bounds_for(None, pinned)
    if slots is not None:
        bounds = bounds.needing(executors_for(slots, stream.tasks_at_a_time), "")
    anew = any(_differs(name, before or {}, now) for name in _INITIAL)
    return bounds.initial if last is None or anew else bounds.clamp(last)


def until_restart(before: Mapping[str, str] | None, bounds: Bounds) -> Bounds:
    """`bounds` as far as the running driver can go: its ceiling was fixed when it was started. A
    minimum above that is out of its reach as well."""
    if not before:
        return bounds
    started_with = before.get("ceiling", before.get("max_executors", "none"))
    if not started_with.isdecimal():
        return replace(bounds, ceiling=None)
    ceiling = int(started_with)
    if bounds.ceiling != ceiling:
        bounds = replace(bounds, ceiling=ceiling)
    if bounds.maximum is not None and bounds.maximum <= ceiling:
        return bounds
    declared = "no maximum" if bounds.maximum is None else f"a maximum of {bounds.maximum}"
    note = (
        f"{declared} is declared by now, but the driver was started with {ceiling}: restart the "
        "stream to apply it"
    )
    return replace(bounds, minimum=min(bounds.minimum, ceiling), maximum=ceiling, note=note)


def _differs(name: str, before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    if name == "arguments" and not (name in before and name in now):
        return False  # a function: what it returns is known at a start only
    if name in _INITIAL and (name not in before or now.get(name, "none") == "none"):
        return False  # not known; or nothing is declared any more, and what is there stays
    if name not in before and _drift_of(name).late:
        return False
    return before.get(name) != now.get(name)


def _drift_of(name: str) -> Drift:
    """How a change of that field is shown; one of no part, as such."""
    for part in KINDS_OF_PARTS:
        for field, how in part.drifts.items():
            if name == field or (field.endswith(".") and name.startswith(field)):
                return how
    return Drift()


def _line(name: str, before: str | None, now: str | None) -> str:
    how = _drift_of(name)
    if how.absent is not None:
        return f"{name} {before or how.absent} -> {now or how.absent}"
    if now is None:
        return f"{name} is not set any more{f' (it was {before})' if how.limit else ''}"
    if how.only:
        new = f"is {now} now" if before is None else f"{before} -> {now}"
        return f"{name} {new} ({how.only})"
    if how.limit:
        return f"{name} {before or 'none'} -> {now}"
    if before is None:
        return f"{name} is set now"
    if before.startswith(_HIDDEN) or now.startswith(_HIDDEN):
        return f"{name} has changed"
    return f"{name} {before} -> {now}"


def _digest(value: str) -> str:
    return _HIDDEN + hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:16]
