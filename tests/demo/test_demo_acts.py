"""What the demo does to its streams, and when."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from dagster_sparkscale.declare.receivers import ReceiverPolicy
from dagster_sparkscale.driver.wire import Receiver
from demo.acts import RECEIVING, RUNS, STATEFUL, Acts
from demo.report import Report, Run, Tick
from tests.fakes import dstream, structured
from tests.in_memory.cluster import World


def scaled(stream: str, executors: int = 2, requested: int = 2) -> Report:
    """A stream that was scaled up and down, and now has so many executors."""
    return Report(
        ticks=[Tick(stream, 120.0, 0.2, "hold", executors, requested)],
        runs=[
            Run("a", "rescale", stream, "SUCCESS", 100.0, 6.1, before=1, after=3),
            Run("b", "rescale", stream, "SUCCESS", 110.0, 2.0, before=3, after=1),
        ],
    )


@pytest.fixture
def world() -> World:
    world = World()
    world.run(structured(STATEFUL))
    world.run(dstream(RECEIVING, receivers=2, executor_cores=2, receiver_policy=ReceiverPolicy()))
    return world


@pytest.fixture
def executor(world: World) -> Iterator["subprocess.Popen[bytes]"]:
    """A process whose command line is as that of executor 0 of the stream with receivers."""
    app = str(world.streams[RECEIVING].driver.app_id)
    words = ["--executor-id", "0", "--hostname", "h", "--app-id", app]
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)", *words],
    )
    yield process
    process.kill()
    process.wait()


def acts(
    world: World, launched: list[Any], *processes: psutil.Process, patience: float = 1
) -> Acts:
    def launch(job: str, config: dict[str, Any]) -> str:
        launched.append((job, config["ops"][job]["config"]["stream"]))
        return "0123456789"

    return Acts(world.cluster, launch, 2, lambda: list(processes), patience)


def test_the_state_is_changed_once_the_stream_rests_after_it_was_scaled(world: World) -> None:
    launched: list[Any] = []
    demo = acts(world, launched)
    for report in (Report(), scaled(STATEFUL, executors=3), scaled(STATEFUL)):
        assert launched == []
        said = list(demo.next(report, since=0.0))
    assert launched == [("reconfigure_state", STATEFUL)]
    assert said == ["clicks: its state gets 4 partitions, without being lost: run 01234567"]
    # The run may not have begun yet.
    assert list(demo.next(scaled(STATEFUL), since=0.0)) == []


@pytest.mark.parametrize("changed", [True, False])
def test_it_is_tried_again_until_something_has_changed(world: World, changed: bool) -> None:
    launched: list[Any] = []
    demo = acts(world, launched, patience=0)
    list(demo.next(scaled(STATEFUL), since=0.0))
    report = scaled(STATEFUL)
    change = "2 -> 4 partitions" if changed else None
    run = Run("c", RUNS[STATEFUL], STATEFUL, "SUCCESS", 130.0, 30.0, change=change)
    report.runs.append(run)
    list(demo.next(report, since=0.0))
    assert len(launched) == (1 if changed else 2)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_state_is_changed_on_any_number_of_executors(world: World, number: int) -> None:
    launched: list[Any] = []
    list(acts(world, launched).next(scaled(STATEFUL, number, number), since=0.0))
    assert launched == [("reconfigure_state", STATEFUL)]


@pytest.mark.parametrize("places", [("0", "1"), ("0", "0"), ("0", None)])
def test_an_executor_is_killed_only_where_its_receiver_has_another_to_go_to(
    world: World, executor: "subprocess.Popen[bytes]", places: tuple[str | None, ...]
) -> None:
    world.streams[RECEIVING].receivers = tuple(
        Receiver(number, executor=place) for number, place in enumerate(places)
    )
    ours, other = psutil.Process(executor.pid), psutil.Process()
    said = list(acts(world, [], other, ours).next(scaled(RECEIVING), since=0.0))
    killed = places == ("0", "1")
    assert [line.startswith("orders: executor 0 is killed") for line in said] == [True] * killed
    assert (executor.wait(60) != 0) if killed else executor.poll() is None
