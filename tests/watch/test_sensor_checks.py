"""What a tick stores of health checks."""

import json
import re

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationPlanned,
)
from dagster._core.events import DagsterEvent

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.observe.findings import Health
from dagster_sparkscale.observe.status import Query
from dagster_sparkscale.watch import turns
from dagster_sparkscale.watch.memory import Memory
from tests.fakes import QUERY, scaled
from tests.watch.deployment import Deployment, overload


class TestChecks:
    def test_the_first_outcome_is_stored_and_then_only_changes(self, deployed):
        kept = overload(deployed, batch_seconds=5)
        everything = {health.value: True for health in Health}
        del everything["lag_within_limit"], everything["no_data_lost"]  # no source tells
        assert deployed.tick().checks() == everything
        assert deployed.tick().checks() == {}
        kept.batch_seconds = 25
        assert deployed.tick().checks() == {"ratio_below_one": False}
        assert deployed.tick().checks() == {}
        kept.batch_seconds = 5
        assert deployed.tick().checks() == {"ratio_below_one": True}

    def test_what_is_stored_says_since_when(self, deployed):
        overload(deployed, batch_seconds=25)
        (stored,) = (
            event
            for event in deployed.tick().of(dg.AssetCheckEvaluation)
            if event.check_name == "ratio_below_one"
        )
        since = r"R is 2\.50 \(since \d{4}-\d\d-\d\d \d\d:\d\d UTC\)"
        assert re.fullmatch(since, stored.description)

    def test_every_further_loss_of_data_is_stored(self, deployed):
        kept = overload(deployed, batch_seconds=5)

        def lost(times):
            kept.queries = (Query(QUERY, active=True, source_lost=times),)
            found = deployed.tick().of(dg.AssetCheckEvaluation)
            return [(e.passed, e.severity) for e in found if e.check_name == "no_data_lost"]

        warning = dg.AssetCheckSeverity.WARN
        assert lost(0) == [(True, warning)]
        assert lost(1) == [(False, warning)]
        assert lost(1) == []
        assert lost(3) == [(False, warning)]
        assert lost(None) == []
        assert lost(3) == []
        assert lost(0) == [(True, warning)]

    def test_what_had_failed_does_not_stand_while_the_stream_is_stopped(self, deployed):
        kept = overload(deployed, batch_seconds=25)
        kept.queries = (Query(QUERY, active=True, error="it broke"),)
        assert deployed.tick().checks()["ratio_below_one"] is False
        deployed.world.end("clicks", DriverState.STOPPED)
        stored = deployed.tick().of(dg.AssetCheckEvaluation)
        assert {one.check_name: one.passed for one in stored} == {
            "running": False,
            "ratio_below_one": True,
        }
        assert "not judged: the stream was stopped on request" in stored[-1].description
        assert deployed.tick().checks() == {}

    def test_a_lag_above_the_policys_limit_is_a_warning(self):
        deployed = Deployment([scaled(max_lag="1 min", max_executors=10)])
        kept = overload(deployed, deployed.streams[0], batch_seconds=5)
        kept.queries = (Query(QUERY, active=True, behind_ms=90_000),)
        tick = deployed.tick()
        assert tick.checks()["lag_within_limit"] is False
        (request,) = tick.requests
        assert request.run_config["ops"]["rescale"]["config"]["target"] == 3

    def test_an_outcome_that_cannot_be_told_leaves_the_last_one_standing(self, deployed):
        kept = overload(deployed, batch_seconds=5)
        deployed.tick()
        kept.reachable = False
        assert deployed.tick().checks() == {"running": False}
        kept.reachable = True
        assert deployed.tick().checks() == {"running": True}

    def test_a_failed_driver_brings_its_log(self, deployed):
        overload(deployed).log = ["Traceback", "it broke"]
        deployed.world.end("clicks")
        (check,) = deployed.tick().of(dg.AssetCheckEvaluation)
        assert (check.check_name, check.passed) == ("running", False)
        assert check.severity == dg.AssetCheckSeverity.ERROR
        assert check.metadata["log"].value == "Traceback\nit broke"

    def test_a_stream_that_is_not_meant_to_run_is_a_warning(self, deployed):
        (check,) = deployed.tick().of(dg.AssetCheckEvaluation)
        assert (check.check_name, check.passed) == ("running", False)
        assert check.severity == dg.AssetCheckSeverity.WARN

    def test_a_stream_at_its_maximum_fails_one_of_them(self, deployed):
        overload(deployed, executors=10)
        assert deployed.tick().checks()["below_maximum"] is False


