"""The code location of `test_scenario`: one stream on the Kubernetes cluster of the tests."""

import os
from pathlib import Path

from dagster_sparkscale import KubernetesCluster, RecoveryPolicy, build_defs
from tests.clusters.running import stream

STREAM = stream(
    "survivor",
    "rate.py",
    checkpoint_location=str(Path(os.environ["SPARKSCALE_TEST_FOLDER"]) / "checkpoint"),
    recovery=RecoveryPolicy(first_delay=0.1, limit=2),
)

defs = build_defs(
    [STREAM],
    KubernetesCluster(
        image=os.environ["SPARKSCALE_SCENARIO_IMAGE"],
        kubeconfig=os.environ["SPARKSCALE_SCENARIO_KUBECONFIG"],
    ),
    autoscaler_running=False,
)
