"""Live limits of sources: set over HTTP, and read by the sources from a file.

A source runs in the JVM or in Python workers that it forks, and knows the file by the environment
variable RATES_FILE, or by the JVM's system property RATES_PROPERTY. The file holds
{"<stream>": {"maxRecordsPerTrigger": 1000, ...}, ...}: only the limits there are, made of those
that were set and of those that are estimated (`backpressure/limiter.py`). It is replaced as a
whole, so whoever reads it never sees half of it.
"""

import contextlib
import json
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dagster_sparkscale.driver.begin.announce import announce
from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.request import BadRequest, shown
from dagster_sparkscale.driver.settings import RATES_FILE, RATES_PROPERTY
from dagster_sparkscale.driver.wire import LARGEST

from .source import Given, is_receiver

LIMITS = {
    "maxRate": "a number of records per second above 0",
    "maxRecordsPerTrigger": "a whole number above 0",
    "maxBytesPerTrigger": "a whole number above 0",
    "maxSpanPerTrigger": "a number of seconds above 0",
}
"""Each limit, and what its value must be."""
MAX_SOURCES = 100
MAX_NAME = 255


class BadRates(BadRequest):
    """A request that makes no sense; the text names the field, its value and what is right."""


class Rates:
    """The limits that are set, and the file with those in force. Safe for threads.

    Args:
        folder: where the file is kept; None: nowhere, and limits cannot be set.
        own: whether the folder is for the file alone, and goes with it.
    """

    def __init__(self, folder: Path | None = None, own: bool = False) -> None:
        self._folder, self._own = folder, own
        self._lock = threading.Lock()
        self._limits: Given = {}
        """The limits that are set."""
        self._in_force: Callable[[Given], Given] = lambda limits: limits
        self._written: Given | None = None
        """What the file holds; None: not known."""
        self._gone = False
        """Whether the file was cleaned away, and could not be written again."""
        self._closed = False

    @classmethod
    def prepare(cls, folder: Path | None = None) -> "Rates":
        """Make an empty file and name it in the environment.

        To be called before the JVM is started, which takes the environment over. Where there is
        no room for the file the driver runs without it.

        Args:
            folder: where it is to be; None: in a private one among the temporary files, which
                may be cleaned away while the driver runs.
        """
        # Another driver's, if one of its programs started this one.
        os.environ.pop(RATES_FILE, None)
        try:
            if folder is None:
                rates = cls(Path(tempfile.mkdtemp(prefix="sparkscale-")), own=True)
            else:
                rates = cls(folder.absolute())
            rates._write({})
        except OSError as error:
            say(f"sources cannot be given live limits: {error}")
            return cls()
        os.environ[RATES_FILE] = str(rates.file)
        return rates

    def tell_jvm(self, context: Any) -> None:
        """Name the file to the JVM of a SparkContext, which may have been there before it, by py4j;
        and to the Python processes that it starts, of which one plans the batches of a Python data
        source: they have the environment of the JVM, and what the context adds to that."""
        if self.file is not None:
            context._jvm.java.lang.System.setProperty(RATES_PROPERTY, str(self.file))
            context.environment[RATES_FILE] = str(self.file)

    @property
    def file(self) -> Path | None:
        return self._folder / "rates.json" if self._folder else None

    def begin(self, limits: Given, in_force: Callable[[Given], Given]) -> None:
        """What there is before the program runs.

        Args:
            limits: those that are set.
            in_force: makes of them what the file is to hold; called with the lock held.

        Raises:
            OSError: the file cannot be written.
        """
        with self._lock:
            self._limits, self._in_force = limits, in_force
            if self.file is None:
                in_force(limits)  # receivers are told theirs without it
            else:
                self._write(limits)

    def current(self) -> Given:
        """The limits that are set, by source: none while the file is gone.

        Does not wait for whoever writes the file, which a disk may hold up: the status tells them.
        """
        limits = self._limits  # replaced as a whole, and never changed
        return {} if self._gone else {source: dict(has) for source, has in limits.items()}

    def keep(self) -> None:
        """Write the file again if somebody has cleaned it away, or if what is in force is not what
        it holds.

        Raises:
            OSError: the file is gone and can't be written. Until it can, no limit is in force.
        """
        with self._lock:
            if self.file is None or self._closed:
                return
            if os.path.exists(self.file):
                if self._in_force(self._limits) != self._written:
                    self._write(self._limits)
                return
            self._gone = True
            self._write(self._limits)
        say(f"{self.file}, with the live limits, was gone: it has been written again")

    def change(self, wanted: Any, absolute: bool = False) -> None:
        """Set and remove limits; all that `wanted` says, or nothing.

        Args:
            wanted: {source: {limit: value}}, as a request has it. A source or limit that is not
                named keeps what it has; null for a value removes that limit, null for a source
                all of its limits.
            absolute: whether what is not named is removed, too.

        Raises:
            BadRates: the request has another form.
            OSError: the file cannot be written. The limits are as before.
        """
        check(wanted)
        with self._lock:
            had = {} if absolute else self._limits
            limits = {source: dict(has) for source, has in had.items()}
            for source, changes in wanted.items():
                has = {} if changes is None else limits.get(source, {}) | changes
                limits[source] = {name: value for name, value in has.items() if value is not None}
            limits = {source: has for source, has in limits.items() if has}
            if len(limits) > MAX_SOURCES:
                raise BadRates(f"rates: {len(limits)} sources: must be at most {MAX_SOURCES}")
            self._write(limits)
            before, self._limits = self._limits, limits
        for source in sorted({*wanted, *before}):
            if before.get(source) != limits.get(source):
                say(f"live limits of source {source!r}: {limits.get(source) or 'none'}")

    def _write(self, limits: Given) -> None:
        if self.file is None:
            if not all(map(is_receiver, limits)):
                raise OSError("this driver has no file for the limits of its sources")
            self._in_force(limits)
            return
        content = self._in_force(limits)
        self._written = None
        try:
            if self._own and not self._closed:
                _make_private(self.file.parent)
            announce(self.file, content)
        except OSError:
            self._in_force(self._limits)
            raise
        self._written, self._gone = content, False

    def close(self) -> None:
        """Remove the file. It stays behind if a signal kills the driver first."""
        self._closed = True
        if self.file is None:
            return
        if self._own:
            shutil.rmtree(self.file.parent, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                self.file.unlink()


def _make_private(folder: Path) -> None:
    """Make a folder among the temporary files, where others may have made one of its name.

    Raises:
        OSError: the folder can't be made, or is somebody else's.
    """
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise OSError(f"{folder}: is not this user's folder any more")


def rates_of(text: str) -> Given:
    """Limits that a driver begins with, as `Rates.begin` takes them, from the JSON of what a
    request sets.

    Raises:
        BadRates: the text has no limits.
    """
    try:
        wanted = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRates(f"it is no JSON: {error}") from None
    check(wanted)
    limits = {
        source: {name: value for name, value in (has or {}).items() if value is not None}
        for source, has in wanted.items()
    }
    return {source: has for source, has in limits.items() if has}


def check(wanted: Any) -> None:
    """See that a request to change limits makes sense.

    Raises:
        BadRates: a limit makes no sense; names it.
    """
    if not isinstance(wanted, Mapping):
        raise BadRates(f"rates: {shown(wanted)}: must be an object with the limits of each source")
    for source, changes in wanted.items():
        if not 0 < len(source) <= MAX_NAME:
            raise BadRates(
                f"rates: {shown(source)}: a source's name must have 1 to {MAX_NAME} characters"
            )
        where = f"rates.{source[:80]}"
        if changes is None:
            continue
        if not isinstance(changes, Mapping):
            raise BadRates(f"{where}: {shown(changes)}: must be an object with limits, or null")
        for name, value in changes.items():
            if name not in LIMITS:
                raise BadRates(f"{where}.{name[:80]}: no such limit; there are {', '.join(LIMITS)}")
            if is_receiver(source) and name != "maxRate":
                raise BadRates(
                    f"{where}.{name}: {source} is the name of a receiver, which takes maxRate "
                    "(records per second) alone: the others are for sources that plan batches"
                )
            if value is not None and not _fits(value, whole="whole" in LIMITS[name]):
                raise BadRates(
                    f"{where}.{name}: {shown(value)}: must be {LIMITS[name]}, or null for no limit"
                )


def _fits(value: Any, whole: bool) -> bool:
    kinds: tuple[type, ...] = (int,) if whole else (int, float)
    return type(value) in kinds and 0 < value < LARGEST  # NaN is not, either
