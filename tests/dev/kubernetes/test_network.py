"""The addresses of a cluster on this machine."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.kubernetes.network import Network, open_network
from tests.kubernetes import on_linux_as_root

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(not on_linux_as_root(), reason="only root may make a bridge"),
]


@pytest.fixture
def network() -> Iterator[Network]:
    made = open_network()
    yield made
    made.close()


def known_by(bridge: str) -> str:
    return Path(f"/sys/class/net/{bridge}/address").read_text().strip()


def test_the_api_server_stays_where_pods_have_found_it(network: Network) -> None:
    """What has the lowest address of the bridge's interfaces comes and goes."""
    before = known_by(network.bridge)
    name = f"{network.bridge}x"
    for words in (
        f"link add {name} address 02:00:00:00:00:01 type veth peer name {name}p",
        f"link set {name} master {network.bridge} up",
    ):
        subprocess.run(["ip", *words.split()], check=True)
    try:
        assert known_by(network.bridge) == before
    finally:
        subprocess.run(["ip", "link", "delete", name], check=True)
    assert known_by(network.bridge) == before


def test_a_pod_that_gets_the_address_of_another_is_known_by_the_same(network: Network) -> None:
    first = network.inside("one")
    network.give_back("one")
    assert network.inside("two") == first
    assert network.address("three") != network.address("two")
    assert network.inside("three") != first
