"""KubernetesCluster against a real API server, with what the manifests in deploy/ grant; also on a
cluster that is given (tests/given_kubernetes.py)."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from dagster_sparkscale.clusters.base import ClusterManager, Driver
from dagster_sparkscale.clusters.errors import AgentRefused
from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.clusters.kubernetes.cluster import KubernetesCluster
from dagster_sparkscale.clusters.kubernetes.manifests import METRICS_TOKEN, TOKEN, text_of
from dagster_sparkscale.declare.streams import StructuredStream
from dev.kubernetes.granted import apply, kubeconfig
from dev.kubernetes.running import Cluster, Reached
from tests.clusters.contract import ClusterContract
from tests.clusters.running import newest
from tests.given_kubernetes import image_of, inside, space_for
from tests.kubernetes import phase
from tests.waiting import HANGS

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark]


class TestKubernetesCluster(ClusterContract):
    kube: ClassVar[Reached]

    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls, any_kubernetes: Reached) -> Iterator[KubernetesCluster]:
        cls.kube = any_kubernetes
        # Of the whole cluster, so nothing for one that is somebody's.
        more = ("capacity.yaml",) if isinstance(any_kubernetes, Cluster) else ()
        with space_for(any_kubernetes, "contract") as space:
            apply(any_kubernetes, space, "dagster.yaml", "outside.yaml", "driver.yaml", *more)
            path = str(kubeconfig(any_kubernetes, space))
            yield KubernetesCluster(image=image_of(any_kubernetes), kubeconfig=path)

    def kill_driver(self, cluster: KubernetesCluster, driver: Driver) -> None:
        pod = names.of_epoch(driver.stream, driver.epoch)
        ours = inside(self.kube, "nobody kills a process of a pod from outside of it")
        ours.kill(ours.pod(cluster._api().namespace, pod))

    def test_the_capacity_counts_what_is_in_use(self, running: ClusterManager) -> None:
        inside(self.kube, "who may look at its nodes is not for tests to grant")
        super().test_the_capacity_counts_what_is_in_use(running)

    def test_a_driver_leaves_its_mark_in_its_checkpoint(
        self, idling: ClusterManager, streams: tuple[StructuredStream, ...]
    ) -> None:
        inside(self.kube, "its pods share no folder with this machine")
        super().test_a_driver_leaves_its_mark_in_its_checkpoint(idling, streams)

    def test_a_key_of_its_secret_reads_metrics_and_controls_nothing(
        self, running: KubernetesCluster
    ) -> None:
        driver = newest(running, "clicks")
        space, name = running._api().namespace, names.of_epoch(driver.stream, driver.epoch)
        secret = self.kube.api.get(f"/api/v1/namespaces/{space}/secrets/{name}")
        assert secret is not None
        read = text_of(secret, METRICS_TOKEN)
        assert read
        record = running.store().read(driver.stream)
        assert record is not None
        controls = running.driver_of(driver.stream, record).agent()
        reads = replace(controls, token=read)
        scraped = reads._call("GET", "/metrics", None, HANGS).decode()
        assert f'sparkscale_driver_epoch{{stream="clicks"}} {float(driver.epoch)}' in scraped
        for refused in (
            lambda: reads.status(HANGS),
            lambda: reads.stop(False, 1.0, HANGS),
            lambda: controls._call("GET", "/metrics", None, HANGS),
        ):
            with pytest.raises(AgentRefused, match="Authorization: must be the stream's"):
                refused()

    def nothing_left(self, cluster: KubernetesCluster, name: str, epoch: int) -> bool:
        of = f"{names.STREAM}={names.short_name(name)},{names.EPOCH}={epoch}"
        path = f"/api/v1/namespaces/{cluster._api().namespace}/pods?labelSelector={of}"
        return all(phase(pod) in ("Succeeded", "Failed") for pod in self.kube.api.items(path))

    def tokens(self, cluster: KubernetesCluster) -> list[str]:
        secrets = self.kube.api.items(f"/api/v1/namespaces/{cluster._api().namespace}/secrets")
        found = [token for each in secrets if (token := text_of(each, TOKEN))]
        assert found
        return found

    def folders(self, cluster: KubernetesCluster) -> list[Path]:
        return []
