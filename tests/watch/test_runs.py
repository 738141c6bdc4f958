"""The runs that the sensor asks for, and those by hand."""

import datetime
from dataclasses import replace

import dagster as dg
import pytest

from dagster_sparkscale.autoscale import rescale_job
from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.autoscale.rescale import Rescaled
from dagster_sparkscale.names import OPERATION_TAG, STORY, STREAM_TAG
from tests.fakes import scaled, structured
from tests.watch.deployment import Deployment, failure_of, overload


def logged(deployed: Deployment, result: dg.ExecuteInProcessResult) -> list[str]:
    """What the run's page shows."""
    return [entry.user_message for entry in deployed.instance.all_logs(result.run_id)]


class TestRescaleRuns:
    def test_what_the_sensor_asks_for_is_carried_out(self, deployed):
        overload(deployed)
        (request,) = deployed.tick().requests
        result = deployed.run(request)
        assert result.success
        kept = deployed.world.streams["clicks"]
        assert (kept.requested, kept.registered) == (5, 5)
        (event,) = result.get_asset_observation_events()
        observation = event.asset_observation_data.asset_observation
        assert observation.asset_key == dg.AssetKey("clicks")
        assert observation.description.startswith("2 -> 5 executors in")
        values = observation.metadata[STORY].value
        assert values["ending"] == "reached"
        assert values["reason"].startswith("2 registered -> 5: R 2.50")
        assert (values["executors_before"], values["executors_target"]) == (2, 5)
        assert (values["executors_after"], values["executors_missing"]) == (5, 0)
        assert (values["epoch"], values["notes"]) == (1, "none")

    def test_executors_that_are_not_known_are_no_none(self, deployed, monkeypatch):
        def untold(*args: object) -> Rescaled:
            return replace(carried_out(*args), ending="superseded", registered_after=None)

        overload(deployed)
        carried_out = rescale_job.rescale
        monkeypatch.setattr(rescale_job, "rescale", untold)
        result = deployed.by_hand("rescale", stream="clicks", target=3)
        assert [line for line in logged(deployed, result) if "2 -> ? executors, target 3" in line]

    def test_a_driver_that_has_failed_since_makes_a_restart_and_no_red_run(self, deployed):
        overload(deployed)
        (request,) = deployed.tick().requests
        deployed.world.end("clicks", ended_at=1.0)
        result = deployed.run(request)
        assert result.success
        why = "decided for driver 1, which has failed since"
        assert f"nothing to do: {why}" in logged(deployed, result)
        (event,) = result.get_asset_observation_events()
        observation = event.asset_observation_data.asset_observation
        assert observation.description == f"nothing to do: {why}"
        values = observation.metadata[STORY].value
        assert values["ending"] == "overtaken"
        (next_request,) = deployed.tick().requests
        assert next_request.job_name == "restart"
        assert deployed.run(next_request).success
        assert deployed.run(request).success  # also with another driver there

    def test_by_hand_a_stream_that_has_failed_is_still_refused(self, deployed):
        overload(deployed)
        deployed.world.end("clicks")
        result = deployed.by_hand("rescale", stream="clicks", target=3)
        assert failure_of(result).startswith("'clicks' is failed: materialize its asset to start")

    def test_after_it_the_next_tick_sees_the_new_number(self, deployed):
        kept = overload(deployed)
        (request,) = deployed.tick().requests
        deployed.run(request)
        kept.batch_seconds = 5
        assert deployed.tick().seen().registered == 5

    def test_executors_that_do_not_come_are_a_success_that_says_so(self, deployed):
        deployed.world.cores = 3
        overload(deployed)
        result = deployed.by_hand("rescale", stream="clicks", target=8, wait_seconds=0)
        assert result.success
        (event,) = result.get_asset_observation_events()
        metadata = event.asset_observation_data.asset_observation.metadata
        assert metadata[STORY].value["ending"] == "short"
        assert "5 of 8 executors have not come yet" in metadata[STORY].value["notes"]

    def test_a_delta_by_hand(self, deployed):
        overload(deployed, executors=4)
        assert deployed.by_hand("rescale", stream="clicks", delta=-2).success
        assert deployed.world.streams["clicks"].requested == 2

    def test_an_unknown_stream_is_refused_before_a_run_starts(self, deployed):
        with pytest.raises(dg.DagsterInvalidConfigError, match="got orders"):
            deployed.by_hand("rescale", stream="orders", target=3)
        assert deployed.instance.get_runs() == []

    @pytest.mark.parametrize(
        ("config", "text"),
        [
            ({}, "target and delta: neither given; give one"),
            ({"target": 3, "delta": 1}, "target and delta: both given; give one"),
            ({"delta": 0}, "delta = 0: changes nothing"),
            ({"target": 0}, "target = 0: 'clicks' has a minimum of 1; to run none, use the stop"),
            (
                {"target": 7},
                "maximum of 6; a maximum of 10 was declared, but 6 is all it can reach",
            ),
            ({"target": 3, "epoch": 9}, "decided for driver 9, but driver 1 runs by now"),
        ],
    )
    def test_a_request_that_makes_no_sense_fails_with_what_would(self, config, text):
        stream = structured(
            spark_conf={"spark.cores.max": 6}, autoscale=RatioPolicy(max_executors=10)
        )
        deployed = Deployment([stream])
        overload(deployed, stream)
        result = deployed.by_hand("rescale", stream="clicks", **config)
        assert text in failure_of(result)
        assert deployed.world.streams["clicks"].requested == 2

    def test_a_stream_that_is_not_running_fails_with_what_to_do(self, deployed):
        text = failure_of(deployed.by_hand("rescale", stream="clicks", target=3))
        assert text == "'clicks' is not started: materialize its asset to start it, then scale it"

    def test_an_agent_that_is_silent_fails_the_run(self, deployed):
        overload(deployed).reachable = False
        text = failure_of(deployed.by_hand("rescale", stream="clicks", target=3))
        assert text == "the agent of driver 1 does not answer"

    @pytest.mark.parametrize("name", ["name", "value", "x", "Stream", "names"])
    def test_any_name_a_stream_may_have_can_be_given(self, name):
        deployed = Deployment([scaled(name), scaled("other")])
        for stream in deployed.streams:
            overload(deployed, stream)
        assert deployed.by_hand("rescale", stream=name, target=3).success
        assert deployed.world.streams[name].requested == 3
        assert deployed.world.streams["other"].requested == 2


