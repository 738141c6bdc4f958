"""Where the ten streams find what they read, and where they write."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar


@dataclass(frozen=True)
class Places:
    """What the code location is told by the environment, as JSON."""

    VARIABLE: ClassVar[str] = "SPARKSCALE_TEST_TEN"

    folder: str
    kafka: str
    """What clients take as `bootstrap.servers`."""
    kinesis: str
    """The URL of the emulator."""
    ports: Mapping[str, int]
    """Of the servers that orders come from, by the name of the stream."""

    def of(self, stream: str) -> Path:
        """The folder of a stream: what it reads is in `in`, what it has written in `out`."""
        return Path(self.folder) / "streams" / stream
