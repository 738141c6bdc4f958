"""The part of the contract that is common to clusters whose drivers are processes of this host."""

import json
from pathlib import Path
from typing import Any

from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.clusters.host import processes
from dagster_sparkscale.clusters.host.cluster import HostedCluster
from tests.clusters.contract import ClusterContract
from tests.clusters.running import kill
from tests.files import below


def note(cluster: HostedCluster, driver: Driver, name: str) -> dict[str, Any]:
    """A file of the driver's submission."""
    folder = cluster.store().folder(driver.stream).submission(driver.epoch)
    content: dict[str, Any] = json.loads((folder.path / name).read_text())
    return content


class ClientModeContract(ClusterContract):
    def kill_driver(self, cluster: HostedCluster, driver: Driver) -> None:
        kill(note(cluster, driver, "driver.json")["pid"])

    def nothing_left(self, cluster: HostedCluster, name: str, epoch: int) -> bool:
        record = cluster.store().read(name)
        assert record is not None
        return not processes.marked(processes.marker(name, epoch, record.id))

    def tokens(self, cluster: HostedCluster) -> list[str]:
        """Those of the agents, and the keys of their certificates: each line by itself, as the
        whole would not be found where its ends of lines are written otherwise."""
        folder = Path(cluster.state_dir)
        tokens = [path.read_text().strip() for path in below(folder, "token")]
        keys = [path.read_text().splitlines()[1:-1] for path in below(folder, "agent.key")]
        return [*tokens, *(line for lines in keys for line in lines)]

    def folders(self, cluster: HostedCluster) -> list[Path]:
        return [Path(cluster.state_dir)]