class TestRestartAndStopRuns:
    def test_what_the_sensor_asks_for_is_carried_out(self, deployed):
        overload(deployed).log = ["it broke"]
        deployed.world.end("clicks", ended_at=1.0)
        (request,) = deployed.tick().requests
        result = deployed.run(request)
        assert result.success
        kept = deployed.world.streams["clicks"]
        assert (kept.driver.epoch, deployed.world.cluster.history("clicks")[-1].cause) == (
            2,
            "recovery",
        )
        (event,) = result.get_asset_observation_events()
        metadata = event.asset_observation_data.asset_observation.metadata
        assert metadata[STORY].value["action"] == "started"
        assert metadata[STORY].value["epoch"] == 2
        assert "last log lines of driver 1:\nit broke" in logged(deployed, result)

    def test_a_second_run_of_the_same_request_does_nothing(self, deployed):
        overload(deployed)
        deployed.world.end("clicks", ended_at=1.0)
        (request,) = deployed.tick().requests
        deployed.run(request)
        deployed.world.streams["clicks"].log = ["all is well"]
        again = deployed.run(request)
        assert again.success
        assert deployed.world.streams["clicks"].driver.epoch == 2
        # The driver that runs by now is not the one that failed: its log explains nothing.
        assert not any("last log lines" in line for line in logged(deployed, again))

    def test_a_restart_by_hand_replaces_the_driver(self, deployed):
        overload(deployed)
        assert deployed.by_hand("restart", stream="clicks").success
        kept = deployed.world.streams["clicks"]
        assert (kept.driver.epoch, deployed.world.cluster.history("clicks")[-1].cause) == (
            2,
            "manual",
        )
        assert "stop clicks gracefully" in deployed.world.calls

    def test_a_crash_at_the_start_fails_the_run_with_the_log(self, deployed):
        def crash(kept):
            kept.log = ["Traceback", "it broke"]
            deployed.world.end("clicks")

        deployed.world.on_submit = crash
        text = failure_of(deployed.by_hand("restart", stream="clicks"))
        assert text.endswith("Its last log lines:\nTraceback\nit broke")

    @pytest.mark.parametrize("alive", [True, False])
    def test_a_stop_says_how_what_it_has_ended_was_ended(self, deployed, alive):
        kept = overload(deployed)
        ending = "killed after 120 s; it is not known what was drained"
        kept.driver = replace(kept.driver, ending=ending)
        if not alive:
            deployed.world.end("clicks")
        result = deployed.by_hand("stop", stream="clicks")
        (event,) = result.get_asset_observation_events()
        before, how = ("running", f": {ending}") if alive else ("failed", "")
        said = event.asset_observation_data.asset_observation.description
        assert said == f"driver 1 was {before} and is stopped now{how}"

    @pytest.mark.parametrize(("graceful", "how"), [(True, "gracefully"), (False, "at once")])
    def test_a_stop_stops_and_the_stream_stays_stopped(self, deployed, graceful, how):
        overload(deployed)
        result = deployed.by_hand("stop", stream="clicks", graceful=graceful)
        assert result.success
        assert deployed.world.calls[-1] == f"stop clicks {how}"
        (event,) = result.get_asset_observation_events()
        observation = event.asset_observation_data.asset_observation
        assert observation.description == "driver 1 was running and is stopped now"
        assert observation.metadata[STORY].value["exit_reason"] == "stop requested"
        tick = deployed.tick()
        assert tick.requests == []
        assert tick.decided() == "hold: stopped on request"

    @pytest.mark.parametrize(
        ("config", "batch_takes", "killed"),
        [
            ({}, 119, False),
            ({}, 121, True),
            ({"timeout_seconds": 600}, 599, False),
            ({"timeout_seconds": 5}, 6, True),
        ],
    )
    def test_a_stop_waits_for_the_batch_as_long_as_it_is_told_to(
        self, deployed, config, batch_takes, killed
    ):
        overload(deployed, ends_after=batch_takes)
        assert deployed.by_hand("stop", stream="clicks", **config).success
        assert ("kill clicks" in deployed.world.calls) == killed

    def test_a_stop_of_what_never_ran_says_so(self, deployed):
        text = failure_of(deployed.by_hand("stop", stream="clicks"))
        assert text == "'clicks' was never started: there is nothing to stop"

    def test_an_operation_beside_another_is_refused_by_its_holder(self, deployed, monkeypatch):
        monkeypatch.setattr("dagster_sparkscale.operations.LEASE_WAIT", 0)
        overload(deployed)
        with deployed.world.cluster.lease("clicks", "rescale run 12345678"):
            text = failure_of(deployed.by_hand("stop", stream="clicks"))
        assert "rescale run 12345678 has held 'clicks' since" in text


