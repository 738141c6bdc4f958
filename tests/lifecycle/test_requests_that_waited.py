"""Runs that waited until something later was carried out: they do nothing, and say so."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import dagster as dg
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run
from dagster._core.storage.runs.schema import RunsTable

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.records import leases, overtaking
from dagster_sparkscale.clusters.records.overtaking import Holder
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.declare.policies import RecoveryPolicy
from dagster_sparkscale.definitions import all_operations
from dagster_sparkscale.lifecycle.remedies import NAMES
from dagster_sparkscale.operations import asset_key
from tests.fakes import structured
from tests.receivers.recounting import starts_its_receivers
from tests.receivers.streams import counting, spread_over
from tests.watch.deployment import Deployment, overload

STREAM = structured(
    autoscale=RatioPolicy(max_executors=10),
    recovery=RecoveryPolicy(first_delay=1e-9, longest_delay=1e-9),
)
LONG = 7250.0  # two hours; the runs themselves take seconds
Does = Callable[[Deployment], object]


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock all that is done meanwhile has been done."""

    def by_the_clock(record: Record, holder: Holder, now: float) -> str | None:
        return overtaking.overtaken(record, holder, now + LONG)

    monkeypatch.setattr(leases, "overtaken", by_the_clock)


@pytest.fixture
def deployed() -> Deployment:
    deployed = Deployment([STREAM])
    overload(deployed)
    return deployed


def by_hand(job: str, **config: object) -> Does:
    def does(deployed: Deployment) -> dg.ExecuteInProcessResult:
        result = deployed.by_hand(job, stream="clicks", **config)
        assert result.success
        return result

    return does


def materialize(deployed: Deployment) -> dg.ExecuteInProcessResult:
    key = asset_key(deployed.streams[0])
    job = deployed.defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(asset_selection=[key], instance=deployed.instance)
    assert result.success
    return result


def fails(deployed: Deployment) -> None:
    deployed.world.end("clicks", ended_at=1.0)


def recovers(deployed: Deployment) -> None:
    fails(deployed)
    assert deployed.run(deployed.tick().requests[0]).success


def rescale(target: int) -> Does:
    return by_hand("rescale", target=target, wait_seconds=0.0)


STOP, RESTART = by_hand("stop"), by_hand("restart")


def meanwhile(deployed: Deployment, *done: Does) -> None:
    """What is done while another run waits: all of it so much later than that was asked for."""
    for each in done:
        each(deployed)
    world = deployed.world
    now = world.records["clicks"]
    world.records["clicks"] = replace(
        now,
        asked={change: at + LONG for change, at in now.asked.items()},
        history=tuple(replace(each, at=each.at + LONG) for each in now.history),
        desired_since=now.desired_since + LONG,
        hold=replace(now.hold, since=now.hold.since + LONG) if now.hold else None,
    )
    world.calls.clear()


def calls(deployed: Deployment) -> list[str]:
    return [call for call in deployed.world.calls if call not in ("check", "prepare")]


def said(result: dg.ExecuteInProcessResult) -> str:
    (event,) = result.get_asset_observation_events()
    return event.asset_observation_data.asset_observation.description


def state(deployed: Deployment) -> tuple[int, DriverState]:
    driver = deployed.world.cluster.find("clicks")
    return driver.epoch, driver.state


def test_what_overtakes_is_called_as_the_operations_are():
    operations = {each.name for each in all_operations()}
    assert {"stop", "restart", "rescale", "rebalance_receivers"} < operations
    assert {"declare_gone", "lift_hold", "stop_orphan"} == set(NAMES)


@pytest.mark.parametrize(
    ("waits", "done"),
    [
        (STOP, [STOP, materialize]),
        (STOP, [STOP, RESTART]),
        (STOP, [materialize]),  # somebody wants it to run
        (RESTART, [STOP]),
        (RESTART, [RESTART]),
        (RESTART, [fails, materialize]),
        (RESTART, [recovers]),
        (rescale(9), [rescale(3)]),
        (rescale(9), [STOP, materialize]),
        (by_hand("rescale", delta=3), [rescale(3)]),
    ],
)
def test_it_does_nothing_once_it_was_overtaken(
    deployed: Deployment, waits: Does, done: list[Does]
) -> None:
    meanwhile(deployed, *done)
    before = state(deployed)
    line = said(waits(deployed))
    assert line.startswith("nothing to do: 'clicks': ") and "72" in line
    assert (calls(deployed), state(deployed)) == ([], before)


