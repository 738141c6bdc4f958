"""The minutes that wait in the cursors of sensors, also after the number of shards has changed."""

import time

import dagster as dg
import pytest
from dagster_shared.cli import WorkspaceOpts

from dagster_sparkscale.cli.dagster_side import last_tick, pending_minutes
from dagster_sparkscale.cli.locations import Deployed, Target
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.watch.memory import Memory
from tests.cli.daemon import tick
from tests.cli.terminal import Terminal

NOW = int(time.time())


def deployed(terminal: Terminal, shards: int) -> Deployed:
    terminal.declare(more=f", shards={shards}")
    (found,) = Target(WorkspaceOpts(python_file=("definitions.py",))).load()
    return found


def cursor(at: int, *streams: str) -> str:
    """That of a sensor which has seen these streams in two minutes, the later one at `at`."""
    memory = Memory()
    for name in streams:
        for each in (at - 60, at):
            memory.of(name).add(Minute(each, "running", epoch=1))
    return memory.dump(streams)


def pending(terminal: Terminal, shards: int) -> dict[str, list[int]]:
    with dg.DagsterInstance.get() as instance:
        found = pending_minutes(instance, deployed(terminal, shards))
    return {name: [minute.at - NOW for minute in minutes] for name, minutes in found.items()}


@pytest.mark.parametrize("shards", [1, 3])
def test_those_of_a_sensor_that_is_no_more(terminal: Terminal, shards: int) -> None:
    tick(cursor=cursor(NOW, "clicks"))
    tick(sensor="autoscaler_shard_3", cursor=cursor(NOW - 5, "orders"))
    tick(sensor="autoscaler_other", cursor=cursor(NOW, "of_another_cluster"))
    assert pending(terminal, shards) == {"clicks": [-60, 0], "orders": [-65, -5]}


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("newer", ["autoscaler", "autoscaler_shard_2"])
def test_of_what_two_sensors_remember_it_is_the_later(
    terminal: Terminal, newer: str, shards: int
) -> None:
    (older,) = {"autoscaler", "autoscaler_shard_2"} - {newer}
    tick(sensor=older, cursor=cursor(NOW - 600, "clicks"))
    tick(sensor=newer, cursor=cursor(NOW, "clicks"))
    assert pending(terminal, shards) == {"clicks": [-60, 0]}


def test_a_tick_that_failed_is_none(terminal: Terminal) -> None:
    now = time.time()
    tick(ago=600.0)
    for ago in (120.0, 60.0):
        tick(ago=ago, error="the state folder is gone")
    with dg.DagsterInstance.get() as instance:
        at = last_tick(instance, deployed(terminal, 1))
    assert at is not None and now - 1200 < at < time.time() - 300


@pytest.mark.parametrize(("shards", "ago"), [(1, 20_000.0), (2, 900_000.0), (3, None)])
def test_when_it_last_ticked_is_told_of_the_sensors_that_there_are(
    terminal: Terminal, shards: int, ago: float | None
) -> None:
    tick(ago=20_000.0)
    tick(ago=900_000.0, sensor="autoscaler_shard_2")
    with dg.DagsterInstance.get() as instance:
        at = last_tick(instance, deployed(terminal, shards))
    if ago is None:
        assert at is None
    else:
        assert at is not None and NOW - 2 * ago < at < NOW - ago / 2
