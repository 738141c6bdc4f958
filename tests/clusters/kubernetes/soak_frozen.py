"""What `test_mishaps` does once with a submitter that freezes, at each of its steps."""

import pytest

from dagster_sparkscale import KubernetesCluster
from dev.kubernetes.running import Cluster
from tests.clusters.kubernetes.frozen import wakes_up_late

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark]


@pytest.mark.parametrize("kind", ["secrets", "configmaps", "services", "pods"])
def test_a_submitter_that_wakes_up_late_starts_no_second_driver(
    kubernetes: Cluster, cluster: KubernetesCluster, space: str, kind: str
) -> None:
    wakes_up_late(kubernetes, cluster, space, kind)
