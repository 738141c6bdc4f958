"""Health checks that somebody runs by hand."""

import re

import dagster as dg
import pytest

from dagster_sparkscale.definitions import build_defs
from dagster_sparkscale.observe.findings import Health
from tests.fakes import structured
from tests.releases import PREFIX

SEEN = r"\(seen \d{4}-\d\d-\d\d \d\d:\d\d UTC\)"


class TestHealthChecksByHand:
    @pytest.fixture
    def instance(self):
        with dg.DagsterInstance.ephemeral() as instance:
            yield instance

    def outcomes(self, world, instance, selection=None, **fields) -> dict:
        defs = build_defs([structured(**fields)], world.cluster)
        selection = selection or dg.AssetSelection.all_asset_checks()
        job = dg.define_asset_job("by_hand", selection=selection)
        resolved = dg.Definitions.merge(defs, dg.Definitions(jobs=[job])).resolve_job_def("by_hand")
        result = resolved.execute_in_process(instance=instance)
        assert result.success
        return {e.check_name: e for e in result.get_asset_check_evaluations()}

    def store(self, instance, check, passed, **fields):
        """An outcome as the sensor stores it."""
        evaluation = dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey("clicks"), check_name=check, passed=passed, **fields
        )
        instance.report_runless_asset_event(evaluation)

    def shown(self, instance, check) -> tuple[str, bool | None]:
        """What Dagster's pages show: of the last execution, and the last that has an outcome."""
        key = dg.AssetCheckKey(dg.AssetKey("clicks"), check)
        storage = instance.event_log_storage
        (summary,) = storage.get_asset_check_summary_records([key]).values()
        last, outcome = (
            summary.last_check_execution_record,
            (summary.last_completed_check_execution_record),
        )
        passed = outcome.evaluation.passed if outcome else None
        return last.status.value if last else "none", passed

    def test_a_healthy_stream_passes_all_that_can_be_told(self, world, instance):
        from dataclasses import replace

        kept = world.run(structured(), batch_seconds=5.0)
        kept.driver = replace(kept.driver, submitted_at=kept.driver.submitted_at - 3600)
        outcomes = self.outcomes(world, instance)
        # No source tells of a lag or of losses.
        told = set(Health) - {Health.LAG_WITHIN_LIMIT, Health.NO_DATA_LOST}
        assert {name: o.passed for name, o in outcomes.items()} == {h.value: True for h in told}

    def test_a_stream_that_was_never_started_passes_none(self, world, instance):
        outcomes = self.outcomes(world, instance)
        assert not any(o.passed for o in outcomes.values())
        assert outcomes["running"].description.startswith("never started")

    @pytest.mark.parametrize("stored", [None, True])
    def test_what_cannot_be_told_is_neither_passed_nor_failed(self, world, instance, stored):
        world.run(structured())  # just started: R is unknown
        if stored is not None:
            self.store(instance, "ratio_below_one", stored)
        assert set(self.outcomes(world, instance)) == {
            "running",
            "declaration_applied",
        }
        assert self.shown(instance, "ratio_below_one") == ("PLANNED", stored)

    def test_a_stored_failure_stands_and_is_not_hidden(self, world, instance):
        world.run(structured())
        text = "R is 1.20"
        warning = dg.AssetCheckSeverity.WARN
        self.store(instance, "ratio_below_one", True)
        self.store(
            instance,
            "ratio_below_one",
            False,
            description=text,
            severity=warning,
            metadata={"log": "it broke"},
        )
        for _ in range(2):
            outcome = self.outcomes(world, instance)["ratio_below_one"]
            assert (outcome.passed, outcome.description, outcome.severity) == (False, text, warning)
            shown = {name: value.value for name, value in outcome.metadata.items()}
            assert re.fullmatch(f"R is unknown {SEEN}", shown.pop("as stored before; now"))
            assert shown == {"log": "it broke"}
        assert self.shown(instance, "ratio_below_one") == ("FAILED", False)

    @pytest.mark.parametrize("check", [health.value for health in Health])
    def test_each_can_be_run_alone(self, world, instance, check):
        world.run(structured())
        selection = dg.AssetSelection.checks(dg.AssetCheckKey(dg.AssetKey("clicks"), check))
        assert set(self.outcomes(world, instance, selection)) <= {check}
        defs = build_defs([structured()], world.cluster)
        graph = defs.resolve_asset_graph()
        key = dg.AssetCheckKey(dg.AssetKey("clicks"), check)
        assert graph.get_execution_set_asset_and_check_keys(key) == {key}

    def test_what_it_says_has_its_time(self, world, instance):
        world.run(structured())
        outcome = self.outcomes(world, instance)["running"]
        assert re.fullmatch(f"driver 1 is running {SEEN}", outcome.description)

    def test_a_failed_one_brings_its_log(self, world, instance):
        world.run(structured()).log = ["it broke"]
        world.end("clicks")
        outcome = self.outcomes(world, instance)["running"]
        assert outcome.severity == dg.AssetCheckSeverity.ERROR
        assert outcome.metadata["log"].value == "it broke"

    def test_a_prefix_that_is_no_python_name_is_fine(self, world, instance):
        outcomes = self.outcomes(world, instance, key_prefix=PREFIX)
        assert set(outcomes) == {"running"}