@pytest.mark.parametrize(
    ("waits", "done", "call"),
    [
        (STOP, [recovers], "stop clicks gracefully"),
        (STOP, [rescale(3)], "stop clicks gracefully"),
        (rescale(9), [materialize], "scale clicks 9"),  # it was attached to, as by automation
        (rescale(9), [recovers], "scale clicks 9"),
        (materialize, [fails], "submit clicks 2"),
    ],
)
def test_it_is_carried_out_where_it_still_stands(
    deployed: Deployment, waits: Does, done: list[Does], call: str
) -> None:
    meanwhile(deployed, *done)
    waits(deployed)
    assert call in calls(deployed)


@pytest.mark.parametrize("restart", [False, True])
def test_a_materialization_does_not_start_what_was_stopped_meanwhile(
    deployed: Deployment, restart: bool
) -> None:
    meanwhile(deployed, STOP)
    op = asset_key(STREAM).to_python_identifier()
    job = deployed.defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        run_config={"ops": {op: {"config": {"restart": restart}}}},
        asset_selection=[asset_key(STREAM)],
        instance=deployed.instance,
    )
    assert result.success and result.get_asset_materialization_events() == []
    assert state(deployed) == (1, DriverState.STOPPED)
    lines = [
        each.user_message
        for each in deployed.instance.all_logs(result.run_id)
        if not each.dagster_event
    ]
    assert any("nothing to do: 'clicks': stop was asked for 72" in line for line in lines)


def test_stopped_and_asked_for_since_it_is_started(deployed: Deployment) -> None:
    STOP(deployed)
    (event,) = materialize(deployed).get_asset_materialization_events()
    assert "started driver 2" in event.materialization.metadata["state"].value


def test_a_decision_that_was_made_before_what_a_person_asked_for(deployed: Deployment) -> None:
    (request,) = deployed.tick().requests
    rescale(2)(deployed)
    record = deployed.world.records["clicks"]
    soon = {change: at + 90 for change, at in record.asked.items()}
    deployed.world.records["clicks"] = replace(record, asked=soon)
    assert "rescale was asked for" in said(deployed.run(request))
    assert deployed.world.streams["clicks"].requested == 2


def test_a_hold_that_is_another_one_is_not_lifted(deployed: Deployment) -> None:
    def held(deployed: Deployment) -> None:
        with deployed.world.cluster.lease("clicks", "reconfigure run 1a2b") as lease:
            deployed.world.cluster.hold(lease, "rewriting state", "run it again")

    meanwhile(deployed, held)
    assert "was set 72" in said(by_hand("lift_hold")(deployed))
    assert deployed.world.records["clicks"].hold is not None


def test_limits_of_one_source_leave_those_of_another_alone(deployed: Deployment) -> None:
    def limit(source: str, **value: object) -> Does:
        return by_hand("set_limits", source=source, wait_seconds=0.0, **value)

    deployed.world.streams["clicks"].rates = {"a": {"maxRate": 9}, "b": {"maxRate": 9}}
    meanwhile(deployed, limit("a", rate=5.0))
    assert "set_limits was asked for 72" in said(limit("a", rate=7.0)(deployed))
    limit("b", rate=7.0)(deployed)
    assert deployed.world.streams["clicks"].rates == {"a": {"maxRate": 5}, "b": {"maxRate": 7}}


