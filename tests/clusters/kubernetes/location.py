"""The code location of `test_scenario`: one stream on the Kubernetes cluster of the tests."""

import os
from pathlib import Path

from dagster_sparkscale import KubernetesCluster, build_defs
from tests.e2e.deployment import paced_stream

defs = build_defs(
    [paced_stream("survivor", Path(os.environ["SPARKSCALE_TEST_FOLDER"]), autoscale=None)],
    KubernetesCluster(image="spark", kubeconfig=os.environ["SPARKSCALE_SCENARIO_KUBECONFIG"]),
    autoscaler_running=False,
)
