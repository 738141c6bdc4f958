"""The code location of `test_restart` and `test_cli`: one stream on the cluster of the tests."""

import os
from pathlib import Path

from dagster_sparkscale import LocalCluster, build_defs
from dev.runs import MARK
from tests.e2e.deployment import paced_stream

FOLDER = Path(os.environ["SPARKSCALE_TEST_FOLDER"])

defs = build_defs(
    [paced_stream(os.environ["SPARKSCALE_TEST_STREAM"], FOLDER, autoscale=None, executor_cores=9)],
    LocalCluster(
        state_dir=os.environ["SPARKSCALE_TEST_STATE"],
        workers=2,
        cores_per_worker=16,
        memory_per_worker="16g",
        pass_environment=[MARK],
    ),
    autoscaler_running=False,
)
