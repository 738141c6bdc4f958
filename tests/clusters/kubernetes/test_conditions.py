"""What `sparkscale doctor` says of a namespace, by a real API server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_sparkscale import KubernetesCluster, SparkApplicationCluster
from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.kubernetes.applications import VERSIONS
from dagster_sparkscale.clusters.kubernetes.conditions import NEEDED
from dev.kubernetes.granted import apply, granted, kubeconfig
from dev.kubernetes.operators.crds import install
from dev.kubernetes.running import Cluster
from tests.clusters.kubernetes.operated import without_pods
from tests.clusters.running import stream, submit
from tests.kubernetes import namespace
from tests.waiting import wait_for


@pytest.mark.parametrize("manifest", NEEDED)
def test_what_is_looked_for_is_what_the_manifest_grants(manifest: str) -> None:
    needed = {(kind, verb) for kind, verbs in NEEDED[manifest].items() for verb in verbs}
    assert needed == granted(manifest)


@pytest.mark.kubernetes
class TestAsked:
    @pytest.fixture
    def bare(self, kubernetes: Cluster) -> Iterator[str]:
        with namespace(kubernetes, "conditions") as made:
            yield made

    @staticmethod
    def told(cluster: KubernetesCluster) -> dict[str, Condition]:
        return {each.subject: each for each in cluster.conditions([]) if each.wrong}

    def test_all_is_there(self, cluster: KubernetesCluster) -> None:
        (line,) = cluster.conditions([])
        assert line.cure is None and line.subject == "Kubernetes"

    def test_each_role_that_is_missing_is_named_with_its_manifest(
        self, kubernetes: Cluster, bare: str
    ) -> None:
        cluster = KubernetesCluster(image="spark", kubeconfig=str(kubeconfig(kubernetes, bare)))
        line = self.told(cluster)["Kubernetes"]
        assert line.text == "can't be asked"
        assert "dagster.yaml" in str(line.cure) and f"a namespace {bare}" in str(line.cure)
        apply(kubernetes, bare, "dagster.yaml")
        # What was granted is heeded in a moment.
        wait_for("the roles to be asked for", lambda: "roles" in self.told(cluster))
        found = self.told(cluster)
        assert found["roles"].text == (
            f"Dagster may not get pods/portforward, create pods/portforward in the namespace {bare}"
        )
        assert "deploy/kubernetes/outside.yaml" in str(found["roles"].cure)
        assert "driver.yaml" in str(found["service account"].cure)
        apply(kubernetes, bare, "outside.yaml", "driver.yaml")
        wait_for("all to be there", lambda: self.told(cluster) == {})

    def test_inside_of_the_cluster_no_ports_are_forwarded(
        self, kubernetes: Cluster, bare: str
    ) -> None:
        apply(kubernetes, bare, "dagster.yaml", "driver.yaml")
        path = str(kubeconfig(kubernetes, bare))
        cluster = KubernetesCluster(image="spark", kubeconfig=path, agent_access="service")
        assert self.told(cluster) == {}

    def test_a_role_that_grants_less_says_what_it_lacks(
        self, kubernetes: Cluster, bare: str
    ) -> None:
        apply(kubernetes, bare, "dagster.yaml", "outside.yaml", "driver.yaml")
        roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{bare}/roles/sparkscale-dagster"
        role = kubernetes.api.get(roles)
        assert role
        less = [rule for rule in role["rules"] if rule["resources"] != ["services"]]
        kubernetes.api.patch(roles, {"rules": less})
        cluster = KubernetesCluster(image="spark", kubeconfig=str(kubeconfig(kubernetes, bare)))
        line = self.told(cluster)["roles"]
        assert line.text == f"Dagster may not create services in the namespace {bare}"
        assert "dagster.yaml" in str(line.cure)

    @pytest.mark.parametrize("operator", VERSIONS)
    def test_where_an_operator_makes_the_pods_its_own_rights_are_looked_for(
        self, kubernetes: Cluster, bare: str, operator: str
    ) -> None:
        install(kubernetes.api)
        apply(kubernetes, bare, "dagster.yaml", "outside.yaml", "driver.yaml")
        without_pods(kubernetes, bare)  # as applications.yaml says one may
        cluster = SparkApplicationCluster(
            operator=operator,
            spark_version="4.3.0",
            image="spark",
            kubeconfig=str(kubeconfig(kubernetes, bare)),
        )
        found = self.told(cluster)
        assert found["roles"].text == (
            "Dagster may not get sparkapplications, list sparkapplications, create "
            f"sparkapplications, delete sparkapplications in the namespace {bare}"
        )
        assert "deploy/kubernetes/applications.yaml" in str(found["roles"].cure)
        apply(kubernetes, bare, "applications.yaml")
        assert self.told(cluster) == {}
        # Other groups have resources of that name.
        roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{bare}/roles"
        rule = {"apiGroups": ["spark.example"], "resources": ["sparkapplications"], "verbs": ["*"]}
        kubernetes.api.patch(f"{roles}/sparkscale-dagster-applications", {"rules": [rule]})
        assert "create sparkapplications" in self.told(cluster)["roles"].text

    def test_a_namespace_that_is_missing(self, kubernetes: Cluster, tmp_path: Path) -> None:
        told = json.loads(kubernetes.kubeconfig.read_text())
        path = tmp_path / "config"
        path.write_text(json.dumps(told))
        cluster = KubernetesCluster(image="spark", kubeconfig=str(path), namespace="nowhere")
        (line,) = cluster.conditions([])
        assert line.text.startswith("there is no namespace nowhere at https://")
        assert str(line.cure).startswith("kubectl create namespace nowhere, and apply")
        # So does a start.
        with pytest.raises(ClusterError, match="not found: kubectl create namespace nowhere"):
            submit(cluster, stream("lost"))
