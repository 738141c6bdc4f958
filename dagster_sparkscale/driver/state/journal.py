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
from typing import Any

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
        told = _loaded(self._folder.read(_KEY_GROUPS))
        count = told.get("key_groups") if told else None
        return int(count) if count is not None and _is_whole(count) and count > 0 else None

    def remember(self, key_groups: int) -> None:
        self._folder.write(_KEY_GROUPS, json.dumps({"key_groups": key_groups}).encode())

    def last(self) -> Reconfiguration | None:
        """What the last change came to; None: there was none, or that can't be told."""
        told = _loaded(self._folder.read(_LAST))
        return None if told is None else _change_of(told)

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
            told: Any = json.loads(zlib.decompress(content))
        except (zlib.error, ValueError):
            return None  # cut off while it was written: nothing was touched yet
        try:
            change = Begun(**{field.name: told[field.name] for field in fields(Begun)})
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
        told = _loaded(self._folder.read(_VERIFIED))
        return told is not None and told.get("id") == change.id

    def close(self) -> None:
        """Note that nothing is left to be undone or finished."""
        self._folder.delete(_BEGUN)
        self._folder.delete(_VERIFIED)


def _loaded(content: bytes | None) -> dict[str, Any] | None:
    try:
        told = json.loads(content) if content else None
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def _is_right(change: Begun) -> bool:
    return (
        isinstance(change.id, str)
        and all(map(_is_whole, (change.batch, change.before, change.after)))
        and isinstance(change.files, dict)
        and all(map(_is_whole, change.files.values()))
    )


def _change_of(told: Mapping[str, Any]) -> Reconfiguration | None:
    """None: another release has written it. It goes into the status, of which all would be lost by
    one value that is of another type."""
    try:
        change = Reconfiguration(**told)
    except TypeError:
        return None
    texts = (change.id, change.query, change.step)
    numbers = (change.before, change.after, change.key_groups, change.rows)
    lists = (change.group_rows, change.partition_rows, change.partition_rows_after)
    seconds = {} if change.seconds is None else change.seconds
    is_right = (
        all(isinstance(each, str) for each in texts)
        and all(each is None or isinstance(each, str) for each in (change.outcome, change.reason))
        and all(each is None or _is_whole(each) for each in numbers)
        and all(each is None or _is_list(each) for each in lists)
        and isinstance(seconds, dict)
        and all(map(_is_number, (change.began_at, *seconds.values())))
    )
    return change if is_right else None


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_whole, value))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST


def _is_number(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))
