"""LocalCluster, where no cluster was started: what is refused before one would be."""

from pathlib import Path

import pytest

from dagster_sparkscale.clusters import local
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.local import LocalCluster
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.lifecycle.reconcile import reconcile
from tests.clusters.running import stream


def test_the_command_names_the_folder_in_which_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert local.main(["status", "--state-dir", str(tmp_path)]) == 0
    said = f"state folder {tmp_path}: no cluster has been started there.\n"
    assert capsys.readouterr().out == said


def test_a_program_that_does_not_exist_starts_no_cluster(tmp_path: Path) -> None:
    cluster = LocalCluster(state_dir=str(tmp_path))
    with pytest.raises(ClusterError, match=r"^nothing: program = '/nowhere/a\.py': there is no"):
        reconcile(cluster, stream("nothing", program="/nowhere/a.py"), Requester("start run 1"))
    assert not (tmp_path / "cluster").exists()


def test_a_stream_that_names_a_spark_too_old_for_it_starts_no_cluster(tmp_path: Path) -> None:
    old = tmp_path / "spark-3.4.1"
    (old / "jars").mkdir(parents=True)
    (old / "jars/spark-core_2.12-3.4.1.jar").touch()
    cluster = LocalCluster(state_dir=str(tmp_path))
    with pytest.raises(ClusterError, match=r"needs Spark 3\.5 or newer; this is Spark 3\.4\.1, in"):
        reconcile(cluster, stream("old", env={"SPARK_HOME": str(old)}), Requester("start run 1"))
    assert not (tmp_path / "cluster").exists()
