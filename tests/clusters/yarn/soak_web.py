"""A real YARN whose web services speak HTTPS alone, and whose web proxy is a server of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.yarn.snapshot import take_snapshot
from dev.yarn.rig import Rig
from tests.clusters.running import newest, see_to, stop, stream, submit
from tests.clusters.yarn.cluster_mode import cluster_on
from tests.clusters.yarn.conftest import INHERITED
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.yarn]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("web") / "rig"
    with Rig(folder, passed=INHERITED, https=True, proxy=True) as rig:
        yield rig


def test_a_driver_is_found_its_log_read_and_its_end_believed(rig: Rig, tmp_path: Path) -> None:
    address = rig.address
    managers = [address.url]
    cluster = cluster_on(
        address, tmp_path / "state", ca_file=address.ca_file, resource_managers=managers
    )
    see_to(cluster, stream("clicks", "rate.py"))
    driver = newest(cluster, "clicks")
    assert driver.ui_url == f"{address.proxy}/proxy/{driver.app_id}/"
    assert wait_for("its log", lambda: cluster.logs(driver))
    assert cluster.capacity() is not None
    listed = take_snapshot(cluster._manager(), "SPARK").listed
    assert {each.id for found in listed.values() for each in found} == {driver.app_id}
    # A proxy that is down keeps nobody from a driver that is known.
    rig.kill_proxy()
    assert newest(cluster, "clicks").state is DriverState.RUNNING
    assert stop(cluster, "clicks").state is DriverState.STOPPED

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dagster_sparkscale.clusters.spark_cluster.ANNOUNCE_SECONDS", 0.0)
        submit(cluster, stream("hidden", "rate.py"))
    said = wait_for(
        "it to be said why",
        lambda: (d := newest(cluster, "hidden")).where.count("can't be told yet") and d,
    )
    assert said and said.state is DriverState.STARTING and str(address.proxy) in said.where
    assert stop(cluster, "hidden", graceful=False).state is DriverState.STOPPED

    tagged = cluster_on(
        address,
        tmp_path / "tagged",
        ca_file=address.ca_file,
        resource_managers=managers,
        tags=[f"tag-{number}" for number in range(9)],
    )
    with pytest.raises(ClusterError, match=r"(?s)did not take .*Too many applicationTags"):
        submit(tagged, stream("many"))

    unsure = cluster_on(address, tmp_path / "other", resource_managers=managers)
    with pytest.raises(ClusterError, match="CERTIFICATE_VERIFY_FAILED"):
        submit(unsure, stream("clicks"))
