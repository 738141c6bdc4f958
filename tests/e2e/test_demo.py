"""The demo as a user runs it, to its end: it must scale all streams and leave nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from demo.load import VISIT_SHARDS
from demo.processes import marked
from demo.run import STREAMS

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.spark


def start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    places = ["--state", str(folder / "state"), "--report", str(folder / "report.json")]
    return subprocess.Popen(
        [sys.executable, "-m", "demo.run", *places, *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_headless_every_stream_is_scaled_up_and_down_by_tracked_runs(tmp_path: Path) -> None:
    demo = start(tmp_path, "--headless")
    output, _ = demo.communicate()
    assert demo.returncode == 0, output
    assert marked(tmp_path / "state") == []

    report = json.loads((tmp_path / "report.json").read_text())
    assert report["missing"] == []
    for stream in STREAMS:
        ticks = [tick for tick in report["ticks"] if tick["stream"] == stream]
        assert any(tick["decision"].startswith("scale to") for tick in ticks)
        assert any(tick["r"] is not None and tick["registered"] for tick in ticks)
        runs = [run for run in report["runs"] if run["stream"] == stream]
        assert {"start", "rescale"} <= {run["job"] for run in runs}
        assert all(run["seconds"] > 0 for run in runs if run["status"] == "SUCCESS")
    # Two shards have no work for a third executor, though the maximum is four.
    added = [
        run["after"]
        for run in report["runs"]
        if run["stream"] == "visits" and run["time"] >= report["load_began"]
        if (run["after"] or 0) > (run["before"] or 0)
    ]
    assert added
    assert max(added) == VISIT_SHARDS
    # What a person sees while it runs.
    assert "Look at  http://127.0.0.1:" in output
    assert "load: rising" in output


def test_an_interrupted_demo_leaves_no_process_and_a_report(tmp_path: Path) -> None:
    demo = start(tmp_path)
    until = time.monotonic() + 60
    # In the middle of it: while the cluster and Dagster are starting.
    while len(marked(tmp_path / "state")) < 4 and time.monotonic() < until:
        time.sleep(0.2)
    assert demo.poll() is None, demo.communicate()[0]
    os.kill(demo.pid, signal.SIGINT)
    output, _ = demo.communicate()
    assert demo.returncode == 0, output
    assert marked(tmp_path / "state") == []
    assert "All processes have ended." in output
    assert set(json.loads((tmp_path / "report.json").read_text())) >= {"ticks", "runs"}
