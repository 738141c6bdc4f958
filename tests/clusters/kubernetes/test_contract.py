"""KubernetesCluster against a real API server, with what the manifests in deploy/ grant."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.clusters.kubernetes.cluster import KubernetesCluster
from dagster_sparkscale.clusters.kubernetes.manifests import TOKEN, text_of
from dev.kubernetes.granted import apply, kubeconfig
from dev.kubernetes.running import Cluster
from tests.clusters.contract import ClusterContract
from tests.kubernetes import namespace, phase

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark]


class TestKubernetesCluster(ClusterContract):
    kube: ClassVar[Cluster]

    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls, kubernetes: Cluster) -> Iterator[KubernetesCluster]:
        cls.kube = kubernetes
        with namespace(kubernetes, "contract") as space:
            apply(kubernetes, space, "dagster.yaml", "outside.yaml", "driver.yaml", "capacity.yaml")
            yield KubernetesCluster(image="spark", kubeconfig=str(kubeconfig(kubernetes, space)))

    def kill_driver(self, cluster: KubernetesCluster, driver: Driver) -> None:
        pod = names.of_epoch(driver.stream, driver.epoch)
        self.kube.kill(self.kube.pod(cluster._api().namespace, pod))

    def nothing_left(self, cluster: KubernetesCluster, name: str, epoch: int) -> bool:
        of = f"{names.STREAM}={names.word(name)},{names.EPOCH}={epoch}"
        path = f"/api/v1/namespaces/{cluster._api().namespace}/pods?labelSelector={of}"
        return all(phase(pod) in ("Succeeded", "Failed") for pod in self.kube.api.items(path))

    def tokens(self, cluster: KubernetesCluster) -> list[str]:
        secrets = self.kube.api.items(f"/api/v1/namespaces/{cluster._api().namespace}/secrets")
        found = [token for each in secrets if (token := text_of(each, TOKEN))]
        assert found
        return found

    def folders(self, cluster: KubernetesCluster) -> list[Path]:
        return []
