"""The number of shards changes, under Dagster's own daemon and code server: no stream is forgotten,
and none is remembered twice."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import SensorInstigatorData
from dagster._core.test_utils import create_test_daemon_workspace_context
from dagster._core.workspace.load_target import PythonFileTarget
from dagster._daemon.sensor import execute_sensor_iteration

from dagster_sparkscale.names import autoscaler
from dagster_sparkscale.observe.history import history
from dagster_sparkscale.watch.memory import Memory
from tests.waiting import wait_for
from tests.watch import sharded

HERE = Path(__file__).resolve()


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as made:
        yield made


def ticked(
    instance: dg.DagsterInstance, shards: int, monkeypatch: pytest.MonkeyPatch
) -> dict[str, set[int]]:
    """The minutes that are known of each stream, after all sensors have ticked three times in a
    code location that was loaded anew with so many shards: whoever gets a stream knows with the
    second tick that Dagster has stored it, and whoever had it forgets it with the third."""
    monkeypatch.setenv("SHARDS", str(shards))
    names = [autoscaler("spark_cluster", shard) for shard in range(shards)]
    target = PythonFileTarget(sharded.__file__, None, str(HERE.parents[2]), "streams")
    with create_test_daemon_workspace_context(target, instance) as workspace:
        for _ in range(3):
            begun = time.time()

            def all_have(begun: float = begun) -> bool:
                list(execute_sensor_iteration(workspace, logging.getLogger("sensors"), None, None))
                return all(
                    name in (data := remembered(instance))
                    and (data[name].last_tick_timestamp or 0) > begun
                    for name in names
                )

            wait_for("all sensors to have ticked", all_have)
    cursors = remembered(instance)
    known = {
        name: memory
        for sensor in names
        for name, memory in Memory.load(cursors[sensor].cursor).streams.items()
    }
    assert known.keys() == {stream.name for stream in sharded.STREAMS}
    assert sum(len(Memory.load(cursors[each].cursor).streams) for each in names) == len(known)
    return {
        name: {
            minute.at for minute in (*history(instance, dg.AssetKey([name]), 0), *memory.minutes)
        }
        for name, memory in known.items()
    }


def remembered(instance: dg.DagsterInstance) -> dict[str, SensorInstigatorData]:
    """What Dagster remembers of each sensor."""
    return {
        each.instigator_name: each.instigator_data
        for each in instance.all_instigator_state()
        if isinstance(each.instigator_data, SensorInstigatorData)
    }


@pytest.mark.clusters
def test_no_minute_is_lost_where_a_stream_comes_to_another_sensor(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    minutes = ticked(instance, 1, monkeypatch)
    for shards in (3, 2, 3):  # the third one's cursor is from before
        after = ticked(instance, shards, monkeypatch)
        for name in after:
            assert minutes[name] < after[name]
        minutes = after
