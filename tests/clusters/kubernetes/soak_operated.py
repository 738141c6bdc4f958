"""What operators do to drivers, and what is told of it: against their stand-in
(dev/kubernetes/operators), in both spellings."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dagster_sparkscale import SparkApplicationCluster
from dagster_sparkscale.clusters import spark_cluster
from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.kubernetes import application_driver, applications, names
from dagster_sparkscale.declare.streams import StructuredStream
from dev.kubernetes.operators.standin import Operator
from dev.kubernetes.running import Cluster
from tests.clusters.kubernetes.operated import applications as all_of
from tests.clusters.kubernetes.operated import operated, path_of
from tests.clusters.kubernetes.test_operated import lives
from tests.clusters.running import newest, see_ended, see_to, status, stop, stream, submit
from tests.kubernetes import phase
from tests.waiting import HANGS, wait_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark]
BOTH = pytest.mark.parametrize("operator", ["kubeflow", "apache"])


def seen(cluster: SparkApplicationCluster, name: str, state: DriverState) -> Driver:
    found = wait_for(
        f"{name} to be {state.value}",
        lambda: (driver := newest(cluster, name)).state is state and driver,
        about=lambda: str(newest(cluster, name)),
    )
    assert found
    return found


@contextmanager
def running(
    kubernetes: Cluster, what: str, operator: str, declared: StructuredStream | None = None
) -> Iterator[tuple[SparkApplicationCluster, str, Operator]]:
    """As `operated`, with a stream that runs; one named clicks if none is declared."""
    with operated(kubernetes, what, operator) as (cluster, space, stand_in):
        see_to(cluster, declared or stream("clicks"))
        yield cluster, space, stand_in


def test_a_stream_is_started_rescaled_and_stopped_by_apaches(kubernetes: Cluster) -> None:
    lives(kubernetes, "apache")


@BOTH
def test_an_operator_that_is_down_makes_no_driver_of_a_start_that_was_given_up(
    kubernetes: Cluster, operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_cluster, "ANNOUNCE_SECONDS", 3.0)
    monkeypatch.setattr(applications, "TAKEN_UP_WITHIN", 1.0)
    monkeypatch.setattr(application_driver, "LET_GO_SECONDS", 1.0)
    with operated(kubernetes, "down", operator, watched=False) as (cluster, space, stand_in):
        submit(cluster, stream("clicks"))
        driver = newest(cluster, "clicks")
        assert driver.state is DriverState.STARTING
        assert "no operator has taken its SparkApplication up" in str(driver.where)
        glanced = cluster.snapshot().find("clicks")
        assert glanced is not None and glanced.state is DriverState.STARTING
        (made,) = all_of(kubernetes, space, operator)
        # Gracefully, and yet at once: there is nothing to finish.
        assert stop(cluster, "clicks", timeout=10 * HANGS).state is DriverState.STOPPED
        assert all_of(kubernetes, space, operator) == []

        # It was held up in the middle, and submits what it had read before.
        assert stand_in.submit({"apiVersion": made["apiVersion"], **made}) == ""
        pods = f"/api/v1/namespaces/{space}/pods"
        stale = names.of_epoch("clicks", 1)
        wait_for("it to be collected", lambda: kubernetes.api.get(f"{pods}/{stale}") is None)
        stand_in.start()
        monkeypatch.setattr(spark_cluster, "ANNOUNCE_SECONDS", HANGS)
        assert submit(cluster, stream("clicks")).epoch == 2
        assert status(cluster, "clicks")
        drivers = kubernetes.api.items(f"{pods}?labelSelector={names.STREAM},spark-role=driver")
        assert [phase(each) for each in drivers] == ["Running"]
        see_ended(cluster, "clicks")


@BOTH
def test_a_submission_that_is_refused_is_told(kubernetes: Cluster, operator: str) -> None:
    with operated(kubernetes, "refused", operator) as (cluster, _, _):
        refused = stream("clicks", spark_conf={"spark.kubernetes.driver.limit.cores": "100m"})
        with pytest.raises(Exception, match=r"(FAILED|SchedulingFailure): .*must be less than"):
            submit(cluster, refused)
        driver = newest(cluster, "clicks")
        assert driver.state is DriverState.FAILED
        assert "must be less than or equal to cpu limit" in str(driver.exit_reason)


@BOTH
def test_a_driver_that_its_operator_starts_again_ends_itself(
    kubernetes: Cluster, operator: str, tmp_path: Path
) -> None:
    with running(kubernetes, "again", operator, kept(tmp_path)) as (cluster, space, stand_in):
        stand_in.restarts = 1
        kubernetes.kill(kubernetes.pod(space, names.of_epoch("clicks", 1)))
        wait_for("it to be started again", lambda: stand_in.submissions == 2)
        _told_and_followed(cluster, stand_in, kept(tmp_path))


def test_one_whose_application_is_edited_likewise(kubernetes: Cluster, tmp_path: Path) -> None:
    with running(kubernetes, "edited", "kubeflow", kept(tmp_path)) as (cluster, space, stand_in):
        path = path_of(space, "kubeflow", "clicks", 1)
        kubernetes.api.patch(path, {"spec": {"executor": {"instances": 7}}})
        wait_for("it to be started again", lambda: stand_in.submissions == 2)
        _told_and_followed(cluster, stand_in, kept(tmp_path))


def kept(folder: Path) -> StructuredStream:
    """A stream that declares its checkpoint."""
    return stream("clicks", checkpoint_location=str(folder / "checkpoint"))


def _told_and_followed(
    cluster: SparkApplicationCluster, stand_in: Operator, declared: StructuredStream
) -> None:
    def over() -> bool:
        driver = newest(cluster, "clicks")
        return driver.state is DriverState.FAILED and "exit code 76" in str(driver.exit_reason)

    wait_for("it to have ended itself", over, about=lambda: str(newest(cluster, "clicks")))
    driver = newest(cluster, "clicks")
    assert "this start has begun, or was ended, before" in str(driver.exit_reason)
    # Recovery goes on: no other stream has its checkpoint.
    assert not driver.fenced and cluster.took("clicks", 1)
    assert "Somebody, such as an operator" in cluster.logs(driver)
    # The mark of the first process of epoch 1 is in the checkpoint.
    assert submit(cluster, declared).epoch == 2
    assert stand_in.submissions == 3
    see_ended(cluster, "clicks")


@BOTH
def test_a_submission_made_twice_leaves_the_driver_alone(
    kubernetes: Cluster, operator: str
) -> None:
    with running(kubernetes, "twice", operator) as (cluster, space, stand_in):
        (made,) = all_of(kubernetes, space, operator)
        failure = stand_in.submit({"apiVersion": made["apiVersion"], **made})
        assert "already exists" in failure
        assert newest(cluster, "clicks").state is DriverState.RUNNING
        see_ended(cluster, "clicks")


@BOTH
def test_a_driver_that_was_killed_and_one_that_is_killed(
    kubernetes: Cluster, operator: str
) -> None:
    with running(kubernetes, "killed", operator) as (cluster, space, _):
        kubernetes.kill(kubernetes.pod(space, names.of_epoch("clicks", 1)))
        assert seen(cluster, "clicks", DriverState.FAILED).exit_reason == "killed by signal 9"
        see_to(cluster, stream("clicks"))
        assert newest(cluster, "clicks").epoch == 2
        stopped = stop(cluster, "clicks", graceful=True, timeout=0.0)
        assert stopped.state is DriverState.STOPPED
        # With the pod, for else its operator might make another.
        left = [each["metadata"]["name"] for each in all_of(kubernetes, space, operator)]
        assert names.of_epoch("clicks", 2) not in left
        assert "sparkscale" in cluster.logs(stopped)
