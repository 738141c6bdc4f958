"""The sensor tells the end of a driver that was killed: once, and nothing waits for the server."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.declare.lineage import Lineage
from dagster_sparkscale.driver.lineage.events import run_id
from dagster_sparkscale.lineage.ends import GIVEN_UP
from dagster_sparkscale.observe.end_report import LineageEnd
from tests.driver.lineage.receiving import LineageServer, receiving
from tests.fakes import structured
from tests.waiting import wait_for
from tests.watch.deployment import Deployment


@pytest.fixture
def server() -> Iterator[LineageServer]:
    with receiving() as running:
        yield running


def deployed(server: LineageServer) -> Deployment:
    """A deployment whose stream runs, and tells its lineage."""
    lineage = Lineage(url=server.url, namespace="prod")
    stream = structured(lineage=lineage, recovery=None, autoscale=RatioPolicy(max_executors=4))
    deployment = Deployment([stream])
    deployment.world.run(stream)
    deployment.tick()
    return deployment


def ticks_until(deployment: Deployment, condition: Callable[[], object]) -> None:
    """Tick until it is so."""

    def ticked() -> bool:
        deployment.tick()
        return bool(condition())

    wait_for("it to be told", ticked)


def run_of(deployment: Deployment, epoch: int = 1) -> str:
    return run_id(deployment.world.records["clicks"].id, epoch)


def test_a_killed_driver_is_told_of_once(server: LineageServer):
    deployment = deployed(server)
    assert server.asked == 0
    ended = deployment.world.end("clicks", exit_reason="killed by signal 9")
    ticks_until(deployment, lambda: server.events)
    for _ in range(3):
        deployment.tick()
    [event] = server.events
    assert (event["eventType"], event["run"]["runId"]) == ("FAIL", run_of(deployment))
    assert event["run"]["facets"]["errorMessage"]["message"] == "killed by signal 9"
    assert (event["job"]["namespace"], event["job"]["name"]) == ("prod", "clicks")
    assert ended.state is DriverState.FAILED
    # Nor by another process, which has the cursor.
    again = Deployment(deployment.streams, deployment.world, cursor=deployment.cursor)
    again.tick()
    assert server.asked == 1


def test_one_that_told_its_end_itself_is_not_told_of_again(server: LineageServer):
    deployment = deployed(server)
    deployment.world.end("clicks", lineage=LineageEnd("FAIL", told=True))
    for _ in range(3):
        deployment.tick()
    assert server.asked == 0


def test_a_server_that_was_away_is_told_once_it_is_back(server: LineageServer):
    deployment = deployed(server)
    server.answer = 503
    deployment.world.end("clicks", lineage=LineageEnd("COMPLETE"))
    ticks_until(deployment, lambda: server.asked > 1)
    server.answer = 201
    ticks_until(deployment, lambda: server.events)
    assert server.kinds(run_of(deployment)) == ["COMPLETE"]


def test_no_tick_waits_for_a_server_that_hangs(server: LineageServer):
    deployment = deployed(server)
    server.hangs.clear()
    deployment.world.end("clicks")
    deployment.tick()
    wait_for("the server to be asked", lambda: server.asked)
    deployment.tick()  # returns, though nobody has answered
    assert server.events == []
    server.hangs.set()
    ticks_until(deployment, lambda: server.events)
    deployment.tick()
    assert server.asked == 1  # nor was it asked once more meanwhile


def test_an_end_is_told_after_the_next_driver_has_begun(server: LineageServer):
    """As where a person starts the stream anew while the sensor is off."""
    deployment = deployed(server)
    deployment.world.end("clicks", exit_reason="killed by signal 9")
    assert deployment.by_hand("restart", stream="clicks").success
    assert deployment.world.streams["clicks"].driver.epoch == 2
    ticks_until(deployment, lambda: server.events)
    for _ in range(3):
        deployment.tick()
    assert server.kinds(run_of(deployment, 1)) == ["FAIL"] == server.kinds()


def test_an_old_end_is_given_up(server: LineageServer):
    deployment = deployed(server)
    driver = deployment.world.end("clicks")
    long_ago = driver.ended_at - GIVEN_UP - 1
    kept = deployment.world.streams["clicks"]
    kept.driver = replace(driver, ended_at=long_ago)
    for _ in range(3):
        deployment.tick()
    assert server.asked == 0


@pytest.mark.parametrize("text", ["often", "nan"])
def test_an_end_that_can_not_be_told_lets_the_tick_go_on(server: LineageServer, text: str):
    """As of a record that another release has written."""
    deployment = deployed(server)
    deployment.world.end("clicks")
    record = deployment.world.records["clicks"]
    declared = {**(record.declared or {}), "lineage.every": text}
    deployment.world.records["clicks"] = replace(record, declared=declared)
    deployment.tick()
    assert server.asked == 0


def test_the_ends_of_a_record_that_was_begun_anew_are_told(server: LineageServer):
    """As where the state folder was emptied: its first driver is number 1 again."""
    deployment = deployed(server)
    deployment.world.end("clicks")
    ticks_until(deployment, lambda: server.events)
    deployment.tick()  # which finds that it was taken
    before = run_of(deployment)
    record = deployment.world.records["clicks"]
    deployment.world.records["clicks"] = replace(record, id="another")
    ticks_until(deployment, lambda: len(server.events) > 1)
    for _ in range(3):
        deployment.tick()
    runs = [event["run"]["runId"] for event in server.events]
    assert runs == [before, run_of(deployment)] and len(set(runs)) == 2
