"""Ten streams, one of each kind, under a changing load on a local cluster with the whole Dagster.

Meanwhile processes are killed, stand still and lose their connections, and people rescale, restart
and steer.

What must hold, besides what each single test of a fault sees:

    memory      of drivers, their JVMs, supervisors, daemon, code server and web server stays: the
                last quarter / the second one is 1.05 at most, and 1.1 of each process; of open
                files and threads 1.25 (tests/e2e/ten/memory.py; in runs of three quarters of an
                hour and more)
    ticks       none is lost, but while the daemon or the code server is down or stands still
    events      of each stream at most one a tick, one every ten minutes at least; no minute lost
    drivers     never two on one checkpoint; in the end each stream runs
    records     each is read once, by the streams that can be checked
    the end     no process, no held lease

`make bench ONLY=soak` plays an hour of it, and draws docs/soak.png.
"""

import json
import os
from pathlib import Path

import psutil
import pytest

from tests.e2e.ten.memory import COMPARED, too_much
from tests.e2e.ten.play import Ten
from tests.soaking import Soak

NEEDED = 20_000_000_000
"""Bytes of memory: it takes two thirds of that."""
pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.skipif(
        psutil.virtual_memory().total < NEEDED, reason="ten streams need a machine of 20 GB"
    ),
]
REPORT = "SPARKSCALE_SOAK_REPORT"
"""Environment variable: the file that takes all that was measured, as JSON."""
LONG_ENOUGH = 45.0
"""Minutes from which on memory can be compared: all is warm by the second quarter."""


def test_ten_streams_of_every_kind(
    tmp_path: Path, soak: Soak, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TMPDIR", "JDK_JAVA_OPTIONS", "PYTHONPATH", "DAGSTER_HOME"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # as before in the end
    ten = Ten(tmp_path, soak)
    try:
        ten.play()
    finally:
        ten.report["found"] = ten.found
        report = Path(os.environ.get(REPORT) or tmp_path / "soak.json")
        report.write_text(json.dumps(ten.report) + "\n")
        print(f"all that was measured is in {report}", flush=True)
    kinds = ten.report["kinds"]
    for kind, measured in kinds.items():
        print(kind, measured, flush=True)
    if soak.minutes >= LONG_ENOUGH:
        assert set(kinds) == set(COMPARED), f"not all could be compared: {[*kinds]}"
        grown = {kind: each for kind, each in kinds.items() if too_much(each)}
        assert not grown, f"it grows: {grown}"
    assert not ten.found, "\n".join(ten.found)
