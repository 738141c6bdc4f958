"""Every damage to every connection."""

from pathlib import Path

import pytest

from dagster_sparkscale import LocalCluster
from tests.faults.real import agent_link, kafka_link, kinesis_link, manager_links
from tests.faults.real.links import Damage
from tests.faults.real.watched import Record

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("damage", Damage, ids=lambda damage: f"agent-link-{damage.value}")
def test_between_dagster_and_the_agent(
    steered: agent_link.Steered, damage: Damage, record_property: Record
) -> None:
    agent_link.play(steered, damage, record_property)


@pytest.mark.kafka
@pytest.mark.parametrize("damage", Damage, ids=lambda damage: f"kafka-link-{damage.value}")
def test_between_a_stream_and_its_broker(
    linked: kafka_link.Linked,
    damage: Damage,
    local_cluster: LocalCluster,
    tmp_path: Path,
    record_property: Record,
) -> None:
    kafka_link.play(linked, damage, local_cluster, tmp_path, record_property)


@pytest.mark.parametrize("damage", Damage, ids=lambda damage: f"kinesis-link-{damage.value}")
def test_between_a_stream_and_kinesis(
    linked_kinesis: kinesis_link.Linked,
    damage: Damage,
    local_cluster: LocalCluster,
    tmp_path: Path,
    record_property: Record,
) -> None:
    kinesis_link.play(linked_kinesis, damage, local_cluster, tmp_path, record_property)


@pytest.mark.kubernetes
@pytest.mark.parametrize("damage", Damage, ids=lambda damage: f"api-link-{damage.value}")
def test_between_dagster_and_the_api_server(
    linked_to_kubernetes: manager_links.Linked,
    damage: Damage,
    tmp_path: Path,
    record_property: Record,
) -> None:
    manager_links.play(linked_to_kubernetes, damage, tmp_path, record_property)


@pytest.mark.parametrize("damage", Damage, ids=lambda damage: f"master-link-{damage.value}")
def test_between_dagster_and_the_master(
    linked_to_a_master: manager_links.Linked,
    damage: Damage,
    tmp_path: Path,
    record_property: Record,
) -> None:
    manager_links.play(linked_to_a_master, damage, tmp_path, record_property)


@pytest.mark.yarn
@pytest.mark.parametrize("damage", Damage, ids=lambda damage: f"yarn-link-{damage.value}")
def test_between_dagster_and_yarn(
    linked_to_yarn: manager_links.Linked, damage: Damage, tmp_path: Path, record_property: Record
) -> None:
    manager_links.play(linked_to_yarn, damage, tmp_path, record_property)
