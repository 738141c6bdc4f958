"""A start that is killed or freezes before any of its calls, and what others do then.

The table in `launch.py` as tests: whatever the moment, there are never two drivers (`goes_on` looks
after each call), who wakes up late changes nothing of a later start, and the next start finds its
way.
"""

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.errors import AlreadyRunning, ClusterError, LeaseLost
from dagster_sparkscale.clusters.kubernetes import names
from tests.clusters.kubernetes.processes import MemoryKubernetes, Operation, World, world_of
from tests.clusters.running import stop, stream, submit

NAME = "clicks"
CLICKS = stream(NAME, checkpoint_location="s3a://data/clicks")


@pytest.fixture(params=[True, False], ids=["prompt nodes", "slow nodes"])
def prompt(request: pytest.FixtureRequest) -> bool:
    """Whether a pod runs as soon as it is made; else only once time passes."""
    return bool(request.param)


def start(cluster: MemoryKubernetes) -> Driver:
    return submit(cluster, CLICKS)


def stop_at_once(cluster: MemoryKubernetes) -> Driver:
    return stop(cluster, NAME, graceful=False, timeout=0.0)


def of(epoch: int) -> str:
    return names.of_epoch(NAME, epoch)


def after_a_driver(monkeypatch: pytest.MonkeyPatch, prompt: bool) -> World:
    """A world in which the stream's first driver has ended."""
    world = world_of(monkeypatch, prompt)
    Operation(world, start).goes_on()
    world.server.settles()
    world.server.ends(of(1))
    world.server.calls.clear()
    return world


def calls_of_a_start(monkeypatch: pytest.MonkeyPatch, prompt: bool) -> list[str]:
    """Those of one that nothing befalls."""
    world = after_a_driver(monkeypatch, prompt)
    assert isinstance(Operation(world, start).goes_on().came_of, Driver)
    return world.server.calls


def frozen(monkeypatch: pytest.MonkeyPatch, prompt: bool) -> Iterator[tuple[World, Operation]]:
    """A start that does nothing for now, before each of its calls and after the last one."""
    for calls in range(len(calls_of_a_start(monkeypatch, prompt)) + 1):
        world = after_a_driver(monkeypatch, prompt)
        yield world, Operation(world, start).goes_on(calls + 1)


def of_start(world: World, epoch: int) -> dict[tuple[str, str], Any]:
    """The objects of one start, as they are now."""
    held = world.server.objects.items()
    return {key: copy.deepcopy(each) for key, each in held if key[1].endswith(f"-{epoch}")}


def see_that_only_one_runs(world: World) -> str:
    """And that it is the newest."""
    world.server.settles()
    driver = MemoryKubernetes.of(world).find(NAME)
    assert driver is not None and driver.state is DriverState.RUNNING, driver
    assert world.server.running() == [of(driver.epoch)]
    return of(driver.epoch)


def see_that_only_the_newest_is_left(world: World) -> None:
    mine = see_that_only_one_runs(world)
    of_starts = [key for key in world.server.objects if key[1].startswith("sparkscale-")]
    assert sorted(of_starts) == [
        (kind, mine) for kind in ("configmaps", "pods", "secrets", "services")
    ]


def see_that_the_next_finds_its_way(world: World) -> None:
    """A start now runs, or is refused as a driver does; the one after that driver's end runs."""
    came_of = Operation(world, start).goes_on().came_of
    world.server.settles()
    assert isinstance(came_of, Driver | AlreadyRunning), came_of
    assert len(world.server.running()) == 1
    world.server.ends(*world.server.running())
    came_of = Operation(world, start).goes_on().came_of
    assert isinstance(came_of, Driver), came_of
    see_that_only_the_newest_is_left(world)
    assert sorted(set(world.server.ran)) == sorted(world.server.ran)


def test_a_start_that_nothing_befalls(monkeypatch: pytest.MonkeyPatch) -> None:
    world = after_a_driver(monkeypatch, True)
    assert isinstance(Operation(world, start).goes_on().came_of, Driver)
    posted = [call for call in world.server.calls if call.startswith("POST")]
    assert posted == ["POST secrets", "POST configmaps", "POST services", "POST pods"]
    see_that_only_the_newest_is_left(world)
    assert world.server.ran == [of(1), of(2)]


