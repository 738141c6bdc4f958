"""Receivers on a real cluster, by tracked runs: moved by hand, balanced, and one more of them. The
source knows what was taken of it, and none of that is lost."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from dagster_sparkscale import ClusterManager, DStream, RatioPolicy, ReceiverCount, ReceiverPolicy
from dagster_sparkscale.driver.settings import WRITE_AHEAD_LOG
from dagster_sparkscale.observe.receivers import active
from dagster_sparkscale.observe.status import Status
from tests.driver.acking import Source, jar_of_the_receiver
from tests.e2e.deployment import PROGRAMS, Deployment, deployed, failure, told
from tests.waiting import wait_for

pytestmark = pytest.mark.spark


def receiving(folder: Path, port: int, name: str = "receiving", executors: int = 3) -> DStream:
    """Two receivers, and there may be three. One executor has cores for all of them: Spark places
    receivers on those that have come by then, on a busy machine on the first, and on no other."""
    (folder / "out").mkdir(exist_ok=True)
    pause(folder, 0)
    base = str(folder / "checkpoint")
    return DStream(
        name=name,
        program=str(PROGRAMS / "receiving.py"),
        arguments=(str(port), str(folder / "out"), base),
        batch_interval="1s",
        executor_cores=3,
        executor_memory="512m",
        driver_memory="512m",
        checkpoint_location=base,
        receivers=2,
        receiver_policy=ReceiverPolicy(
            removal="fitting", count=ReceiverCount(maximum=3, drain=300.0)
        ),
        autoscale=RatioPolicy(interval=10, min_executors=executors, max_executors=executors),
        spark_conf={WRITE_AHEAD_LOG: "true", "spark.jars": str(jar_of_the_receiver())},
    )


def pause(folder: Path, seconds: float) -> None:
    """Have each batch take so long."""
    (folder / "out" / "pause.new").write_text(str(seconds))
    (folder / "out" / "pause.new").replace(folder / "out" / "pause")


def seen(d: Deployment) -> Status:
    status = d.status()
    assert status is not None
    return status


def log_of(d: Deployment) -> Callable[[], str]:
    return lambda: d.cluster.logs(d.driver(), 40)


def runs(d: Deployment, receivers: int) -> None:
    """So many receivers run, and all executors are there."""
    assert d.stream.autoscale is not None
    executors = d.stream.autoscale.max_executors

    def has() -> bool:
        status = d.status()
        return status is not None and active(status) == receivers and status.registered == executors

    wait_for(f"{receivers} receivers", has, about=log_of(d))


def taken(d: Deployment, source: Source) -> None:
    """More of the source is taken."""
    before = len(source.acknowledged)
    wait_for("more is taken", lambda: len(source.acknowledged) > before + 100, about=log_of(d))


def processed(folder: Path) -> set[int]:
    files = (folder / "out").glob("*[0-9]")
    return {int(line) for file in files for line in file.read_text().split()}


@pytest.mark.parametrize("executors", [2, pytest.param(3, marks=pytest.mark.clusters)])
def test_receivers_are_moved_balanced_and_counted_and_nothing_is_lost(
    local_cluster: ClusterManager, tmp_path: Path, executors: int
) -> None:
    none = [0] * (executors - 2)
    with contextlib.closing(Source()) as source:
        stream = receiving(tmp_path, source.port, f"receiving_on_{executors}", executors)
        with deployed(local_cluster, stream, tmp_path) as d:
            told(d.materialize())
            runs(d, 2)
            taken(d, source)

            # Both on one executor, by hand; and balanced again.
            first, second = seen(d).receivers or ()
            if first.executor != second.executor:
                story = told(d.run("rebalance_receivers", receiver=0, executor=second.executor))
                assert (story["ending"], story["spread_after"]) == ("moved", str([2, 0, *none]))
                [move] = story["moves"]
                assert (move["receiver"], move["to_executor"]) == (0, second.executor)
                assert move["away_seconds"] > 0
            story = told(d.run("rebalance_receivers"))
            assert (story["ending"], story["receivers_after"]) == ("moved", 2)
            assert (story["spread_before"], story["spread_after"]) == (
                *(str([2, 0, *none]), str([1, 1, *none])),
            )
            assert told(d.run("rebalance_receivers"))["ending"] == "balanced"
            taken(d, source)

            # One more of them.
            story = told(d.run("set_receivers", receivers=3))
            assert (story["ending"], story["receivers_after"], story["generation"]) == (
                *("changed", 3, 1),
            )
            assert story["driver_before_ended"].startswith("the program has ended by itself")
            assert (tmp_path / "checkpoint" / "receivers-1").is_dir()
            assert d.driver().epoch == 2
            runs(d, 3)
            taken(d, source)
            all_is_processed(d, source)


@pytest.mark.clusters
def test_a_number_of_receivers_that_can_t_be_drained_in_time_stays_as_it_is(
    local_cluster: ClusterManager, tmp_path: Path
) -> None:
    """And the stream has what they had received."""
    with contextlib.closing(Source()) as source:
        stream = receiving(tmp_path, source.port, "hurried")
        with deployed(local_cluster, stream, tmp_path) as d:
            told(d.materialize())
            told(d.run("set_receivers", receivers=3))
            runs(d, 3)
            taken(d, source)
            pause(tmp_path, 20)
            taken(d, source)
            (tmp_path / "hurried").mkdir()
            in_haste = receiving_again(stream, drain=2.0)
            hurried = Deployment(local_cluster, in_haste, tmp_path / "hurried")
            why = failure(hurried.run("set_receivers", receivers=2))
            assert "the number of receivers was not changed: driver 2 had 2 s to process" in why
            assert "Driver 3 was started with 3 receivers as before" in why
            pause(tmp_path, 0)
            runs(d, 3)
            taken(d, source)
            all_is_processed(d, source)


def all_is_processed(d: Deployment, source: Source) -> None:
    """Once the stream has stopped, all that the source knows was taken has been processed."""
    source.end()
    wait_for("all is taken", lambda: source.all_taken, about=log_of(d))
    story = told(d.run("stop"))
    assert story["ending"].startswith("the program has ended by itself")
    assert source.acknowledged - processed(d.folder) == set()


def receiving_again(stream: DStream, drain: float) -> DStream:
    """The same stream with another time to drain."""
    assert stream.receiver_policy is not None and stream.receiver_policy.count is not None
    count = stream.receiver_policy.count.model_copy(update={"drain": drain})
    policy = stream.receiver_policy.model_copy(update={"count": count})
    return stream.model_copy(update={"receiver_policy": policy})