def test_an_unattended_stream_comes_back_after_every_crash_until_the_limit():
    """Ticks and runs together: a stream whose program always breaks is given up in the end."""
    from dagster_sparkscale.declare.policies import RecoveryPolicy

    stream = structured(recovery=RecoveryPolicy(limit=3))
    deployed = Deployment([stream])
    deployed.world.run(stream)
    long_ago = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC).timestamp()
    deployed.world.end("clicks", ended_at=long_ago)
    deployed.world.on_submit = lambda kept: deployed.world.end("clicks", ended_at=long_ago)
    attempts = 0
    while requests := deployed.tick().requests:
        attempts += 1
        job = deployed.defs.resolve_job_def("restart")
        result = job.execute_in_process(
            run_config=requests[0].run_config, instance=deployed.instance, raise_on_error=False
        )
        assert "ended before its first query" in failure_of(result)
        assert attempts <= 3
    assert attempts == 3
    assert "giving up" in deployed.tick().decided()


class TestStarts:
    """A run that materializes assets may start one stream or many."""

    @pytest.mark.parametrize("names", [["clicks"], ["clicks", "orders"]])
    def test_the_run_of_one_has_its_tags(self, names):
        deployed = Deployment([scaled(), scaled("orders")])
        job = deployed.defs.resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(
            instance=deployed.instance,
            asset_selection=[dg.AssetKey(name) for name in names],
        )
        assert result.success
        run = deployed.instance.get_run_by_id(result.run_id)
        found = (run.tags.get(OPERATION_TAG), run.tags.get(STREAM_TAG))
        assert found == (("start", "clicks") if len(names) == 1 else (None, None))
