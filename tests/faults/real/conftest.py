"""A proxy that damages connections, and what runs behind it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_sparkscale import LocalCluster
from dev.kubernetes.running import Cluster
from dev.toxiproxy.proxy import Toxiproxy
from tests.faults.real import agent_link, kafka_link, kinesis_link, manager_links


@pytest.fixture(scope="session")
def toxiproxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toxiproxy]:
    with Toxiproxy(tmp_path_factory.mktemp("toxiproxy")) as running:
        yield running


@pytest.fixture(scope="module")
def steered(
    local_cluster: LocalCluster, toxiproxy: Toxiproxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[agent_link.Steered]:
    """One stream, whose agent is reached over a link."""
    folder: Path = tmp_path_factory.mktemp("steered")
    with agent_link.steered(local_cluster, folder, toxiproxy) as running:
        yield running


@pytest.fixture(scope="module")
def linked(
    toxiproxy: Toxiproxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[kafka_link.Linked]:
    """A broker, and a link to it."""
    with kafka_link.linked(tmp_path_factory.mktemp("kafka"), toxiproxy) as running:
        yield running


@pytest.fixture(scope="module")
def linked_kinesis(
    toxiproxy: Toxiproxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[kinesis_link.Linked]:
    """An emulator of Kinesis, and a link to it."""
    with kinesis_link.linked(tmp_path_factory.mktemp("kinesis"), toxiproxy) as running:
        yield running


@pytest.fixture(scope="module")
def linked_to_kubernetes(
    kubernetes: Cluster, toxiproxy: Toxiproxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[manager_links.Linked]:
    folder = tmp_path_factory.mktemp("links")
    with manager_links.linked_to_kubernetes(kubernetes, folder, toxiproxy) as running:
        yield running


@pytest.fixture(scope="module")
def linked_to_a_master(
    toxiproxy: Toxiproxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[manager_links.Linked]:
    with manager_links.linked_to_a_master(tmp_path_factory.mktemp("up"), toxiproxy) as running:
        yield running


@pytest.fixture(scope="module")
def linked_to_yarn(
    toxiproxy: Toxiproxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[manager_links.Linked]:
    with manager_links.linked_to_yarn(tmp_path_factory.mktemp("yarn"), toxiproxy) as running:
        yield running
