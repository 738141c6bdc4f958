"""A real Standalone cluster with real drivers on it; the real server and limits without one."""

import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.local import LocalCluster
from dagster_sparkscale.driver.agent import Agent
from dagster_sparkscale.driver.backpressure.rates import Rates
from dagster_sparkscale.driver.server import Server
from dagster_sparkscale.driver.settings import RATES_FILE
from tests.driver.running import Cluster
from tests.driver.serving import agent_of, client_of, options, serving

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def cluster(local_cluster: LocalCluster) -> Cluster:
    return Cluster(local_cluster)


@pytest.fixture
def stops() -> list[tuple[bool, float]]:
    """What `server` was asked to stop: whether gracefully, and within how many seconds."""
    return []


@pytest.fixture
def agent() -> Agent:
    return agent_of(options())


@pytest.fixture
def server(agent: Agent, stops: list[tuple[bool, float]]) -> Iterator[Server]:
    with serving(agent, lambda graceful, s: stops.append((graceful, s))) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[http.client.HTTPConnection]:
    connection = client_of(server)
    yield connection
    connection.close()


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rates]:
    """Live limits of a driver that has just begun, with their file."""
    monkeypatch.setenv(RATES_FILE, "of-another-driver")
    made = Rates.prepare()
    yield made
    made.close()
