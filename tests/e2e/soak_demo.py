"""The whole demo, to its end by itself: it must scale every stream up and down, change the state of
one and spread the receivers of another.

`test_demo` starts all streams, has one of them scaled, and leaves.
"""

from pathlib import Path

import pytest

from demo.load import VISIT_SHARDS
from demo.play import STREAMS
from tests.e2e.demo_run import DemoRun
from tests.waiting import HANGS, patience

pytestmark = pytest.mark.spark


def test_headless_every_stream_is_scaled_up_and_down_by_tracked_runs(tmp_path: Path) -> None:
    demo = DemoRun(tmp_path, "--headless")
    demo.process.wait(patience(HANGS))
    demo.end()
    report = demo.report()
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
    changes = {run["job"]: run["change"] for run in report["runs"] if run["change"]}
    assert changes["reconfigure_state"] == "2 -> 4 partitions"
    assert changes["rebalance_receivers"].startswith("receivers [2, 0")
    # What a person sees while it runs.
    assert "Look at  http://127.0.0.1:" in demo.output()
    assert "load: rising" in demo.output()
