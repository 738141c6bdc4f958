"""Several sensors for the streams of one cluster: each stream has one of them, whatever changes."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.declare.budget import Budget
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.definitions import build_defs
from dagster_sparkscale.names import MINUTES, autoscaler, is_autoscaler
from dagster_sparkscale.operation import owner_of
from dagster_sparkscale.watch import board as board_module
from dagster_sparkscale.watch import cursor as cursor_module
from dagster_sparkscale.watch.fleet.events import latest
from dagster_sparkscale.watch.memory import Memory
from dagster_sparkscale.watch.shards import shard_of, spread
from tests.fakes import scaled, structured
from tests.in_memory.cluster import MemoryCluster, World
from tests.watch.deployment import FLEET_KEY, Tick, overload

NAMES = st.lists(st.text(min_size=1, max_size=12), unique=True, max_size=60)
SHARDS = st.integers(1, 12)


class TestSpread:
    @given(NAMES, SHARDS)
    def test_each_stream_is_in_one_shard(self, names: list[str], shards: int) -> None:
        parts = spread(names, shards)
        assert len(parts) == shards
        assert sorted(name for part in parts for name in part) == sorted(names)

    @given(NAMES, SHARDS)
    def test_one_shard_more_takes_streams_and_moves_no_other(
        self, names: list[str], shards: int
    ) -> None:
        for name in names:
            assert shard_of(name, shards + 1) in (shard_of(name, shards), shards)

    @given(NAMES, st.text(min_size=1), SHARDS)
    def test_a_stream_that_comes_moves_no_other(
        self, names: list[str], more: str, shards: int
    ) -> None:
        before, after = spread(names, shards), spread([*names, more], shards)
        assert [[n for n in part if n != more] for part in after] == [
            [n for n in part if n != more] for part in before
        ]

    def test_each_has_about_as_many(self) -> None:
        parts = spread([f"stream_{number}" for number in range(10_000)], 10)
        assert all(900 <= len(part) <= 1100 for part in parts)


@pytest.mark.parametrize("key", ["spark_cluster", "main", "shard_2"])
def test_a_sensor_of_the_cluster_is_told_from_any_other(key: str) -> None:
    names = [autoscaler(key, shard) for shard in range(100)]
    assert len(set(names)) == 100
    assert all(is_autoscaler(name, key) for name in names)
    others = [*(autoscaler("another", shard) for shard in range(3)), "alerts", "autoscaler_shard_x"]
    assert not any(is_autoscaler(name, key) for name in others)


@dataclass
class Sharded:
    """A code location of several sensors, on a cluster in memory."""

    streams: list[Stream]
    shards: int
    budget: Budget | None = None
    world: World = field(default_factory=World)
    instance: dg.DagsterInstance = field(default_factory=dg.DagsterInstance.ephemeral)
    cursors: dict[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.load()

    def load(self) -> None:
        """Load the code location, in a process that knows nothing yet."""
        self.defs = build_defs(
            self.streams, self.world.cluster, budget=self.budget, shards=self.shards
        )
        self.names = [autoscaler("spark_cluster", shard) for shard in range(self.shards)]

    def tick(self, sensor: str) -> Tick:
        tick = self.evaluate(sensor)
        self.store(tick)
        return tick

    def evaluate(self, sensor: str) -> Tick:
        """A tick whose events are not stored yet."""
        with dg.build_sensor_context(
            instance=self.instance,
            definitions=self.defs,
            resources=self.defs.resources,
            cursor=self.cursors.get(sensor),
        ) as context:
            data = self.defs.resolve_sensor_def(sensor).evaluate_tick(context)
        self.cursors[sensor] = data.cursor
        return Tick(data)

    def store(self, tick: Tick) -> None:
        for event in tick.data.asset_events:
            self.instance.report_runless_asset_event(event)

    def evaluates(self, sensor: str) -> set[str]:
        return {*Memory.load(self.cursors[sensor]).streams}

    def shard(self, stream: str) -> str:
        return self.names[shard_of(stream, self.shards)]


def running(count: int, shards: int, **more: Any) -> Sharded:
    streams = [structured(f"stream_{number}") for number in range(count)]
    made = Sharded([*streams], shards, **more)
    for stream in streams:
        made.world.run(stream)
    return made


def problems_of_silence(
    made: Sharded, first: str, now: list[float], clock: list[float], seconds: float
) -> list[dict[str, Any]]:
    """What the first sensor tells is wrong, so many seconds later by the wall's clock, and so late
    by the steady one that the others count as silent."""
    now[0] += board_module.SILENT + 1
    clock[0] += seconds
    told = made.tick(first).fleet
    assert told is not None
    problems: list[dict[str, Any]] = told["for alerts"]["problems"]
    return problems


def rows(tick: Tick) -> str:
    assert tick.fleet is not None
    return "".join(str(value) for key, value in tick.fleet.items() if key.startswith("streams"))


class TestFleet:
    def test_each_stream_is_told_of_by_one_sensor_and_the_first_tells_of_all(self) -> None:
        made = running(12, 3)
        ticks = {name: made.tick(name) for name in reversed(made.names)}
        told = [s.name for s in made.streams for t in ticks.values() if t.told(s.name)]
        assert sorted(told) == sorted(s.name for s in made.streams)
        assert sum(len(made.evaluates(name)) for name in made.names) == 12
        assert [tick.fleet is not None for tick in ticks.values()] == [False, False, True]
        assert all(s.name in rows(ticks["autoscaler"]) for s in made.streams)

    def test_before_the_others_have_looked_nothing_is_told_of_it(self) -> None:
        made = running(12, 2)
        first, other = made.names
        assert made.tick(first).fleet is None
        made.tick(other)
        assert made.tick(first).fleet is not None

    def test_a_sensor_that_is_switched_off_leaves_its_streams_unknown(
        self, now: list[float], clock: list[float]
    ) -> None:
        made = running(6, 2)
        first, other = made.names
        made.tick(other)
        assert "unknown" not in rows(made.tick(first))
        now[0] += board_module.SILENT + 1
        clock[0] += 600
        table = made.tick(first)
        assert rows(table).count("unknown") == len(made.evaluates(other)) > 0
        assert table.fleet is not None
        glance = table.fleet["at a glance"].replace("\\", "")
        assert f"the sensor {other}, which evaluates it, has not ticked for" in glance

    def test_what_is_wrong_with_them_stands_meanwhile(
        self, now: list[float], clock: list[float]
    ) -> None:
        made = Sharded([scaled(f"stream_{number}", max_executors=2) for number in range(6)], 2)
        for stream in made.streams:  # at its maximum, and too slow
            overload(made, stream, executors=2)
        first, other = made.names
        made.tick(other)
        made.tick(first)
        silent = made.evaluates(other)
        made.world.streams[min(silent)].batch_seconds = 5
        now[0] += board_module.SILENT + 1
        clock[0] += 600
        told = made.tick(first).fleet
        assert told is not None
        unwatched, *problems = told["for alerts"]["problems"]
        assert {one["stream"] for one in problems} == {stream.name for stream in made.streams}
        # People are told of the sensor, once, and not of each of its streams.
        assert (unwatched["stream"], unwatched["problem"]) == (other, "unwatched")
        assert f"evaluates {len(silent)} streams" in unwatched["text"]
        assert unwatched["since"] == clock[0] - board_module.SILENT - 1
        made.tick(other)
        clock[0] += 60
        told = made.tick(first).fleet
        assert told is not None
        assert all(one["problem"] != "unwatched" for one in told["for alerts"]["problems"])

    def test_it_is_the_same_problem_after_the_code_location_was_loaded_anew(
        self, now: list[float], clock: list[float]
    ) -> None:
        made = running(6, 2)
        first, other = made.names
        made.tick(other)
        told = []
        for _ in range(2):
            told += problems_of_silence(made, first, now, clock, 600)
            made.load()
        assert [(one["stream"], one["problem"]) for one in told] == [(other, "unwatched")] * 2
        first_of, then = told
        assert first_of["since"] == then["since"] < clock[0] - 600

    def test_each_pause_of_one_that_ticks_seldom_is_a_problem_of_its_own(
        self, now: list[float], clock: list[float]
    ) -> None:
        made = running(6, 2)
        first, other = made.names
        since = []
        for _ in range(3):
            made.tick(other)
            (problem,) = problems_of_silence(made, first, now, clock, 600)
            since.append(problem["since"])
        assert since == [since[0], since[0] + 600, since[0] + 1200]

    def test_it_is_another_problem_where_nobody_has_told_of_the_fleet_for_long(
        self, now: list[float], clock: list[float]
    ) -> None:
        made = running(6, 2)
        first, other = made.names
        since = []
        for _ in range(2):
            made.tick(other)
            (problem,) = problems_of_silence(made, first, now, clock, 7200)
            since.append(problem["since"])
            made.load()
        assert since[1] - since[0] == 7200

    def test_streams_that_nobody_declares_are_found_by_the_first_alone(self) -> None:
        made = running(4, 2)
        made.world.run(structured("forgotten"))
        ticks = [made.tick(name) for name in reversed(made.names)]
        assert [bool(tick.told("forgotten")) for tick in ticks] == [False, True]


class TestSnapshot:
    """What the cluster manager knows of all streams, which may be pages of answers."""

    def test_shards_that_tick_together_have_one(
        self, monkeypatch: pytest.MonkeyPatch, clock: list[float]
    ) -> None:
        now, taken = [0.0], list[float]()

        def snapshot(cluster: MemoryCluster) -> MemoryCluster:
            taken.append(now[0])
            if now[0] == 60:
                raise ClusterError("the master does not answer")
            return cluster

        monkeypatch.setattr(MemoryCluster, "snapshot", snapshot)
        monkeypatch.setattr(board_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
        made = running(6, 3)
        states = []
        for _ in range(3):
            for name in reversed(made.names):
                tick = made.tick(name)
            states.append("the master does not answer" in str(tick.fleet))
            now[0] += 60
            clock[0] += 600
        # The second one looks for streams that nobody declares.
        assert taken == [0, 0, 60, 60, 120, 120]
        assert states == [False, True, False], "none is held to what failed once"

    def test_none_has_the_same_twice(
        self, monkeypatch: pytest.MonkeyPatch, clock: list[float]
    ) -> None:
        taken = list[float]()

        def snapshot(cluster: MemoryCluster) -> MemoryCluster:
            taken.append(clock[0])
            return cluster

        monkeypatch.setattr(MemoryCluster, "snapshot", snapshot)
        made = running(6, 3)
        other, third = made.names[1:]
        for name in (other, third, other, third):
            made.tick(name)
            clock[0] += 1
        assert len(taken) == 2


class TestMinutesThatWait:
    def test_they_are_carried_by_the_page_as_it_was_last_told(
        self, monkeypatch: pytest.MonkeyPatch, clock: list[float]
    ) -> None:
        made = running(8, 2)
        first, other = made.names
        made.tick(other)
        picture = made.tick(first).fleet
        clock[0] += 60
        monkeypatch.setattr(cursor_module, "ROOM", 0)
        monkeypatch.setattr(cursor_module, "A_STREAM", 0)
        tick = made.tick(other)
        [event] = [e for e in tick.data.asset_events if e.asset_key == FLEET_KEY]
        assert MINUTES in event.metadata and picture is not None
        assert tick.fleet is not None and rows(tick) == "".join(
            str(value) for key, value in picture.items() if key.startswith("streams")
        )

    def test_what_is_told_again_is_no_news(
        self, monkeypatch: pytest.MonkeyPatch, clock: list[float]
    ) -> None:
        made = running(8, 2)
        first, other = made.names
        made.tick(other)
        made.tick(first)
        failed = next(s.name for s in made.streams if made.shard(s.name) == first)
        clock[0] += 120
        made.world.end(failed, ended_at=clock[0] - 5)
        monkeypatch.setattr(cursor_module, "ROOM", 0)
        monkeypatch.setattr(cursor_module, "A_STREAM", 0)
        late = made.evaluate(other)  # before the first knows, and it is stored after that
        made.tick(first)
        made.store(late)
        news = latest(made.instance, FLEET_KEY, owner_of(None, "spark_cluster"))
        assert news is not None
        assert [(one.stream, one.problem) for one in news.problems] == [(failed, "failed")]


BOTH = [scaled("clicks", max_executors=10), scaled("orders", max_executors=10)]


class TestBudget:
    @pytest.fixture
    def sharded(self) -> Sharded:
        made = Sharded([*BOTH], 12, Budget(cores=13))
        assert made.shard("clicks") != made.shard("orders"), "each has a sensor of its own"
        overload(made, BOTH[0], executors=4)  # each wants 3 more
        overload(made, BOTH[1], executors=4)
        return made

    def decided(self, made: Sharded, stream: str) -> str:
        return made.tick(made.shard(stream)).decided(stream)

    def test_streams_of_several_sensors_share_it(
        self, sharded: Sharded, clock: list[float]
    ) -> None:
        # Nothing is known of clicks yet, which may have ten.
        assert self.decided(sharded, "orders").startswith("hold: the budget of the cluster is 13 ")
        # Orders have 4, and want more.
        assert self.decided(sharded, "clicks").startswith("scale to 7: ")
        clock[0] += 60
        assert self.decided(sharded, "orders").startswith("scale to 6: the budget of the cluster ")

    def test_what_was_granted_by_one_is_not_granted_by_another(
        self, sharded: Sharded, clock: list[float]
    ) -> None:
        streams = sharded.world.streams
        for name in ("clicks", "orders"):
            streams[name].batch_seconds = 7
            self.decided(sharded, name)
        for name in ("clicks", "orders"):
            streams[name].batch_seconds = 25
        clock[0] += 60
        assert self.decided(sharded, "clicks").startswith("scale to 7: ")
        # Its run has not begun.
        held = self.decided(sharded, "orders")
        assert held.startswith(
            "scale to 6: the budget of the cluster is 13 cores, 13 are taken (cl"
        )

    def test_cores_wait_for_a_higher_priority_of_another_sensor(self, clock: list[float]) -> None:
        urgent = BOTH[1].model_copy(update={"priority": 1})
        made = Sharded([BOTH[0], urgent], 12, Budget(cores=10))
        idle = overload(made, BOTH[0], executors=4, batch_seconds=7)
        overload(made, urgent, executors=5)
        self.decided(made, "clicks")
        assert self.decided(made, "orders").startswith("scale to 6: the budget of the cluster is 1")
        idle.batch_seconds = 25
        clock[0] += 60
        assert self.decided(made, "clicks").startswith("hold: the budget of the cluster is 10 ")

    def test_cores_do_not_wait_for_a_sensor_that_is_switched_off(
        self, now: list[float], clock: list[float]
    ) -> None:
        urgent = BOTH[1].model_copy(update={"priority": 1})
        made = Sharded([BOTH[0], urgent], 12, Budget(cores=10))
        idle = overload(made, BOTH[0], executors=4, batch_seconds=7)
        overload(made, urgent, executors=5)
        self.decided(made, "clicks")
        self.decided(made, "orders")  # has 6 now, and wants two more
        idle.registered = idle.requested = 2
        idle.batch_seconds = 25
        now[0] += board_module.SILENT + 1
        clock[0] += 600
        assert self.decided(made, "clicks").startswith("scale to 4: the budget of the cluster is 1")


def test_what_is_no_number_of_sensors_is_refused() -> None:
    for wrong in (0, -1, 101, 2.0, "2", True, None):
        with pytest.raises(
            DeclarationError, match=r"shards = .*: must be a whole number from 1 to"
        ):
            build_defs([structured()], World().cluster, shards=wrong)  # type: ignore[arg-type]
