"""The code location of `dagsters.py`: one stream, which Dagster's daemon evaluates."""

import json
import os
from pathlib import Path

from dagster_sparkscale import LocalCluster, RatioPolicy, build_defs
from tests.e2e.deployment import paced_stream
from tests.faults.real.watched import RESTARTED_AT_ONCE

STREAM = "of_dagsters"
WHERE = "SPARKSCALE_TEST_FOLDER"
CLUSTER = "SPARKSCALE_TEST_CLUSTER"
"""Environment variables: a folder, and the fields of the cluster."""

if WHERE in os.environ:
    defs = build_defs(
        [
            paced_stream(
                STREAM,
                Path(os.environ[WHERE]),
                autoscale=RatioPolicy(interval=10, min_executors=1, max_executors=3),
                recovery=RESTARTED_AT_ONCE,
            )
        ],
        LocalCluster(**json.loads(os.environ[CLUSTER])),
    )
