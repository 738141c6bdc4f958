"""Spark itself on the Kubernetes cluster that tests run on: its own scheduler backend asks the API
server for executors, and they come."""

from collections.abc import Iterator

import pytest

from dev.kubernetes.running import Cluster
from tests.kubernetes import create, ended, logs, namespace, phase, pod, see, state
from tests.waiting import wait_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark]

PROGRAM = """
import os, sys, time
from pyspark.sql import SparkSession

session = (
    SparkSession.builder.master("k8s://https://kubernetes.default.svc")
    .config("spark.kubernetes.namespace", os.environ["NAMESPACE"])
    .config("spark.kubernetes.container.image", "spark")
    .config("spark.kubernetes.driver.pod.name", os.environ["HOSTNAME"])
    .config("spark.kubernetes.executor.useDriverPodIP", "false")
    .config("spark.kubernetes.allocation.batch.delay", "200ms")
    .config("spark.driver.host", f"driver.{os.environ['NAMESPACE']}.svc")
    .config("spark.driver.bindAddress", "0.0.0.0")
    .config("spark.driver.port", "7078")
    .config("spark.blockManager.port", "7079")
    .config("spark.executor.instances", "2")
    .config("spark.executor.memory", "512m")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
while session.sparkContext._jsc.sc().getExecutorIds().size() < 2:
    time.sleep(0.2)
hosts = session.sparkContext.parallelize(range(8), 8).map(lambda _: os.uname().nodename).collect()
print("executors:", len(set(hosts)), "sum:", sum(range(8)), flush=True)
session.stop()
"""
ROLE = {
    "metadata": {"name": "driver"},
    "rules": [
        {"apiGroups": [""], "resources": ["pods", "configmaps", "services"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["*"]},
    ],
}
BINDING = {
    "metadata": {"name": "driver"},
    "subjects": [{"kind": "ServiceAccount", "name": "driver"}],
    "roleRef": {"kind": "Role", "name": "driver", "apiGroup": "rbac.authorization.k8s.io"},
}


@pytest.fixture
def space(kubernetes: Cluster) -> Iterator[str]:
    with namespace(kubernetes, "spark") as made:
        rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{made}"
        kubernetes.api.create(f"{rbac}/roles", ROLE)
        kubernetes.api.create(f"{rbac}/rolebindings", BINDING)
        create(kubernetes.api, made, "serviceaccounts", {"metadata": {"name": "driver"}})
        yield made


def test_a_driver_gets_executors_and_they_go_with_it(kubernetes: Cluster, space: str) -> None:
    api = kubernetes.api
    ports = [{"name": f"p{port}", "port": port} for port in (7078, 7079)]
    service = {"clusterIP": "None", "selector": {"app": "driver"}, "ports": ports}
    service |= {"publishNotReadyAddresses": True}
    create(api, space, "services", {"metadata": {"name": "driver"}, "spec": service})
    create(api, space, "configmaps", {"metadata": {"name": "code"}, "data": {"main.py": PROGRAM}})
    driver = pod(
        "driver",
        args=["python3", "/code/main.py"],
        env=[{"name": "NAMESPACE", "value": space}],
        labels={"app": "driver"},
        serviceAccountName="driver",
        volumes=[{"name": "code", "configMap": {"name": "code"}}],
        volumeMounts=[{"name": "code", "mountPath": "/code"}],
    )
    created = create(api, space, "pods", driver)
    path = f"/api/v1/namespaces/{space}/pods"

    def executors() -> list[str]:
        found = [p for p in api.items(path) if "spark-exec-id" in p["metadata"].get("labels", {})]
        assert all(p["metadata"]["ownerReferences"][0]["name"] == "driver" for p in found)
        return [p["metadata"]["name"] for p in found if "running" in state(p)]

    def came() -> bool:
        # They may have gone again between two looks.
        return len(executors()) == 2 or "executors: 2" in logs(api, space, "driver")

    wait_for("two executors", came, about=lambda: logs(api, space, "driver"))
    see(api, space, "driver", "ended", ended)
    said = logs(api, space, "driver")
    assert "executors: 2 sum: 28" in said, said
    assert phase(kubernetes.pod(space, "driver")) == "Succeeded", created
    wait_for("no executors", lambda: not executors())
