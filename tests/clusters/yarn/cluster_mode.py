"""What tests of drivers in ApplicationMasters have in common."""

import contextlib
import sys
from pathlib import Path
from typing import Any

import psutil

from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.clusters.yarn.cluster import YarnCluster
from dev.yarn.rig import Address
from tests.clusters.contract import ClusterContract
from tests.clusters.running import SECRET, kill
from tests.clusters.yarn.conftest import SMALL
from tests.files import below


def cluster_on(address: Address, state: Path, **fields: Any) -> YarnCluster:
    """A YarnCluster for that YARN."""
    given: dict[str, Any] = {
        "resource_managers": ["http://127.0.0.1:9", address.url],
        "hadoop_conf_dir": address.conf_dir,
        "python": sys.executable,
        "staging_dir": f"file://{address.folder}/staging",
        "state_dir": str(state),
        "spark_conf": SMALL,
        **fields,
    }
    return YarnCluster(**given)


def containers(app_id: str | None, driver: bool = False) -> list[psutil.Process]:
    """The processes in an application's containers; only the driver's JVM if asked for."""
    number = str(app_id).removeprefix("application_")
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            container = process.environ().get("CONTAINER_ID", "")
            ours = container.startswith("container_") and number in container
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                named = any("yarn.ApplicationMaster" in part for part in process.cmdline())
                if not driver or (named and process.name() == "java"):
                    found.append(process)
    return found


def no_secret_beside_logs(address: Address) -> bool:
    """Whether what the nodes show of their containers, scripts that start them too, holds none."""
    shown = [path for path in Path(address.folder).glob("node*/logs/**/*") if path.is_file()]
    assert any(path.name == "launch_container.sh" for path in shown)
    return not any(SECRET.encode() in path.read_bytes() for path in shown)


class ClusterModeContract(ClusterContract):
    def kill_driver(self, cluster: YarnCluster, driver: Driver) -> None:
        for process in containers(driver.app_id, driver=True):
            kill(process.pid)

    def nothing_left(self, cluster: YarnCluster, name: str, epoch: int) -> bool:
        record = cluster.store().read(name)
        assert record is not None
        tag = f"sparkscale-{record.id}-{epoch}"
        apps = cluster._manager().tagged(tag)
        return all(app.final and not containers(app.id) for app in apps)

    def tokens(self, cluster: YarnCluster) -> list[str]:
        return [path.read_text() for path in below(Path(cluster.state_dir), "token")]

    def folders(self, cluster: YarnCluster) -> list[Path]:
        return [Path(cluster.state_dir)]
