"""Looking at files while processes are at work on them."""

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path


def below(folder: Path, name: str = "*") -> Iterator[Path]:
    """The files of that name (with wildcards) in a folder and in those below it. A folder that
    vanishes meanwhile is passed over, where pathlib's own search raises an error; whoever reads a
    file must expect the same of that."""
    for at, _, files in os.walk(folder):
        found = (Path(at, each) for each in files if fnmatchcase(each, name))
        yield from (path for path in found if path.is_file())
