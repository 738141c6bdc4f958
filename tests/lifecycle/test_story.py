"""What a start or a stop came to, in a line for people and in values for the run's page."""

from dataclasses import replace

import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.lifecycle.jobs import StopConfig, describe, stop_by_name, story_of
from dagster_sparkscale.lifecycle.reconcile import Action, Outcome
from dagster_sparkscale.observe.status import Query, Reconfiguration
from tests.fakes import driver, status, structured
from tests.lifecycle.reconciling import STREAM

RUNS = driver(
    *(DriverState.RUNNING, 3),
    where="pod clicks-3",
    app_id="app-of-the-driver",
    ui_url="http://driver",
)
ANSWER = status(epoch=3, app_id="app", ui_url="http://answer", registered=2, requested=5)


def outcome(action: Action = Action.STARTED, **fields: object) -> Outcome:
    return Outcome(
        **{"action": action, "driver": RUNS, "status": ANSWER, "seconds": 7.12345, **fields}
    )


class TestLine:
    @pytest.mark.parametrize(
        ("came", "line"),
        [
            (outcome(), "started driver 3 (pod clicks-3); its first query ran after 7.1 s"),
            (
                outcome(Action.RESTARTED, dropped=("a = 1", "b = 2")),
                "restarted driver 3 (pod clicks-3); a = 1; b = 2; its first query ran after 7.1 s",
            ),
            (
                outcome(launched=3),
                "started driver 3 (pod clicks-3); its first query ran after 7.1 s",
            ),
            (
                outcome(launched=2),
                "started driver 2, and driver 3 has come after it (pod clicks-3)",
            ),
            (
                outcome(status=None),
                "started driver 3 (pod clicks-3); its agent has not answered after 7 s",
            ),
            (
                outcome(status=replace(ANSWER, queries=(Query("q", active=False),))),
                "started driver 3 (pod clicks-3); no query has started after 7 s",
            ),
            (
                outcome(
                    status=replace(
                        ANSWER, reconfigurations=(Reconfiguration("p", "q", "undoing", 1.0),)
                    )
                ),
                "started driver 3 (pod clicks-3); after 7 s it is reconfiguring the state of query "
                "'q': undoing",
            ),
            (
                outcome(Action.ATTACHED),
                "driver 3 runs already (pod clicks-3): attached to it",
            ),
            (
                outcome(Action.ATTACHED, driver=replace(RUNS, state=DriverState.STARTING)),
                "driver 3 is starting already (pod clicks-3): attached to it; to have what is "
                "declared by now, restart the stream",
            ),
            (
                outcome(Action.ATTACHED, driver=replace(RUNS, state=DriverState.FAILED)),
                "driver 3 is failed by now: nothing was done",
            ),
            (outcome(Action.HELD, reason="it waits"), "nothing was done: it waits"),
        ],
    )
    def test_of_each_that_a_start_may_come_to(self, came, line):
        assert describe(came) == line


class TestStory:
    def test_has_what_the_agent_says(self):
        stream = structured(
            spark_conf={"spark.cores.max": 6}, autoscale=RatioPolicy(max_executors=10)
        )
        assert story_of(stream, outcome(), "by hand") == {
            "action": "started",
            "reason": "by hand",
            "epoch": 3,
            "state": "running",
            "where": "pod clicks-3",
            "seconds": 7.123,
            "app_id": "app",
            "executors_registered": 2,
            "executors_requested": 5,
            "executors_maximum": 6,
            "maximum_note": stream.bounds.note,
            "spark_ui": "http://answer",
        }
        assert stream.bounds.note

    def test_or_what_the_cluster_manager_knows_where_it_is_silent(self):
        story = story_of(STREAM, outcome(status=None), None)
        assert (story["app_id"], story["spark_ui"]) == ("app-of-the-driver", "http://driver")
        assert (story["executors_registered"], story["executors_requested"]) == (None, None)
        answer = replace(ANSWER, ui_url=None)
        assert story_of(STREAM, outcome(status=answer), None)["spark_ui"] == "http://driver"


class TestStop:
    @pytest.mark.parametrize(
        ("graceful", "takes", "calls"),
        [
            (True, 5, ["stop clicks gracefully"]),
            (True, 9, ["stop clicks gracefully", "kill clicks"]),
            (False, 9, ["stop clicks at once"]),
        ],
    )
    def test_is_what_was_asked_for(self, world, graceful, takes, calls):
        world.run(STREAM, ends_after=takes, drained=True)
        world.calls.clear()
        config = StopConfig(graceful=graceful, timeout_seconds=8, reason="an upgrade")
        report = stop_by_name(world.cluster, "clicks", config, Requester("stop run 1"))
        assert world.calls == calls
        assert report.line == "driver 1 was running and is stopped now: drained"
        assert report.story_of(config) == {
            "reason": "an upgrade",
            "epoch": 1,
            "state": "stopped",
            "state_before": "running",
            "exit_reason": "stop requested",
            "ending": "drained",
        }
        assert not world.leases

    def test_waits_for_the_operation_in_progress(self, world, monkeypatch):
        world.run(STREAM)
        held = world.cluster.lease("clicks", "rescale run 2")
        held.__enter__()
        waits = []

        def waited(stream):
            waits.append(stream)
            held.__exit__(None, None, None)

        world.on_wait = waited
        stop_by_name(world.cluster, "clicks", StopConfig(), Requester("stop run 1"))
        assert waits == ["clicks"]

    def test_is_made_under_the_name_of_who_asks(self, world):
        world.run(STREAM)
        holders = []
        world.on_find = lambda name: holders.append(world.records[name].lease.holder)
        stop_by_name(world.cluster, "clicks", StopConfig(), Requester("stop run 1"))
        assert holders and set(holders) == {"stop run 1"}
