"""The demo as a user runs it: streams start, are evaluated and scaled, and nothing is left."""

import re
from pathlib import Path

import pytest

from demo.play import STREAMS
from tests.e2e.demo_run import DemoRun
from tests.e2e.secrets import secrets_below, shown
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.clusters]


def test_all_streams_start_and_are_evaluated_and_scaled_by_tracked_runs(tmp_path: Path) -> None:
    demo = DemoRun(tmp_path)
    demo.wait_until_said("all streams to start", "All streams run", "Look at  http://127.0.0.1:")

    def evaluated_and_scaled() -> bool:
        assert demo.process.poll() is None, demo.output()
        output = demo.output()
        with_r = {line[1] for line in re.finditer(r"  (\w+) +R +\d", output)}
        scaled = re.search(r"rescale run \w{8}: \d+ -> \d+ executors, SUCCESS", output)
        by_capacity = re.search(r"clicks .* scale to \d: .*executors for [\d.,]+ records/s", output)
        return with_r >= set(STREAMS) and scaled is not None and by_capacity is not None

    wait_for("R of all streams, and rescales", evaluated_and_scaled, 600, about=demo.output)
    # Of the whole of Dagster, its daemon, web server and runs among it, and of the cluster.
    secrets = secrets_below(tmp_path)
    assert len(secrets) > 2 * len(STREAMS), secrets
    assert not shown(secrets, tmp_path)
    demo.interrupt()
    demo.end()
    assert not shown(secrets, tmp_path)
    report = demo.report()
    for stream in STREAMS:
        assert any(tick["stream"] == stream and tick["registered"] for tick in report["ticks"])
        assert "start" in {run["job"] for run in report["runs"] if run["stream"] == stream}
    assert any(run["job"] == "rescale" and run["seconds"] > 0 for run in report["runs"])


def test_a_demo_interrupted_while_it_starts_leaves_no_process_and_a_report(tmp_path: Path) -> None:
    demo = DemoRun(tmp_path)
    # In the middle of it: while the cluster and Dagster are starting.
    wait_for("its first processes", lambda: demo.running() >= 4, about=demo.output)
    assert demo.process.poll() is None, demo.output()
    demo.interrupt()
    demo.end()
    assert set(demo.report()) >= {"ticks", "runs"}
