"""The copy of a checkpoint, and what is taken from it into the checkpoint.

The copy is in the library's own folder of the checkpoint, which nobody else reads. Names are paths
in the checkpoint.
"""

import json
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from dagster_sparkscale.driver.state import layout

from . import names
from .storage import GivenUp, NotNeeded, Storage

_WRITTEN_SECONDS, _TURN_SECONDS = 3.0, 0.2
"""Seconds for which a snapshot is waited for that is not there yet, and between two looks."""


class CannotCopy(RuntimeError):
    """No copy can be made, or taken over; the text says why."""


def place_of(id: str) -> str:
    """The folder of a copy of a checkpoint. A new one each time."""
    return f"{layout.COPIES}/{id}-{uuid.uuid4().hex[:8]}"


class _Files:
    """Files of a state, by their folders.

    Args:
        sizes: by names.
        root: the folder of the state.
    """

    def __init__(self, sizes: Mapping[str, int], root: str) -> None:
        self.sizes, self.root = sizes, root
        self._folders: dict[str, set[str]] = defaultdict(set)
        for name in sizes:
            folder, _, file = name.rpartition("/")
            self._folders[folder].add(file)

    def of_store(self, folder: str) -> set[str]:
        """The names of the files of one partition of a store, without its data files."""
        return self._folders.get(f"{self.root}/{folder}", set())

    def with_checksums(self, file: str, to: str) -> Iterator[tuple[str, str]]:
        """A file, and the checksums of it that there are, which come first; with what they are to
        be named as well."""
        (folder, _, name), (other, _, new) = file.rpartition("/"), to.rpartition("/")
        beside = zip(names.with_checksums(name), names.with_checksums(new), strict=True)
        for each, named in reversed(tuple(beside)):
            if each == name or each in self._folders.get(folder, ()):
                yield f"{folder}/{each}", f"{other}/{named}"


def make(
    storage: Storage,
    place: str,
    batch: int,
    stores: Iterable[str],
    see_to_room: Callable[[int], None],
    given_up: GivenUp,
) -> None:
    """Copy a checkpoint as batch `batch` has left it, while its query goes on.

    Args:
        stores: the folders of all partitions of its stores, in that of its state.
        see_to_room: given the bytes of its state, raises if there is no room for more of them.

    Raises:
        Exception: it can't be copied.
    """
    # Another id: Spark takes two queries of one id for one.
    storage.write(f"{place}/{layout.METADATA}", json.dumps({"id": str(uuid.uuid4())}).encode())
    for log in (layout.OFFSETS, layout.COMMITS):
        for number in (batch - 1, batch):
            with suppress(FileNotFoundError):
                storage.write(f"{place}/{log}/{number}", storage.read(f"{log}/{number}"))
    follow_sources(storage, place, given_up)
    state = _Files(storage.sizes(layout.STATE), layout.STATE)
    described = [n for n in state.sizes if _describes(n, batch) and not _is_draft(n)]
    storage.copy([(name, f"{place}/{name}") for name in described], given_up)
    made_of = [file for folder in stores for file in _made_of(state, folder, batch + 1)]
    snapshots = [name for name in made_of if name.endswith(".zip")]
    made_of += _data_files(storage, snapshots, given_up)
    see_to_room(sum(state.sizes.get(name, 0) for name in made_of))
    pairs = [both for name in made_of for both in state.with_checksums(name, f"{place}/{name}")]
    storage.share(pairs, given_up, leave=True)


def follow_sources(storage: Storage, place: str, given_up: GivenUp) -> None:
    """Have a copy know what the sources of the query have noted since. What has gone is compacted
    into another file."""
    known = storage.sizes(f"{place}/{_SOURCES}")
    pairs = ((name, f"{place}/{name}") for name in storage.sizes(_SOURCES) if not _is_draft(name))
    storage.copy([each for each in pairs if each[1] not in known], given_up)


_SOURCES = "sources"


def _is_draft(name: str) -> bool:
    """Whether a file is being written, or one of Hadoop's checksums."""
    return name.rpartition("/")[2].startswith(".")


def _describes(name: str, batch: int) -> bool:
    """Whether a file describes the state as of a batch: schemas and operators. One of a later batch
    would stay there when the copy is rewritten as that one."""
    folder, _, file = name.rpartition("/")
    if folder.endswith("/_metadata/v2") and file.isdecimal() and int(file) > batch:
        return False
    return any(each.startswith("_") for each in folder.split("/")[1:])


