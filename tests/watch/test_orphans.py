"""A stream taken out of the list runs on: it is shown, and can be stopped, as an orphan."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from dagster_sparkscale import StandaloneCluster
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.names import STORY
from dagster_sparkscale.watch.fleet.orphan import find_orphans
from dagster_sparkscale.watch.memory import Memory
from dagster_sparkscale.watch.orphans import OrphanSearch
from tests.clusters.host.begun import begun
from tests.fakes import structured
from tests.in_memory.cluster import World
from tests.waiting import HANGS, wait_for
from tests.watch.deployment import Deployment, Tick, failure_of

OURS = "web/spark_cluster"


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """`clicks` is declared; `old` was, and runs on. Both are of the code location `web`."""
    monkeypatch.setattr("dagster_sparkscale.operations.Streams.owner", lambda *_: OURS)
    deployed = Deployment([structured()])
    deployed.world.run(structured())
    started = Deployment([structured("old", key_prefix=("web",))], deployed.world)
    assert started.defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=started.instance
    )
    return deployed


def remember(world: World, stream: str, **fields: object) -> Record:
    record = world.records[stream]
    world.records[stream] = replace(record, revision=record.revision + 1, **fields)  # type: ignore[arg-type]
    return world.records[stream]


def told(tick: object) -> list[tuple[str, str]]:
    return [
        (event.asset_key.to_user_string(), "orphan")
        for event in tick.data.asset_events  # type: ignore[attr-defined]
        if "orphan" in (event.description or "") or "not declared" in (event.description or "")
    ]


def test_it_is_shown_at_its_own_asset_once_and_in_every_tick(deployed: Deployment) -> None:
    first, second = deployed.tick(), deployed.tick()
    assert ("web/old", "orphan") in told(first)
    assert ("web/old", "orphan") not in told(second)
    for tick in (first, second):
        assert (
            "old: orphan: driver 1 is running (memory process 1), and no stream of that name is "
            "declared any more; declare it again, or run the job stop_orphan"
        ) in tick.data.skip_message


def test_one_of_which_nothing_can_be_told_is_shown_as_it_may_run(deployed: Deployment) -> None:
    def broken(stream: str) -> None:
        if stream == "old":
            raise ClusterError("agent.json: is not valid JSON")

    deployed.world.on_find = broken
    tick = deployed.tick()
    assert (
        "old: not declared here, and it can't be told whether it runs: agent.json: is not valid "
        "JSON"
    ) in tick.data.skip_message
    assert ("web/old", "orphan") in told(tick)
    assert told(deployed.tick()) == []


def test_one_whose_record_is_broken_is_shown_beside_others(tmp_path: Path) -> None:
    for stream in ("broken", "fine", "old"):
        begun(tmp_path, stream)
    for record in (tmp_path / "streams" / "broken" / "record").iterdir():
        record.write_text("{")
    cluster = StandaloneCluster(master="spark://127.0.0.1:7077", state_dir=str(tmp_path))
    broken, old = find_orphans(cluster, ["fine"], OURS)
    assert "broken: not declared here, and it can't be told whether it runs: " in str(broken)
    assert "it is not JSON" in str(broken)
    assert (broken.ours, broken.asset, broken.driver.epoch) == (False, ("broken",), 0)
    assert not old.fault


def test_it_is_told_again_when_something_of_it_has_changed(deployed: Deployment) -> None:
    deployed.tick()
    deployed.world.streams["old"].driver = replace(
        deployed.world.streams["old"].driver, state=DriverState.UNKNOWN
    )
    assert ("web/old", "orphan") in told(deployed.tick())


def test_the_job_stops_it(deployed: Deployment) -> None:
    result = deployed.by_hand("stop_orphan", stream="old")
    assert result.success
    (event,) = result.get_asset_observation_events()
    assert event.asset_observation_data.asset_observation.asset_key.path == ["web", "old"]
    assert deployed.world.streams["old"].driver.state is DriverState.STOPPED
    assert "orphan" not in deployed.tick().data.skip_message


@pytest.mark.parametrize(
    ("stream", "fault"),
    [
        ("clicks", "stream = 'clicks': is declared, so it is no orphan: use stop"),
        ("never", "stream = 'never': nothing is remembered of it; remembered are: 'clicks', 'old'"),
    ],
)
def test_the_job_refuses_what_is_none(deployed: Deployment, stream: str, fault: str) -> None:
    assert failure_of(deployed.by_hand("stop_orphan", stream=stream)) == fault


@pytest.mark.parametrize(("given", "told"), [("", "by hand"), ("  ", "by hand"), ("gone", "gone")])
def test_a_reason_is_never_empty(deployed: Deployment, given: str, told: str) -> None:
    result = deployed.by_hand("stop_orphan", stream="old", reason=given)
    (event,) = result.get_asset_observation_events()
    said = event.asset_observation_data.asset_observation.metadata
    assert said[STORY].value["reason"] == told


def test_that_of_another_code_location_is_left_to_it(deployed: Deployment) -> None:
    remember(deployed.world, "old", owner="other_team/spark_cluster")
    assert "orphan" not in deployed.tick().data.skip_message
    text = failure_of(deployed.by_hand("stop_orphan", stream="old"))
    assert "was started by code location 'other_team', cluster 'spark_cluster'" in text
    assert deployed.world.streams["old"].driver.state is DriverState.RUNNING


def test_of_an_older_release_nobody_knows_whose_it_is_and_it_is_not_stopped_unasked(
    deployed: Deployment,
) -> None:
    remember(deployed.world, "old", owner="", asset=())
    tick = deployed.tick()
    assert ("old", "orphan") in told(tick)
    assert "old: not declared here: driver 1 is running" in tick.data.skip_message
    assert "or run stop_orphan with whoever_declares_it: true" in tick.data.skip_message
    text = failure_of(deployed.by_hand("stop_orphan", stream="old"))
    assert "stream = 'old': who declares it is not known" in text
    assert "when nobody declares it, set whoever_declares_it: true" in text
    assert deployed.by_hand("stop_orphan", stream="old", whoever_declares_it=True).success


def test_one_that_has_ended_is_none(deployed: Deployment) -> None:
    deployed.world.end("old")
    assert list(find_orphans(deployed.world.cluster, {"clicks"}, OURS)) == []


def test_a_look_that_hangs_holds_up_no_tick_and_is_not_begun_twice(deployed: Deployment) -> None:
    search, answer = OrphanSearch(), threading.Event()
    cluster, looks = deployed.world.cluster, []

    def hang(stream: str) -> None:
        looks.append(stream)
        assert answer.wait(HANGS)

    deployed.world.on_find = hang
    try:
        for _ in range(3):
            assert search.search(cluster, {"clicks"}, OURS, 0.05) == ()
        assert looks == ["old"]
    finally:
        answer.set()
    wait_for("the look to end", lambda: not (search._call and search._call.is_alive()))
    # What it found is told by the next tick, though that one's own look hangs as well.
    answer.clear()
    try:
        found = search.search(cluster, {"clicks"}, OURS, 0.05)
        assert [orphan.driver.stream for orphan in found] == ["old"]
    finally:
        answer.set()
    deployed.world.on_find = lambda stream: None
    deployed.world.end("old")
    wait_for("one that ended to be gone", lambda: not search.search(cluster, {"clicks"}, OURS, 1.0))


def test_what_was_told_is_not_told_again_because_a_look_took_too_long(
    deployed: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ("web/old", "orphan") in told(deployed.tick())
    answer = threading.Event()
    search = OrphanSearch.search
    monkeypatch.setattr(OrphanSearch, "search", lambda *args: search(*args[:4], 0.05, *args[5:]))
    deployed.world.on_find = lambda stream: stream != "old" or answer.wait(HANGS)
    try:
        assert "old: orphan: driver 1 is running" in deployed.tick().data.skip_message
    finally:
        answer.set()
    deployed.world.on_find = lambda stream: None
    assert ("web/old", "orphan") not in told(deployed.tick())


def orphaned(tick: object) -> list[float]:
    """Since when, as alerts are told."""
    problems = tick.fleet["for alerts"]["problems"]  # type: ignore[attr-defined]
    return [each["since"] for each in problems if each["problem"] == "orphaned"]


def test_one_that_can_be_told_nothing_of_for_a_tick_stays_a_problem(
    deployed: Deployment, clock: list[float]
) -> None:
    since = orphaned(deployed.tick())
    assert len(since) == 1
    deployed.world.on_find = broken
    for _ in range(2):
        clock[0] += 600
        assert orphaned(deployed.tick()) == since
        deployed.world.on_find = lambda stream: None


def broken(stream: str) -> None:
    raise ClusterError(f"the record of {stream} can't be read: I/O error")


def test_one_is_not_gone_because_no_look_has_ended_since_the_code_location_was_started(
    deployed: Deployment, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    since = orphaned(deployed.tick())
    fresh = Deployment(deployed.streams, deployed.world, deployed.instance, deployed.cursor)
    answer, search = threading.Event(), OrphanSearch.search
    with monkeypatch.context() as patch:
        patch.setattr(OrphanSearch, "search", lambda *args: search(*args[:4], 0.05, *args[5:]))
        fresh.world.on_find = lambda stream: stream != "old" or answer.wait(HANGS)
        try:
            for _ in range(2):
                clock[0] += 600
                tick = fresh.tick()
                assert orphaned(tick) == since
                assert told(tick) == []
                assert "no look for orphans has come to its end" in tick.data.skip_message
        finally:
            answer.set()
    clock[0] += 600
    wait_for("the look to end", lambda: "old: orphan: " in fresh.tick().data.skip_message)
    assert told(fresh.tick()) == []
    fresh.world.end("old")
    clock[0] += 600
    assert orphaned(fresh.tick()) == []


def test_an_orphan_that_was_told_of_by_a_tick_that_dagster_dropped_is_no_new_one(
    deployed: Deployment, clock: list[float]
) -> None:
    def since(tick: Tick) -> dict[tuple[str, str], float]:
        assert tick.fleet is not None
        told = tick.fleet["for alerts"]["problems"]
        return {(one["stream"], one["problem"]): one["since"] for one in told}

    before = since(deployed.tick())
    assert ("old", "orphaned") in before
    memory = Memory.load(deployed.cursor)
    memory.fleet.problems.pop("old")
    memory.streams.pop("old")
    cursor = memory.dump({*memory.streams})
    clock[0] += 600
    again = Deployment(deployed.streams, deployed.world, deployed.instance, cursor)
    assert since(again.tick()) == before
