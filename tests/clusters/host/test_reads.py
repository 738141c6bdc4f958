"""How much of the state folder a tick reads, however many streams it has and have been started."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

MOST = {"standalone": 9, "yarn": 12}
"""Files and folders that a look opens: the record's folder and the record, the driver's notes, its
agent's address and its token."""


@pytest.mark.clusters
@pytest.mark.parametrize("kind", MOST)
def test_a_look_opens_as_few_files_among_a_thousand_streams_as_among_three(
    tmp_path: Path, kind: str
) -> None:
    found = []
    for number in (3, 1000):
        folder = tmp_path / str(number)
        command = [sys.executable, "-m", "tests.clusters.host.reads", str(folder), kind]
        done = subprocess.run([*command, str(number)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["streams"] == number
        found.append(told["most"])
    assert found[0] == found[1] <= MOST[kind], found