def _made_of(state: _Files, folder: str, version: int) -> list[str]:
    """The files that one version of a partition of a store is made of, but for data files."""
    store = f"{state.root}/{folder}"
    needed = names.versions(state.of_store(folder)).leading_to(version)
    if not needed:
        raise CannotCopy(f"version {version} of {store} is not there")
    return [f"{store}/{name}" for name in needed]


def _data_files(storage: Storage, snapshots: Iterable[str], given_up: GivenUp) -> list[str]:
    """The data files of snapshots."""
    return [
        f"{name.rpartition('/')[0]}/{each}"
        for name, content in storage.read_all(snapshots, given_up).items()
        for each in names.data_files(content)
    ]


@dataclass(frozen=True)
class Made:
    """What a copy has come to."""

    place: str
    rewritten: int
    """The batch of the copy by which Spark has rewritten it."""
    version: int
    """The version of its state."""

    @property
    def root(self) -> str:
        """The folder of its state."""
        return f"{self.place}/{layout.STATE}"

    def snapshot(self, folder: str) -> str:
        """What a partition of a store is to be there as, to be taken over."""
        return f"{self.root}/{folder}/{self.version}.zip"


def is_whole(storage: Storage, made: Made, stores: Iterable[str]) -> bool:
    """Whether there are all snapshots of what a copy has come to. They are waited for: where an
    executor's maintenance comes just as a replay ends, it is that which writes one, and the task
    ends before."""
    late, snapshots = time.monotonic() + _WRITTEN_SECONDS, {made.snapshot(each) for each in stores}
    while not snapshots <= storage.sizes(made.root).keys():
        if time.monotonic() >= late:
            return False
        time.sleep(_TURN_SECONDS)
    return True


def take_over(
    storage: Storage,
    made: Made,
    batch: int,
    stores: Iterable[str],
    entries: tuple[str, str],
    given_up: GivenUp,
) -> None:
    """Have what a copy has come to be batch `batch` of the checkpoint, in the order in which
    Spark's own repartitioning writes it. The copy stays as it is.

    Args:
        stores: the folders of all partitions of the new state.
        entries: of the batch in the offset log and the commit log.

    Raises:
        Exception: it can't be taken over; some of it may have been.
    """
    snapshots = {
        made.snapshot(folder): f"{layout.STATE}/{folder}/{batch + 1}.zip" for folder in stores
    }
    state = _Files(storage.sizes(made.root), made.root)
    if missing := [name for name in snapshots if name not in state.sizes]:
        raise CannotCopy(f"{missing[0]} is not there: the version is no snapshot")
    data = {
        name: f"{layout.STATE}{name.removeprefix(state.root)}"
        for name in _data_files(storage, snapshots, given_up)
    }
    described = _described(storage, state, made, batch)
    _put(storage, f"{layout.OFFSETS}/{batch}", entries[0], given_up)
    # Newer than whatever Spark's cleaning up may take for left over by earlier versions.
    storage.renew(data)
    for files in (data, snapshots, described):  # a snapshot after its data files
        pairs = [both for name, to in files.items() for both in state.with_checksums(name, to)]
        storage.share(pairs, given_up)
    _put(storage, f"{layout.COMMITS}/{batch}", entries[1], given_up)


def _put(storage: Storage, name: str, entry: str, given_up: GivenUp) -> None:
    """Put the entry of a log there, and take it back if nobody needed it: a driver may be frozen
    in the middle of this, and the one that has undone its change does so once."""
    if (why := given_up()) is not None:
        raise NotNeeded(why)
    storage.put(name, entry.encode())
    if (why := given_up()) is not None:
        storage.take_back(name, entry.encode())
        raise NotNeeded(why)


def _described(storage: Storage, state: _Files, made: Made, batch: int) -> Mapping[str, str]:
    """What has operators described as Spark's rewriting of the copy describes them. What later runs
    of the copy write has the places of its own files."""
    found = {}
    below = {name.removeprefix(f"{state.root}/").partition("/")[0] for name in state.sizes}
    for operator in sorted(filter(str.isdecimal, below)):
        described = f"{operator}/_metadata/v2"
        if not storage.sizes(f"{layout.STATE}/{described}"):
            continue  # the first version, which is one file, and which Spark leaves as it is
        new = f"{state.root}/{described}/{made.rewritten}"
        if new not in state.sizes or layout.COPIES in storage.read(new).decode():
            raise CannotCopy(f"operator {operator} of the copy is not described by itself")
        found[new] = f"{layout.STATE}/{described}/{batch}"
    return found
