"""What a change of a query's state leaves in its checkpoint, for whoever starts the query next.

    key_groups    the number of key groups, for good
    begun         written before anything is touched: what there was
    verified      the new state is right: it stays
    last          what the last change came to, for people

A change that has begun and was not verified is undone by the next start; one that was verified is
closed. Each file is whole once it is written; one that can't be read was cut off while it was
written, before what it announces was done.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dagster_sparkscale.driver.wire import Reconfiguration

from .folder import Folder
from .layout import OURS

_KEY_GROUPS, _BEGUN, _VERIFIED, _LAST = (
    f"{OURS}/{name}" for name in ("key_groups", "begun", "verified", "last")
)


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
    """That of the query whose checkpoint `folder` is."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    @property
    def there(self) -> bool:
        """Whether anything of ours is in the checkpoint. One call."""
        return self._folder.exists(OURS)

    def key_groups(self) -> int | None:
        """As they are remembered; None: they are not."""
        told = _loaded(self._folder.read(_KEY_GROUPS))
        count = told.get("key_groups") if told else None
        return count if isinstance(count, int) and count > 0 else None

    def remember(self, key_groups: int) -> None:
        self._folder.write(_KEY_GROUPS, json.dumps({"key_groups": key_groups}).encode())

    def last(self) -> Reconfiguration | None:
        """What the last change came to; None: there was none, or that can't be told."""
        told = _loaded(self._folder.read(_LAST))
        try:
            return None if told is None else Reconfiguration(**told)
        except TypeError:  # another release has written it
            return None

    def note(self, change: Reconfiguration) -> None:
        self._folder.write(_LAST, json.dumps(asdict(change)).encode())

    def begun(self) -> Begun | None:
        """What has begun and is not closed; None: nothing."""
        content = self._folder.read(_BEGUN)
        if content is None:
            return None
        try:
            return Begun(**json.loads(zlib.decompress(content)))
        except (zlib.error, ValueError, TypeError):
            return None  # cut off while it was written: nothing was touched yet

    def begin(self, change: Begun) -> None:
        self._folder.delete(_VERIFIED)  # of one that could not be closed to the end
        self._folder.write(_BEGUN, zlib.compress(json.dumps(asdict(change)).encode()))

    def verify(self, change: Begun) -> None:
        self._folder.write(_VERIFIED, json.dumps({"id": change.id}).encode())

    def is_verified(self, change: Begun) -> bool:
        told = _loaded(self._folder.read(_VERIFIED))
        return told is not None and told.get("id") == change.id

    def close(self) -> None:
        """There is nothing to be undone or finished any more."""
        self._folder.delete(_BEGUN)
        self._folder.delete(_VERIFIED)


def _loaded(content: bytes | None) -> dict[str, Any] | None:
    try:
        told = json.loads(content) if content else None
    except ValueError:
        return None
    return told if isinstance(told, dict) else None