class TestReceivers:
    @pytest.fixture
    def deployed(self) -> Deployment:
        deployed = Deployment([counting()])
        deployed.world.on_submit = starts_its_receivers
        spread_over(deployed.world, deployed.streams[0], (2, 0), drained=True)
        return deployed

    @pytest.mark.parametrize(
        ("waits", "done"),
        [
            (by_hand("set_receivers", receivers=4), [by_hand("set_receivers", receivers=3)]),
            (by_hand("set_receivers", receivers=4), [STOP]),
            (by_hand("rebalance_receivers"), [RESTART]),
            (by_hand("rebalance_receivers", receiver=0, executor="1"), [RESTART]),
        ],
    )
    def test_a_request_does_nothing_once_it_was_overtaken(
        self, deployed: Deployment, waits: Does, done: list[Does]
    ) -> None:
        meanwhile(deployed, *done)
        assert said(waits(deployed)).startswith("nothing to do: ")
        assert calls(deployed) == []


class TestRetriesOfRuns:
    """Dagster runs a failed run again by itself, where its instance says so (`run_retries`)."""

    def test_no_job_is_retried(self, deployed: Deployment) -> None:
        for name in [*(each.name for each in all_operations()), *NAMES]:
            assert deployed.defs.resolve_job_def(name).tags["dagster/max_retries"] == "0"

    def test_nor_a_run_that_was_refused(self, tmp_path) -> None:
        settings = {"run_retries": {"enabled": True, "max_retries": 3}}
        with dg.instance_for_test(temp_dir=str(tmp_path), overrides=settings) as instance:
            deployed = Deployment([STREAM], instance=instance)
            overload(deployed)
            result = deployed.by_hand("rescale", stream="clicks", target=99)
            run = instance.get_run_by_id(result.run_id)
            assert run.status is dg.DagsterRunStatus.FAILURE
            assert run.tags.get("dagster/will_retry") == "false"

    @pytest.fixture
    def stopped(self, deployed: Deployment) -> Deployment:
        STOP(deployed)
        return deployed

    def made(self, deployed: Deployment, at: float, of: str | None = None, **tags: str) -> str:
        """A materialization that was asked for at that time; `of`: again, as Dagster does it."""
        root = of and (deployed.instance.get_run_by_id(of).root_run_id or of)
        run = deployed.instance.create_run_for_job(
            deployed.defs.resolve_implicit_global_asset_job_def(),
            asset_selection=frozenset([asset_key(STREAM)]),
            tags=tags,
            root_run_id=root,
            parent_run_id=of,
        )
        with deployed.instance._run_storage.connect() as storage:
            storage.execute(
                RunsTable.update()
                .values(create_timestamp=datetime.fromtimestamp(at, UTC))
                .where(RunsTable.c.run_id == run.run_id)
            )
        return run.run_id

    def carry_out(self, deployed: Deployment, run_id: str) -> None:
        job = deployed.defs.resolve_implicit_global_asset_job_def()
        of_one = job.get_subset(asset_selection={asset_key(STREAM)}).with_executor_def(
            dg.in_process_executor
        )
        run = deployed.instance.get_run_by_id(run_id)
        assert execute_run(InMemoryJob(of_one), run, deployed.instance).success

    def test_the_retry_of_a_start_is_as_old_as_the_first_run(self, stopped: Deployment) -> None:
        at = stopped.world.records["clicks"].asked["stop"]
        first = self.made(stopped, at - 90)
        retry = self.made(stopped, at + 1, first, **{"dagster/retry_number": "1"})
        again = self.made(stopped, at + 2, retry, **{"dagster/retry_number": "2"})
        self.carry_out(stopped, again)
        assert state(stopped) == (1, DriverState.STOPPED)

    def test_that_of_what_was_run_again_by_hand_is_as_old_as_that(
        self, stopped: Deployment
    ) -> None:
        at = stopped.world.records["clicks"].asked["stop"]
        first = self.made(stopped, at - LONG)
        by_hand = self.made(stopped, at + 1, first)
        retry = self.made(stopped, at + 2, by_hand, **{"dagster/retry_number": "1"})
        self.carry_out(stopped, retry)
        assert state(stopped) == (2, DriverState.RUNNING)


def test_what_was_asked_for_is_kept_as_json(deployed: Deployment) -> None:
    rescale(3)(deployed)
    assert list(json.loads(json.dumps(dict(deployed.world.records["clicks"].asked)))) == ["rescale"]
