"""The load of the ten streams: it rises and falls, for each at other moments.

Each record has a number, so that it can be told which are missing, and which are there twice.
"""

import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from demo.load import OrderServer
from demo.shape import Pacer, Phase, Shape
from dev import kinesis
from dev.kafka import client as kafka
from tests.driver.state.counted import Counting
from tests.e2e.ten.places import Places

PHASES = (
    Phase("calm", level=0.25, ramp=0, hold=90),
    Phase("rising", level=1.0, ramp=60, hold=0),
    Phase("high", level=1.0, ramp=0, hold=120),
    Phase("falling", level=0.1, ramp=60, hold=0),
    Phase("quiet", level=0.1, ramp=0, hold=150),
)
PERIOD = sum(each.ramp + each.hold for each in PHASES)
APART = 0.5
"""Parts of the period over which the streams are spread: so that of all together changes, too."""
PER_SECOND = 8.0
"""Records of each stream at the highest load."""
PACE = 0.15
"""Seconds that a record takes: one core has done with some six a second."""
PACES = {"keys": 0.4}
"""Where it is another: of keys, which are fewer than records."""
PACED = ("rate", "planned")
"""Streams whose source has a rate of its own: it is the work on a record that rises and falls."""
PACED_MOST = 0.4
"""Seconds that a record of theirs takes at the highest load."""
STEP = 5.0
"""Seconds between two times that a stream is fed."""
COUNTED = ("files", "kafka", "kinesis", "limited")
"""Streams of which each record is to be in what they write once."""
KEYS = 40


class Load(threading.Thread):
    """Feeds until it is ended. `unheard` has what could not be put, and must stay empty."""

    def __init__(
        self, places: Places, broker: str, service: str, servers: Mapping[str, OrderServer]
    ) -> None:
        super().__init__(name="load", daemon=True)
        self._places, self._servers = places, servers
        self._over = threading.Event()
        self._begun = time.monotonic()
        self._records = kafka.Records(broker)
        self._kinesis = kinesis.client(service)
        self.keys = Counting(places.of("keys").parent, "keys")
        self.sent: Counter[str] = Counter()
        self.unheard: list[str] = []
        self._feeding = {
            "keys": self._feed_keys,
            "files": partial(self._feed_files, "files"),
            "folders": partial(self._feed_files, "folders"),
            "kafka": partial(self._feed_kafka, "kafka"),
            "limited": partial(self._feed_kafka, "limited"),
            "kinesis": self._feed_kinesis,
            "receivers": partial(self._feed_orders, "receivers"),
            "pressed": partial(self._feed_orders, "pressed"),
        }
        self._names = [*self._feeding, *PACED]
        self._pacers = {name: Pacer() for name in self._names}
        for name in self._names:
            for folder in ("in", "out"):
                (places.of(name) / folder).mkdir(parents=True, exist_ok=True)
            self._pace(name, PACES.get(name, PACE))

    def level(self, stream: str) -> float:
        """The load of a stream, as a share of the highest."""
        offset = APART * PERIOD * self._names.index(stream) / len(self._names)
        return Shape(PHASES).level(time.monotonic() - self._begun + offset)

    def end(self) -> None:
        self._over.set()
        self.join()

    def calm(self) -> None:
        """From now on records take next to nothing, so that what waits is soon done."""
        for name in PACED:
            self._pace(name, 0.01)

    def run(self) -> None:
        while not self._over.wait(STEP):
            for name in self._names:
                level = self.level(name)
                if name in PACED:
                    self._pace(name, level * PACED_MOST)
                    continue
                count = self._pacers[name].due(level * PER_SECOND, STEP)
                try:
                    self._feeding[name](count)
                except Exception as error:
                    self.unheard.append(f"{name}: {error!r}")

    def _pace(self, name: str, seconds: float) -> None:
        draft = self._places.of(name) / ".pace"
        draft.write_text(f"{seconds:.3f}")
        draft.replace(self._places.of(name) / "pace")

    def _next(self, name: str, count: int) -> list[str]:
        values = [f"{name} {self.sent[name] + number}" for number in range(count)]
        self.sent[name] += count
        return values

    def _feed_keys(self, count: int) -> None:
        self.sent["keys"] += count
        if count:
            self.keys.feed(keys=min(count, KEYS), times=max(1, count // KEYS))

    def _feed_files(self, name: str, count: int) -> None:
        if not count:
            return
        draft = self._places.of(name) / f".{self.sent[name]}"
        final = self._places.of(name) / "in" / f"{self.sent[name]}.csv"
        draft.write_text("\n".join(self._next(name, count)) + "\n")
        draft.replace(final)

    def _feed_kafka(self, name: str, count: int) -> None:
        values = self._next(name, count)
        half = count // 2
        self._records.put(name, values[:half], 0)
        self._records.put(name, values[half:], 1)

    def _feed_kinesis(self, count: int) -> None:
        values = self._next("kinesis", count)
        if values:
            records = [{"Data": each.encode(), "PartitionKey": each} for each in values]
            answer = self._kinesis.put_records(StreamName="kinesis", Records=records)
            assert answer["FailedRecordCount"] == 0, answer

    def _feed_orders(self, name: str, count: int) -> None:
        server = self._servers[name]
        server.accept()
        server.send(count)
        self.sent[name] = server.sent


def written(places: Places, stream: str) -> Counter[str]:
    """How often each record is in what a stream has written."""
    found: Counter[str] = Counter()
    for path in (places.of(stream) / "out").glob("[0-9]*.json"):
        with contextlib.suppress(FileNotFoundError):
            found.update(json.loads(path.read_text()))
    return found


def age(folder: Path) -> float:
    """Seconds since something was last written there."""
    newest = max((each.stat().st_mtime for each in folder.glob("[0-9]*")), default=0.0)
    return time.time() - newest