class TestChecksThatAreStoredOtherwise:
    def test_one_that_was_run_by_hand_at_a_bad_moment_does_not_stay_red(self, deployed, clock):
        overload(deployed, batch_seconds=5)
        deployed.tick()
        deployed.instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(
                asset_key=dg.AssetKey("clicks"), check_name="running", passed=False
            )
        )
        clock[0] += 3600
        assert deployed.tick().checks()["running"] is True

    def test_what_a_start_has_stored_does_not_stand_once_its_driver_has_failed(
        self, deployed, clock
    ):
        assert deployed.tick().checks()["running"] is False  # never started
        overload(deployed, batch_seconds=5)
        deployed.instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(
                asset_key=dg.AssetKey("clicks"), check_name="running", passed=True
            )
        )
        deployed.world.end("clicks")
        clock[0] += 60
        checks = deployed.tick().checks()
        assert checks["running"] is False
        clock[0] += 60
        assert "running" not in deployed.tick().checks()

    def test_one_that_a_start_has_planned_and_not_told_comes_back(self, deployed, clock):
        """As a run does of every check that it could tell of, and not all can be told so early."""
        overload(deployed, batch_seconds=5)
        assert deployed.tick().checks()["batches_completing"] is True
        run = "5e1c0000-0000-0000-0000-000000000001"
        planned = dg.AssetCheckKey(dg.AssetKey("clicks"), "batches_completing")
        deployed.instance.report_dagster_event(
            DagsterEvent(
                event_type_value="ASSET_CHECK_EVALUATION_PLANNED",
                job_name="a",
                event_specific_data=AssetCheckEvaluationPlanned(
                    asset_key=planned.asset_key, check_name=planned.name
                ),
            ),
            run_id=run,
        )
        clock[0] += 3600
        tick = deployed.tick()
        assert tick.checks()["batches_completing"] is True
        assert "healthy" in tick.told()[0].metadata["state"].value
        assert tick.data.skip_message is None or "can't be told" not in tick.data.skip_message

    def test_those_of_an_asset_that_was_wiped_come_back(self, deployed, clock):
        overload(deployed, batch_seconds=5)
        stored = deployed.tick().checks()
        deployed.instance.wipe_assets([dg.AssetKey("clicks")])
        clock[0] += 3600
        tick = deployed.tick()
        assert tick.checks() == stored
        assert "healthy" in tick.told()[0].metadata["state"].value


class TestHowMuchIsStored:
    """Dagster refuses a tick above 100 MB, with all that it asks for."""

    def test_of_a_log_its_end(self, deployed):
        kept = overload(deployed)
        deployed.tick()
        kept.log = [f"{number} " + "\x01\udc80" * 20_000 for number in range(30)]
        deployed.world.end("clicks")
        failed = [each for each in deployed.tick().of(dg.AssetCheckEvaluation) if not each.passed]
        logs = [each.metadata["log"].value for each in failed]
        assert logs and all(1000 < len(json.dumps(log)) <= 2010 for log in logs)
        assert logs[0].startswith("...") and logs[0].endswith(kept.log[-1][-20:])

    def test_a_short_log_is_stored_whole(self, deployed):
        kept = overload(deployed)
        deployed.tick()
        kept.log = ["ValueError: no such topic"]
        deployed.world.end("clicks")
        (failed,) = (
            each for each in deployed.tick().of(dg.AssetCheckEvaluation) if not each.passed
        )
        assert failed.metadata["log"].value == "ValueError: no such topic"

    def test_what_is_too_much_for_one_tick_is_told_at_the_next(self, monkeypatch):
        names = [f"s{number}" for number in range(5)]
        deployed = Deployment([scaled(name) for name in names])
        for stream in deployed.streams:
            overload(deployed, stream)
        monkeypatch.setattr(turns, "MOST_TOLD", 0)
        told = []
        for _ in range(8):
            tick = deployed.tick()
            told += [name for name in names if tick.told(name)]
            # Their records have gone on: the next event says so, whether or not more come by then.
            waits = [name for name in names if name not in told]
            assert all(Memory.load(deployed.cursor).of(name).advanced for name in waits)
            assert len(tick.requests) == (5 if len(told) <= 1 else 0)
        assert sorted(told[:5]) == names
        minutes = [minute for name in names for minute in tick.minutes(name)]
        assert minutes  # none is lost: those that are not told of wait