def test_after_a_start_that_is_killed_at_any_moment_the_next_finds_its_way(
    monkeypatch: pytest.MonkeyPatch, prompt: bool
) -> None:
    for world, killed in frozen(monkeypatch, prompt):
        killed.crash()
        see_that_the_next_finds_its_way(world)


def test_one_that_wakes_up_after_another_has_started_the_stream_changes_nothing_of_that(
    monkeypatch: pytest.MonkeyPatch, prompt: bool
) -> None:
    started = refused = 0
    for world, late in frozen(monkeypatch, prompt):
        second = Operation(world, start).goes_on().came_of
        if not isinstance(second, Driver):
            assert isinstance(second, AlreadyRunning) and ("pods", of(2)) in world.server.objects
            refused += 1
            continue
        started += 1
        world.server.settles()
        its_own = of_start(world, second.epoch)
        late.goes_on()
        # At most a pod of his waits for the Secret that is gone, until it is collected.
        waits = isinstance(late.came_of, Driver) and late.came_of.state is DriverState.STARTING
        assert isinstance(late.came_of, ClusterError) or waits, late.came_of
        assert of_start(world, second.epoch) == its_own
        see_that_only_the_newest_is_left(world)
        see_that_the_next_finds_its_way(world)
    assert started > 15 and refused > 3


def test_one_that_wakes_up_after_its_driver_has_ended_and_another_runs_deletes_nothing_of_that(
    monkeypatch: pytest.MonkeyPatch, prompt: bool
) -> None:
    came_to_it = 0
    for world, late in frozen(monkeypatch, prompt):
        world.server.settles()
        if world.server.running() != [of(2)]:
            continue
        came_to_it += 1
        world.server.ends(of(2))
        third = Operation(world, start).goes_on().came_of
        assert isinstance(third, Driver) and third.epoch == 3
        world.server.settles()
        its_own = of_start(world, 3)
        late.goes_on()
        assert of_start(world, 3) == its_own
        see_that_only_the_newest_is_left(world)
    assert came_to_it > 3


@pytest.mark.parametrize(
    "freezes_before",
    ["POST secrets", f"GET configmaps/{names.of_record(NAME)}", "POST configmaps", "POST pods"],
)
def test_one_that_wakes_up_in_the_middle_of_another_start_is_no_second_driver(
    monkeypatch: pytest.MonkeyPatch, prompt: bool, freezes_before: str
) -> None:
    calls = calls_of_a_start(monkeypatch, prompt)
    launched = calls.index("POST secrets")
    first = calls.index(freezes_before, launched)
    for further in itertools.count():
        world = after_a_driver(monkeypatch, prompt)
        late = Operation(world, start).goes_on(first + 1)
        second = Operation(world, start).goes_on(further + 1)
        if second.done:
            break
        late.goes_on()
        second.goes_on()
        world.server.settles()
        if not world.server.running():
            assert isinstance(Operation(world, start).goes_on().came_of, Driver)
        see_that_only_one_runs(world)
    assert further > len(calls)  # it has to wait for the lease, too


def test_one_that_wakes_up_after_the_stream_was_stopped_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, prompt: bool
) -> None:
    for world, late in frozen(monkeypatch, prompt):
        if f"PUT configmaps/{names.of_record(NAME)}" not in world.server.calls:
            continue  # it has yet to take the lease, and begins after the stop
        stopped = Operation(world, stop_at_once).goes_on().came_of
        assert stopped.state is DriverState.STOPPED, stopped
        late.goes_on()
        world.server.settles()
        assert world.server.running() == []
        see_that_the_next_finds_its_way(world)


def test_a_start_that_lost_its_lease_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    world = after_a_driver(monkeypatch, True)
    late = Operation(world, start)
    while "POST secrets" not in world.server.calls:
        late.goes_on(1)
    with MemoryKubernetes.of(world).lease(NAME, "stop", wait=60.0):
        late.goes_on()
    assert isinstance(late.came_of, LeaseLost)
    assert "another operation has taken 'clicks' over while it was launched" in str(late.came_of)
