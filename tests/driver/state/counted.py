"""Feeds the program `counting.py`, and adds up what it has counted."""

import json
import uuid
from collections import Counter
from pathlib import Path

from dagster_sparkscale.driver.state import layout
from tests.conftest import PROGRAMS

PROGRAM = PROGRAMS / "counting.py"


class Counting:
    """One query of it."""

    def __init__(self, folder: Path, name: str = "counts") -> None:
        self.place = folder / name
        self.checkpoint = self.place / "checkpoint"
        self.put: Counter[str] = Counter()
        for name in ("in", "out"):
            (self.place / name).mkdir(parents=True, exist_ok=True)

    def feed(self, keys: int = 40, times: int = 3) -> None:
        """Lines of that many keys, in a file that comes whole."""
        lines = [f"key{i}" for i in range(keys) for _ in range(times)]
        self.put.update(lines)
        draft = self.place / f"draft-{uuid.uuid4().hex}"
        draft.write_text("\n".join(lines) + "\n")
        draft.rename(self.place / "in" / f"{uuid.uuid4().hex}.csv")

    def counted(self) -> dict[str, int]:
        """What it has counted so far: of each key what the last batch with it has told."""
        found: dict[str, int] = {}
        files = (self.place / "out").glob("*.json")
        for file in sorted(files, key=lambda each: int(each.stem)):
            found.update(json.loads(file.read_text()))
        return found

    @property
    def right(self) -> bool:
        """Whether it has counted all that was put there, and nothing twice."""
        return self.counted() == dict(self.put)

    def partitions(self) -> int:
        """Of the state, by the checkpoint's last batch."""
        offsets = {
            int(name): content
            for folder, name, content in (
                (*path.rpartition("/")[::2], content) for path, content in self.files().items()
            )
            if folder == "offsets" and name.isdecimal()
        }
        conf = json.loads(offsets[max(offsets)].splitlines()[1])["conf"]
        return int(conf["spark.sql.shuffle.partitions"])

    def files(self) -> dict[str, bytes]:
        """All of its checkpoint that a change may touch."""
        return {
            name: content
            for name, content in self._content().items()
            if name.split("/")[0] in layout.TOUCHED
        }

    def _content(self) -> dict[str, bytes]:
        return {
            str(each.relative_to(self.checkpoint)): each.read_bytes()
            for each in self.checkpoint.rglob("*")
            if each.is_file()
        }
