"""The manifests of deploy/kubernetes and the sample beside them speak of the same things, and of
those that the code makes."""

import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

from dagster_sparkscale import KubernetesCluster, StructuredStream
from dagster_sparkscale.clusters.kubernetes import checkpoints, names
from dagster_sparkscale.clusters.kubernetes.manifests import DRIVER, EXECUTOR
from dagster_sparkscale.clusters.kubernetes.spark import (
    AGENT_PORT,
    BLOCKS_PORT,
    DRIVER_PORT,
)

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
OURS = {names.MANAGED: names.MANAGER}


def objects(name: str) -> dict[str, Any]:
    """By name."""
    found = yaml.safe_load_all((DEPLOY / name).read_text())
    return {each["metadata"]["name"]: each for each in found}


@pytest.fixture(scope="module")
def sample() -> tuple[KubernetesCluster, StructuredStream]:
    found = runpy.run_path(str(DEPLOY / "app" / "definitions.py"))
    return found["cluster"], found["ticks"]


def ports(rule: dict[str, Any]) -> set[int]:
    return {each["port"] for each in rule["ports"]}


def test_the_network_lets_in_what_a_driver_and_its_executors_need(
    sample: tuple[KubernetesCluster, StructuredStream],
) -> None:
    found = objects("network.yaml")
    drivers, executors = (found[f"sparkscale-{name}"]["spec"] for name in ("drivers", "executors"))
    assert drivers["podSelector"]["matchLabels"] == OURS | DRIVER
    assert executors["podSelector"]["matchLabels"] == OURS | EXECUTOR
    agent, spark = drivers["ingress"]
    assert ports(agent) == {AGENT_PORT}
    [dagster] = agent["from"]
    [binding] = [each for each in objects("dagster.yaml").values() if "subjects" in each]
    space = binding["subjects"][0]["namespace"]
    assert dagster["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": space}
    assert ports(spark) == {DRIVER_PORT, BLOCKS_PORT}
    assert spark["from"] == [{"podSelector": executors["podSelector"]}]
    [blocks] = executors["ingress"]
    assert blocks["from"] == [{"podSelector": {"matchLabels": OURS}}]
    assert ports(blocks) == {int(sample[0].spark_conf["spark.blockManager.port"])}


def test_what_is_let_in_is_let_out() -> None:
    found = objects("network.yaml")
    out = found["sparkscale-egress"]["spec"]
    assert out["podSelector"]["matchLabels"] == OURS
    [among] = [
        each for each in out["egress"] if each["to"] == [{"podSelector": out["podSelector"]}]
    ]
    let_in = set()
    for name in ("sparkscale-drivers", "sparkscale-executors"):
        let_in |= set().union(*map(ports, found[name]["spec"]["ingress"]))
    assert ports(among) == let_in - {AGENT_PORT}


def test_only_drivers_are_kept_from_being_evicted() -> None:
    [budget] = objects("disruption.yaml").values()
    assert budget["spec"]["selector"]["matchLabels"] == OURS | DRIVER
    # Of bare pods Kubernetes counts no share: a number, and of those that stay.
    assert isinstance(budget["spec"]["minAvailable"], int)


def test_what_the_sample_names_is_made(
    sample: tuple[KubernetesCluster, StructuredStream],
) -> None:
    cluster, ticks = sample
    assert cluster.service_account in objects("driver.yaml")
    assert cluster.executor_service_account in objects("executor.yaml")
    made = {
        "sparkscale-driver": cluster.driver_template,
        "sparkscale-executor": cluster.executor_template,
    }
    assert set(objects("priority.yaml")) == set(made)
    for priority, template in made.items():
        spec = template["spec"]
        assert spec["priorityClassName"] == priority
        [volume] = spec["volumes"]
        assert volume["persistentVolumeClaim"]["claimName"] in objects("checkpoints.yaml")
    assert list(checkpoints.conditions([ticks], cluster.driver_template, {}, cluster.image)) == []


def test_a_driver_makes_way_for_no_executor() -> None:
    found = objects("priority.yaml")
    assert found["sparkscale-driver"]["value"] > found["sparkscale-executor"]["value"]
    assert found["sparkscale-executor"]["preemptionPolicy"] == "Never"


def test_executors_may_do_nothing() -> None:
    [account] = objects("executor.yaml").values()
    assert account["automountServiceAccountToken"] is False
    subjects = [
        subject["name"]
        for path in DEPLOY.glob("*.yaml")
        if path.name != "values.yaml"
        for each in objects(path.name).values()
        for subject in each.get("subjects") or []
    ]
    assert subjects and account["metadata"]["name"] not in subjects
