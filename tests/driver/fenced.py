"""A checkpoint with the mark of a driver in it, in memory."""

import dataclasses
import json

from dagster_sparkscale.driver.begin.fence import Mark

MINE = Mark("clicks", "rec1", 3, "k3", 1000.0, "process 1 on here")


def other(**fields: object) -> Mark:
    return dataclasses.replace(MINE, **{"key": "k9", **fields})  # type: ignore[arg-type]


class Files:
    """One file of a file system that can break."""

    name = "file:///ckpt/_sparkscale_fence"

    def __init__(self, content: bytes | None = None) -> None:
        self.content = content
        self.broken = self.full = False
        self.folder = True

    def has_folder(self) -> bool:
        return self.folder

    def read(self) -> bytes | None:
        if self.broken:
            raise OSError("no answer")
        return self.content

    def write(self, content: bytes) -> None:
        if self.broken or self.full:
            raise OSError("no room")
        self.content = content

    @property
    def mark(self) -> Mark:
        assert self.content is not None
        return Mark(**json.loads(self.content))


def holding(mark: Mark) -> Files:
    return Files(json.dumps(dataclasses.asdict(mark)).encode())
