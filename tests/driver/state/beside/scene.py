"""A copy that catches up with its query; what Spark does is played on the disk."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.beside import copied_batches, replaying, state_copy
from dagster_sparkscale.driver.state.beside.limits import Limits, Source
from dagster_sparkscale.driver.state.beside.state_copy import StateCopy
from dagster_sparkscale.driver.state.fingerprint import Fingerprint, Group, Partition, Rows
from dagster_sparkscale.driver.state.journal import Begun, Journal
from dagster_sparkscale.driver.state.layout import COPIES
from dagster_sparkscale.driver.state.plans import StatePlan
from dagster_sparkscale.driver.state.reconfigure import Attempt
from dagster_sparkscale.driver.state.reporting import InPlace
from dagster_sparkscale.driver.state.undo import files_of
from tests.driver.state.beside.test_copying import stored
from tests.driver.state.disk import Disk, entry, put
from tests.driver.state.played import Context

PLAN = StatePlan("plan", partitions=4, key_groups=8, queries=("counts",))
ASKED = Limits(rows=0, replay=False, within=600.0)
STORE = (0, "default")


def commit(watermark: int = 0) -> str:
    return f'v1\n{{"nextBatchWatermarkMs":{watermark}}}'


class Scene:
    """A query that goes on: its state is the batch that it was left by.

    Its copy's is the batch of the query that was replayed last.
    """

    def __init__(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, operator: str, here: bool = True
    ) -> None:
        self.root, self.disk = root, Disk(root)
        self.disk.local = str(root) if here else None
        put(root, "metadata", '{"id":"its own"}')
        stores = [{"storeName": "default"}]
        noted = {"operatorInfo": {"operatorName": operator}, "stateStoreInfo": stores}
        described = json.dumps(noted)
        put(root, "state/0/_metadata/v2/0", f"v2\n{described}")
        self.room = 4 if here else 6
        """MB that there must be for a state of 2 MB."""
        self.batch, self.watermark = -1, 0
        self.moves = 0
        """By how much the rows of each batch move the watermark on."""
        for _ in range(3):
            self.goes_on()
        self.active, self.stopping = True, False
        self.replayed: list[int] = []
        self.differs: Callable[[int], bool] = lambda batch: False
        self.steps: dict[str, Callable[[], None]] = {}
        self.on_replay: Callable[[], None] = lambda: None
        self.kept: dict[Path, int] = {}
        """The batches of the query that copies have come to."""
        self.sources = (Source("files"),)
        self.session = SimpleNamespace(
            sparkContext=Context(), _streamingCheckpointManager=self, conf={}
        )
        monkeypatch.setattr(state_copy, "fingerprint", self._fingerprint)
        monkeypatch.setattr(copied_batches, "Replays", lambda _run, place, _: Replays(self, place))
        self.changed: Callable[[str], int] = lambda path: 7
        """What the change feed of the state in `path` comes to."""
        self.compared: list[list[tuple[bool, int, int]]] = []
        """Of which batches changes were read, with whether they are the copy's."""
        monkeypatch.setattr(state_copy.changes, "changes", self._changes)
        monkeypatch.setattr(replaying, "sources", lambda _frame: self.sources)
        self.report = InPlace("plan", "counts", after=4)
        step = self.report.step

        def stepping(name: str) -> None:
            step(name)
            self.steps.get(name, lambda: None)()

        monkeypatch.setattr(self.report, "step", stepping)
        progress = [SimpleNamespace(durationMs={"triggerExecution": 500})] * 12
        trigger = SimpleNamespace(intervalMs=lambda: 10_000)
        self.run: Any = SimpleNamespace(
            handle=SimpleNamespace(
                isActive=lambda: self.active,
                streamingQuery=lambda: SimpleNamespace(trigger=lambda: trigger),
            ),
            started=SimpleNamespace(
                new=SimpleNamespace(frame=None), handle=SimpleNamespace(recentProgress=progress)
            ),
        )

    def goes_on(self, batches: int = 1) -> None:
        for _ in range(batches):
            self.batch += 1
            text = entry(2).replace('"batchWatermarkMs":0', f'"batchWatermarkMs":{self.watermark}')
            put(self.root, f"offsets/{self.batch}", text.replace('"at":7', f'"at":{self.batch}'))
            self.watermark += self.moves
            put(self.root, f"commits/{self.batch}", commit(self.watermark))
            for part in range(2):
                place = self.root / "state" / "0" / str(part)
                stored(place, self.batch + 1, f"query{part}-{self.batch}")

    def _fingerprint(self, _session, path, of, batch, partitions, groups) -> Fingerprint:
        assert list(of) == [STORE] and groups == 8
        copied = COPIES in path
        assert partitions == (4 if copied else 2)
        if copied:
            assert (Path(path) / "commits" / str(batch)).exists()
            batch = self.kept[Path(path)]
            batch += 1000 if self.differs(batch) else 0
        return self.state(batch, partitions)

    def _changes(self, _session, of, batches) -> list[dict[tuple[int, str], Group]]:
        assert list(of) == [STORE]
        self.compared.append([(COPIES in b.checkpoint, b.after, b.last) for b in batches])
        return [{STORE: Group(1, (self.changed(each.checkpoint), 0))} for each in batches]

    def state(self, batch: int, partitions: int = 2) -> Fingerprint:
        rows = Rows(
            {group: Group(1, (batch, group)) for group in range(8)},
            {part: Partition(8 // partitions) for part in range(partitions)},
        )
        return Fingerprint(batch, partitions, {STORE: rows})

    def repartition(self, path: str, partitions: int, exactly_once: bool) -> None:
        """As Spark does it."""
        assert (partitions, exactly_once) == (4, True)
        place = Path(path)
        last = max(int(each.name) for each in (place / "commits").iterdir())
        assert last == max(int(each.name) for each in (place / "offsets").iterdir())
        read = (place / f"offsets/{last}").read_text()
        put(place, f"offsets/{last + 1}", read.replace('partitions":"2"', 'partitions":"4"'))
        put(place, f"commits/{last + 1}", (place / f"commits/{last}").read_text())
        put(place, f"state/0/_metadata/v2/{last + 1}", 'v2\n{"numPartitions":4}')
        self.write(place, last + 2)
        self.kept[place] = last

    def write(self, place: Path, version: int) -> None:
        for part in range(4):
            stored(place / "state" / "0" / str(part), version, f"copy{part}-{version}")

    def copy(self, asked: Limits = ASKED) -> StateCopy:
        attempt = Attempt(
            *(self.session, self.disk, Journal(self.disk), PLAN, self.report, "4.3.0"),
            stopping=lambda: self.stopping,
        )
        usual = replaying.processing(self.run)
        return StateCopy(attempt, self.run, asked, self.state(self.batch), usual)

    def begun(self) -> Begun:
        """A change that is written down."""
        noted = Begun("plan", self.batch, 2, 4, files_of(self.disk))
        Journal(self.disk).begin(noted)
        return noted


class Replays:
    """What runs the last entry of a copy's log, as Spark does it."""

    def __init__(self, scene: Scene, place: str) -> None:
        self._scene, self._place = scene, Path(place)

    def replay(self, give_up: Callable[[], str | None]) -> None:
        scene, place = self._scene, self._place
        if (why := give_up()) is not None:
            raise replaying.NotReplayed(why)
        last = max(int(each.name) for each in (place / "offsets").iterdir())
        assert not (place / f"commits/{last}").exists() and (place / f"commits/{last - 1}").exists()
        text = (place / f"offsets/{last}").read_text()
        assert layout.bound(text, "").partitions == 4
        at = json.loads(text.splitlines()[2])["at"]
        if scene.kept[place] == at:  # there are no rows, which would move the watermark on
            done = commit(json.loads(text.splitlines()[1])["batchWatermarkMs"])
        else:
            done = (scene.root / f"commits/{at}").read_text()
        put(place, f"commits/{last}", done)
        scene.write(place, last + 1)
        scene.kept[place] = at
        scene.replayed.append(at)
        scene.on_replay()
