"""What a change of a query's state leaves in its checkpoint, for whoever starts the query next.

    key_groups    the number of key groups, for good
    begun         written before anything is touched: what there was
    verified      the new state is right: it stays
    last          what the last change came to, for people

A change that has begun and was not verified is undone by the next start; one that was verified is
closed. Each file is whole once it is written; one that is no whole JSON was cut off while it was
written, before what it announces was done. One that is whole and not understood is another
release's: of what has begun that is an error, for it must be undone by somebody.
"""

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from types import UnionType
from typing import Any, get_args, get_origin

from dagster_sparkscale.driver.wire import LARGEST, Reconfiguration

from .folder import Folder
from .layout import OURS

_KEY_GROUPS, _BEGUN, _VERIFIED, _LAST = (
    f"{OURS}/{name}" for name in ("key_groups", "begun", "verified", "last")
)


class NotUnderstood(RuntimeError):
    """What has begun was written down by another release, in a way that this one can't read."""


@dataclass(frozen=True)
class Begun:
    """A change that has begun."""

    id: str
    batch: int
    """The last one before it, which is done."""
    before: int
    """Partitions."""
    after: int
    files: Mapping[str, int]
    """What there was in the checkpoint: sizes by paths in it."""


class Journal:
    """The journal of the query whose checkpoint is `folder`."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    @property
    def there(self) -> bool:
        """Whether anything of ours is in the checkpoint. One call."""
        return self._folder.exists(OURS)

    def key_groups(self) -> int | None:
        """The remembered key groups; None: none are."""
        count = (_loaded(self._folder.read(_KEY_GROUPS)) or {}).get("key_groups")
        return count if isinstance(count, int) and _fits(count, int) and count > 0 else None

    def remember(self, key_groups: int) -> None:
        self._folder.write(_KEY_GROUPS, json.dumps({"key_groups": key_groups}).encode())

    def last(self) -> Reconfiguration | None:
        """What the last change came to; None: there was none, or that can't be told."""
        loaded = _loaded(self._folder.read(_LAST))
        return None if loaded is None else _change_of(loaded)

    def note(self, change: Reconfiguration) -> None:
        self._folder.write(_LAST, json.dumps(asdict(change)).encode())

    def begun(self) -> Begun | None:
        """What has begun and is not closed; None: nothing.

        Raises:
            NotUnderstood: something was begun, and its entry can't be read.
        """
        content = self._folder.read(_BEGUN)
        if content is None:
            return None
        try:
            loaded: Any = json.loads(zlib.decompress(content))
        except (zlib.error, ValueError):
            return None  # cut off while it was written: nothing was touched yet
        try:
            change = Begun(**{field.name: loaded[field.name] for field in fields(Begun)})
        except (KeyError, TypeError):
            change = None
        if change is None or not _is_right(change):
            raise NotUnderstood(
                f"a change of state has begun in {self._folder.name}, and what {_BEGUN} says of it "
                "is another release's: start the stream once with that release"
            )
        return change

    def begin(self, change: Begun) -> None:
        self._folder.delete(_VERIFIED)  # of one that could not be closed to the end
        self._folder.write(_BEGUN, zlib.compress(json.dumps(asdict(change)).encode()))

    def verify(self, change: Begun) -> None:
        self._folder.write(_VERIFIED, json.dumps({"id": change.id}).encode())

    def unverify(self) -> None:
        """Before what was begun is undone: what says that it stays goes first."""
        self._folder.delete(_VERIFIED)

    def is_verified(self, change: Begun) -> bool:
        return (_loaded(self._folder.read(_VERIFIED)) or {}).get("id") == change.id

    def close(self) -> None:
        """Note that nothing is left to be undone or finished."""
        self._folder.delete(_BEGUN)
        self._folder.delete(_VERIFIED)


def _loaded(content: bytes | None) -> dict[str, Any] | None:
    try:
        loaded = json.loads(content) if content else None
    except ValueError:
        return None
    return loaded if isinstance(loaded, dict) else None


def _change_of(loaded: Mapping[str, Any]) -> Reconfiguration | None:
    """None: another release has written it. It goes into the status, of which all would be lost by
    one value that is of another type."""
    try:
        change = Reconfiguration(**loaded)
    except TypeError:
        return None
    return change if _is_right(change) else None


def _is_right(read: Begun | Reconfiguration) -> bool:
    """Whether what was read has values of the types that its fields declare."""
    return all(_fits(getattr(read, each.name), each.type) for each in fields(read))


def _fits(value: Any, declared: Any) -> bool:
    kinds = get_args(declared)
    if isinstance(declared, UnionType):
        return any(_fits(value, kind) for kind in kinds)
    if get_origin(declared) is tuple:
        return isinstance(value, list) and all(_fits(each, kinds[0]) for each in value)
    if get_origin(declared) is Mapping:
        return isinstance(value, dict) and all(_fits(each, kinds[1]) for each in value.values())
    if declared in (int, float):
        whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST
        return whole or (declared is float and isinstance(value, float) and math.isfinite(value))
    return isinstance(value, declared)
