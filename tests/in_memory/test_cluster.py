"""The cluster in memory keeps the contract, as far as that needs no process."""

from collections.abc import Iterator

import pytest

from dagster_sparkscale.clusters.base import Driver
from tests.clusters.base_contract import BaseContract
from tests.in_memory.cluster import MemoryCluster, World


class TestMemoryCluster(BaseContract):
    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls) -> Iterator[MemoryCluster]:
        yield World().cluster

    def kill_driver(self, cluster: MemoryCluster, driver: Driver) -> None:
        cluster._world.end(driver.stream, exit_reason="killed by signal 9")

    def nothing_left(self, cluster: MemoryCluster, name: str, epoch: int) -> bool:
        newest = cluster.find(name)
        return newest is None or newest.epoch != epoch or not newest.state.alive
