"""The sensor as Dagster evaluates it, and the runs it asks for, on a cluster in memory."""

import datetime
import threading
import time
from dataclasses import dataclass, field

import dagster as dg
import pytest

from dagster_sparkscale.autoscale import rescale as rescale_module
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.definitions import build_defs
from dagster_sparkscale.lifecycle import reconcile as reconcile_module
from dagster_sparkscale.names import PREFIX
from dagster_sparkscale.policies import RatioPolicy
from dagster_sparkscale.runs import Streams
from dagster_sparkscale.watch import sensor as sensor_module
from dagster_sparkscale.watch.health import Health
from tests.fakes import World, scaled, structured

HOUR = 3600.0


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(rescale_module, "_POLL", 0)
    monkeypatch.setattr(reconcile_module, "_POLL", 0)


@dataclass
class Deployment:
    """A code location with its sensor, on a cluster in memory."""

    streams: list
    world: World = field(default_factory=World)
    instance: dg.DagsterInstance = field(default_factory=dg.DagsterInstance.ephemeral)
    cursor: str | None = None
    cluster_key: str = "spark_cluster"

    def __post_init__(self):
        self.defs = build_defs(self.streams, self.world.cluster, cluster_key=self.cluster_key)
        ending = "" if self.cluster_key == "spark_cluster" else f"_{self.cluster_key}"
        self.sensor = self.defs.resolve_sensor_def(f"autoscaler{ending}")

    def tick(self):
        with dg.build_sensor_context(
            instance=self.instance,
            definitions=self.defs,
            resources=self.defs.resources,
            cursor=self.cursor,
        ) as context:
            data = self.sensor.evaluate_tick(context)
        self.cursor = data.cursor
        return Tick(data)

    def run(self, request) -> dg.ExecuteInProcessResult:
        """Carry out a run that the sensor asked for."""
        job = self.defs.resolve_job_def(request.job_name)
        return job.execute_in_process(
            run_config=request.run_config, tags=request.tags, instance=self.instance
        )

    def by_hand(self, job: str, **config) -> dg.ExecuteInProcessResult:
        return self.defs.resolve_job_def(job).execute_in_process(
            run_config={"ops": {job: {"config": config}}},
            instance=self.instance,
            raise_on_error=False,
        )


@dataclass
class Tick:
    data: object

    @property
    def requests(self):
        return list(self.data.run_requests or [])

    def of(self, kind, stream: str | None = None) -> list:
        return [
            event
            for event in self.data.asset_events
            if isinstance(event, kind) and stream in (None, event.asset_key.path[-1])
        ]

    def observed(self, stream: str = "clicks") -> dict:
        """What was observed of the stream, without the prefix."""
        (event,) = self.of(dg.AssetObservation, stream)
        return {key.removeprefix(PREFIX): value.value for key, value in event.metadata.items()}

    def checks(self, stream: str = "clicks") -> dict[str, bool]:
        return {e.check_name: e.passed for e in self.of(dg.AssetCheckEvaluation, stream)}


STREAM = scaled(max_executors=10)


@pytest.fixture
def deployed() -> Deployment:
    return Deployment([STREAM])


def grown(kept):
    """A driver that has run for longer than its window, so that it is judged."""
    from dataclasses import replace

    kept.driver = replace(kept.driver, submitted_at=time.time() - HOUR)
    return kept


def overload(deployed: Deployment, stream=STREAM, **fields):
    return grown(deployed.world.run(stream, **{"executors": 2, "batch_seconds": 25} | fields))


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    assert not result.success
    (failure,) = (event for event in result.all_events if event.is_step_failure)
    return failure.event_specific_data.user_failure_data.description


class TestObservations:
    def test_each_stream_gets_one_with_the_same_keys_whatever_its_state(self):
        names = ["running", "failed", "stopped", "unreachable", "unused", "idle", "broken"]
        deployed = Deployment([scaled(name) for name in names])
        for stream in deployed.streams:
            if stream.name != "unused":
                deployed.world.run(stream)
        kept = deployed.world.streams
        kept["running"].batch_seconds = 5
        kept["unreachable"].reachable = False
        deployed.world.end("failed")
        deployed.world.end("stopped", DriverState.STOPPED)

        def find(stream):
            if stream == "broken":
                raise RuntimeError("its record is broken")

        deployed.world.on_find = find
        tick = deployed.tick()
        assert len(tick.of(dg.AssetObservation)) == len(names)
        observed = {name: tick.observed(name) for name in names}
        assert len({frozenset(one) for one in observed.values()}) == 1
        assert {name: one["state"] for name, one in observed.items()} == {
            "running": "running",
            "idle": "running",
            "failed": "failed",
            "stopped": "stopped",
            "unreachable": "running",
            "unused": "not started",
            "broken": "unknown",
        }

    def test_what_was_seen_is_in_it(self, deployed):
        overload(deployed)
        observed = deployed.tick().observed()
        assert observed["ratio"] == 2.5
        assert observed["processing_ms"] == 25_000.0
        assert observed["input_rate"] == pytest.approx(100 / 60, abs=1e-3)
        assert observed["processed_rate"] == 4.0
        assert (observed["completed_batches"], observed["failed_batches"]) == (1, 0)
        assert (observed["executors_registered"], observed["executors_requested"]) == (2, 2)
        assert (observed["executors_maximum"], observed["epoch"]) == (10, 1)
        assert observed["decision"] == "scale to 5"
        assert observed["reason"].startswith("R 2.50 of query 'counts' is at or above 0.9")

    @pytest.mark.parametrize("state", ["unreachable", "not started", "failed"])
    def test_what_was_not_measured_is_null_and_never_zero(self, deployed, state):
        if state != "not started":
            overload(deployed).reachable = state != "unreachable"
        if state == "failed":
            deployed.world.end("clicks")
        observed = deployed.tick().observed()
        told = {"state", "decision", "reason", "executors_maximum"}
        if state != "not started":
            told.add("epoch")
        assert {key for key, value in observed.items() if value is not None} == told

    def test_the_asset_is_that_of_the_stream_with_its_prefix(self):
        deployed = Deployment([structured(key_prefix=("raw", "web-logs"))])
        (event,) = deployed.tick().of(dg.AssetObservation)
        assert event.asset_key == dg.AssetKey(["raw", "web-logs", "clicks"])


class TestRequests:
    def test_a_rescale_is_requested_with_all_that_the_run_needs(self, deployed):
        overload(deployed)
        before = int(time.time())
        (request,) = deployed.tick().requests
        assert request.job_name == "rescale"
        (config,) = (op["config"] for op in request.run_config["ops"].values())
        assert config["stream"] == "clicks"
        assert (config["target"], config["epoch"]) == (5, 1)
        assert config["reason"].startswith("R 2.50")
        own = {k: v for k, v in request.tags.items() if k.startswith(PREFIX)}
        assert own == {
            PREFIX + "stream": "clicks",
            PREFIX + "cluster": "spark_cluster",
            PREFIX + "operation": "rescale",
            PREFIX + "epoch": "1",
        }
        stream, epoch, second = request.run_key.split(":")
        assert (stream, epoch) == ("clicks", "1")
        assert before <= int(second) <= time.time()

    def test_a_restart_of_a_failed_driver_is_requested_when_it_is_due(self, deployed):
        overload(deployed)
        deployed.world.end("clicks", ended_at=time.time() - 11)
        (request,) = deployed.tick().requests
        assert request.job_name == "restart"
        (config,) = (op["config"] for op in request.run_config["ops"].values())
        assert config["failed_epoch"] == 1
        assert "restart 1 of 5" in config["reason"]
        assert request.tags[PREFIX + "operation"] == "restart"

    def test_a_restart_that_is_not_due_yet_is_not_requested(self, deployed):
        overload(deployed)
        deployed.world.end("clicks", ended_at=time.time() + HOUR)
        tick = deployed.tick()
        assert tick.requests == []
        assert "restart 1 of 5 in" in tick.data.skip_message

    def test_each_stream_gets_its_own(self):
        deployed = Deployment([scaled(name) for name in ("a", "b", "c")])
        for stream in deployed.streams:
            overload(deployed, stream, batch_seconds={"a": 25, "b": 5, "c": 0}[stream.name])
        requests = {
            request.tags[PREFIX + "stream"]: request for request in deployed.tick().requests
        }
        assert set(requests) == {"a", "c"}
        assert len({request.run_key for request in requests.values()}) == 2

    def test_with_nothing_to_do_the_reason_of_every_stream_is_given(self):
        deployed = Deployment([scaled("a"), structured("b"), scaled("c")])
        overload(deployed, deployed.streams[0], batch_seconds=5)
        overload(deployed, deployed.streams[1])
        tick = deployed.tick()
        assert tick.requests == []
        assert tick.data.skip_message.splitlines() == [
            "a: hold: R 0.50 of query 'counts' is between 0.3 and 0.9",
            "b: hold: the stream has no autoscale policy",
            "c: hold: not started: materialize the asset to start it",
        ]

    def test_an_evaluation_before_the_interval_has_passed_is_not_acted_on(self):
        deployed = Deployment([scaled(interval=600)])
        overload(deployed)
        assert len(deployed.tick().requests) == 1
        again = deployed.tick()
        assert again.requests == []
        assert "not due yet; otherwise: scale to 5" in again.data.skip_message

    def test_a_clock_that_was_set_back_does_not_stop_the_scaling(self, deployed, monkeypatch):
        overload(deployed)
        ahead = time.time() + 30 * 24 * HOUR
        monkeypatch.setattr(sensor_module.time, "time", lambda: ahead)
        deployed.tick()
        monkeypatch.undo()
        monkeypatch.setattr(rescale_module, "_POLL", 0)
        assert len(deployed.tick().requests) == 1

    @pytest.mark.parametrize(
        "cursor", ["", "{", "[]", '{"clicks": {"decided_at": "x"}}', '{"clicks": {"checks": 1}}']
    )
    def test_a_cursor_that_cannot_be_read_does_not_stop_the_scaling(self, deployed, cursor):
        deployed.cursor = cursor
        overload(deployed)
        assert len(deployed.tick().requests) == 1

    def test_another_cluster_has_names_of_its_own(self):
        deployed = Deployment([STREAM], cluster_key="west")
        overload(deployed)
        (request,) = deployed.tick().requests
        assert request.job_name == "rescale_west"
        assert request.tags[PREFIX + "cluster"] == "west"
        assert deployed.run(request).success
        assert deployed.world.streams["clicks"].requested == 5


class TestOperationsInFlight:
    def in_flight(self, deployed, status=dg.DagsterRunStatus.STARTED, **tags):
        """A run that Dagster believes to be going on."""
        run = deployed.instance.create_run_for_job(
            deployed.defs.resolve_job_def("stop"),
            run_config={"ops": {"stop": {"config": {"stream": "clicks"}}}},
            tags={
                PREFIX + "stream": "clicks",
                PREFIX + "cluster": "spark_cluster",
                PREFIX + "operation": "stop",
            }
            | {PREFIX + name: value for name, value in tags.items()},
        )
        event = {
            dg.DagsterRunStatus.STARTING: "PIPELINE_STARTING",
            dg.DagsterRunStatus.STARTED: "PIPELINE_START",
            dg.DagsterRunStatus.CANCELING: "PIPELINE_CANCELING",
            dg.DagsterRunStatus.SUCCESS: "PIPELINE_SUCCESS",
            dg.DagsterRunStatus.FAILURE: "PIPELINE_FAILURE",
        }.get(status)
        if event:
            from dagster._core.events import DagsterEvent, DagsterEventType

            deployed.instance.report_dagster_event(
                DagsterEvent(event_type_value=DagsterEventType(event).value, job_name="stop"),
                run.run_id,
            )
        assert deployed.instance.get_run_by_id(run.run_id).status == status
        return run

    @pytest.mark.parametrize(
        "status",
        [
            dg.DagsterRunStatus.NOT_STARTED,
            dg.DagsterRunStatus.STARTING,
            dg.DagsterRunStatus.STARTED,
            dg.DagsterRunStatus.CANCELING,
        ],
        ids=lambda status: status.value,
    )
    def test_one_holds_its_stream_and_is_named(self, deployed, status):
        overload(deployed)
        run = self.in_flight(deployed, status)
        tick = deployed.tick()
        assert tick.requests == []
        assert tick.observed()["reason"].startswith(
            f"stop run {run.run_id[:8]} is in progress; otherwise: scale to 5"
        )

    def test_one_holds_a_restart_as_well(self, deployed):
        overload(deployed)
        deployed.world.end("clicks", ended_at=1.0)
        self.in_flight(deployed)
        assert deployed.tick().requests == []

    @pytest.mark.parametrize(
        "status",
        [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE],
        ids=lambda status: status.value,
    )
    def test_one_that_has_ended_holds_nothing(self, deployed, status):
        overload(deployed)
        self.in_flight(deployed, status)
        assert len(deployed.tick().requests) == 1

    @pytest.mark.parametrize("tags", [{"stream": "orders"}, {"cluster": "west"}])
    def test_one_on_another_stream_or_cluster_holds_nothing(self, deployed, tags):
        overload(deployed)
        self.in_flight(deployed, **tags)
        assert len(deployed.tick().requests) == 1

    def test_one_that_never_ends_does_not_hold_its_stream_for_ever(self, deployed):
        overload(deployed)
        self.in_flight(deployed)
        now = time.time()
        held = sensor_module.operations_in_flight(
            deployed.instance, "spark_cluster", now + sensor_module.OPERATION_LIMIT - 60
        )
        free = sensor_module.operations_in_flight(
            deployed.instance, "spark_cluster", now + sensor_module.OPERATION_LIMIT + 60
        )
        assert (set(held), set(free)) == ({"clicks"}, set())

    def test_the_time_of_a_run_is_read_as_utc_wherever_dagster_runs(self, deployed, monkeypatch):
        self.in_flight(deployed)
        for zone in ("America/Los_Angeles", "Asia/Tokyo"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            held = sensor_module.operations_in_flight(
                deployed.instance, "spark_cluster", time.time()
            )
            assert set(held) == {"clicks"}
        monkeypatch.undo()
        time.tzset()

    def test_a_run_from_the_launchpad_is_seen_though_it_began_without_tags(self, deployed):
        """The tags it is given when it starts are those the sensor looks for."""
        overload(deployed)
        result = deployed.by_hand("stop", stream="clicks")
        run = deployed.instance.get_run_by_id(result.run_id)
        wanted = Streams([STREAM], "spark_cluster").tags("clicks", "stop")
        assert {k: v for k, v in run.tags.items() if k.startswith(PREFIX)} == wanted

    def test_a_run_copied_from_one_of_another_stream_is_tagged_anew(self):
        deployed = Deployment([scaled("a"), scaled("b")])
        for stream in deployed.streams:
            overload(deployed, stream)
        result = deployed.defs.resolve_job_def("stop").execute_in_process(
            run_config={"ops": {"stop": {"config": {"stream": "b"}}}},
            tags={PREFIX + "stream": "a"},
            instance=deployed.instance,
        )
        assert deployed.instance.get_run_by_id(result.run_id).tags[PREFIX + "stream"] == "b"


class TestChecks:
    def test_the_first_outcome_is_stored_and_then_only_changes(self, deployed):
        kept = overload(deployed, batch_seconds=5)
        everything = {health.value: True for health in Health}
        assert deployed.tick().checks() == everything
        assert deployed.tick().checks() == {}
        kept.batch_seconds = 25
        assert deployed.tick().checks() == {"ratio_below_one": False}
        assert deployed.tick().checks() == {}
        kept.batch_seconds = 5
        assert deployed.tick().checks() == {"ratio_below_one": True}

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


class TestMaterializations:
    @pytest.fixture
    def clock(self, monkeypatch):
        now = [time.time()]
        monkeypatch.setattr(sensor_module.time, "time", lambda: now[0])
        return now

    def made(self, deployed) -> int:
        return len(deployed.tick().of(dg.AssetMaterialization))

    def test_one_says_that_records_were_processed(self, deployed, clock):
        overload(deployed, batch_seconds=5)
        (event,) = deployed.tick().of(dg.AssetMaterialization)
        assert event.asset_key == dg.AssetKey("clicks")
        assert event.metadata[PREFIX + "epoch"].value == 1

    def test_none_without_records(self, deployed, clock):
        overload(deployed, batch_seconds=5, records=0)
        assert self.made(deployed) == 0

    @pytest.mark.parametrize("state", ["never started", "unreachable", "failed"])
    def test_none_without_an_answer(self, deployed, clock, state):
        if state != "never started":
            overload(deployed, batch_seconds=5).reachable = False
        if state == "failed":
            deployed.world.end("clicks")
        assert self.made(deployed) == 0

    def test_not_more_often_than_every_ten_minutes(self, deployed, clock):
        overload(deployed, batch_seconds=5)
        made = []
        for _ in range(30):
            made.append(self.made(deployed))
            clock[0] += 60
            deployed.world.streams["clicks"].batch_seconds = 5
        assert made == [1, *[0] * 9] * 3

    def test_records_seen_in_between_are_not_forgotten(self, deployed, clock):
        kept = overload(deployed, batch_seconds=5)
        assert self.made(deployed) == 1
        clock[0] += 60
        assert self.made(deployed) == 0
        kept.records = 0
        clock[0] += 600
        assert self.made(deployed) == 1
        clock[0] += 600
        assert self.made(deployed) == 0


class TestManyStreams:
    def test_five_hundred_streams_make_one_bounded_tick(self):
        deployed = Deployment([scaled(f"s{number}") for number in range(500)])
        for stream in deployed.streams[:400]:
            overload(deployed, stream, batch_seconds=5)
        tick = deployed.tick()
        assert len(tick.of(dg.AssetObservation)) == 500
        reason = tick.data.skip_message
        assert len(reason) < 4200
        shown = reason.splitlines()
        assert all(line.startswith(f"s{n}: hold: ") for n, line in enumerate(shown[:-1]))
        assert shown[-1] == f"... and {500 - len(shown) + 1} more: see the tick's log"
        assert len(tick.data.cursor) < 500 * 250

    def test_one_endless_reason_is_cut(self, deployed):
        def find(stream):
            raise RuntimeError("x" * 100_000)

        deployed.world.on_find = find
        assert len(deployed.tick().data.skip_message) < 4200

    def test_streams_that_hang_do_not_hold_up_the_tick(self):
        release = threading.Event()
        streams = [scaled("stuck"), scaled("fine")]
        world = World()
        known = Streams(streams, "spark_cluster")
        nothing = build_defs(streams, world.cluster)
        sensor = sensor_module.autoscale_sensor(
            known,
            nothing.resolve_job_def("rescale"),
            nothing.resolve_job_def("restart"),
            default_status=dg.DefaultSensorStatus.STOPPED,
            deadline=1.0,
        )
        world.on_find = lambda stream: release.wait(60) if stream == "stuck" else None
        try:
            with dg.build_sensor_context(
                instance=dg.DagsterInstance.ephemeral(),
                definitions=nothing,
                resources=nothing.resources,
            ) as context:
                tick = sensor.evaluate_tick(context)
        finally:
            release.set()
        stuck, fine = tick.skip_message.splitlines()
        assert stuck == "stuck: hold: not looked at within 1 s: too many agents are slow"
        assert fine.startswith("fine: hold: not started")


class TestPauseBetweenTicks:
    @pytest.mark.parametrize(
        ("intervals", "pause"), [([], 60), ([60], 60), ([10, 60], 10), ([3600], 60), ([0.5], 1)]
    )
    def test_it_is_the_shortest_interval_but_never_above_a_minute(self, intervals, pause):
        # A failed driver must not wait for a policy that is evaluated once an hour.
        policies = [RatioPolicy(interval=interval) for interval in intervals] or [None]
        streams = [structured(f"s{n}", autoscale=policy) for n, policy in enumerate(policies)]
        assert Deployment(streams).sensor.minimum_interval_seconds == pause


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
        assert observation.description.startswith("2 -> 5 executors, target 5: reached after")
        values = {k.removeprefix(PREFIX): v.value for k, v in observation.metadata.items()}
        assert values["ending"] == "reached"
        assert values["reason"].startswith("R 2.50")
        assert (values["executors_before"], values["executors_target"]) == (2, 5)
        assert (values["executors_after"], values["executors_missing"]) == (5, 0)
        assert (values["epoch"], values["notes"]) == (1, "none")

    def test_after_it_the_next_tick_sees_the_new_number(self, deployed):
        kept = overload(deployed)
        (request,) = deployed.tick().requests
        deployed.run(request)
        kept.batch_seconds = 5
        assert deployed.tick().observed()["executors_registered"] == 5

    def test_executors_that_do_not_come_are_a_success_that_says_so(self, deployed):
        deployed.world.cores = 3
        overload(deployed)
        result = deployed.by_hand("rescale", stream="clicks", target=8, wait_seconds=0)
        assert result.success
        (event,) = result.get_asset_observation_events()
        metadata = event.asset_observation_data.asset_observation.metadata
        assert metadata[PREFIX + "ending"].value == "short"
        assert "5 of 8 executors did not come" in metadata[PREFIX + "notes"].value

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
        assert text == "'clicks' is not started: materialize its asset to start it, then rescale"

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
        assert (kept.driver.epoch, kept.history[-1].cause) == (2, "recovery")
        (event,) = result.get_asset_observation_events()
        metadata = event.asset_observation_data.asset_observation.metadata
        assert metadata[PREFIX + "action"].value == "started"
        assert metadata[PREFIX + "epoch"].value == 2

    def test_a_second_run_of_the_same_request_does_nothing(self, deployed):
        overload(deployed)
        deployed.world.end("clicks", ended_at=1.0)
        (request,) = deployed.tick().requests
        deployed.run(request)
        assert deployed.run(request).success
        assert deployed.world.streams["clicks"].driver.epoch == 2

    def test_a_restart_by_hand_replaces_the_driver(self, deployed):
        overload(deployed)
        assert deployed.by_hand("restart", stream="clicks").success
        kept = deployed.world.streams["clicks"]
        assert (kept.driver.epoch, kept.history[-1].cause) == (2, "manual")
        assert "stop clicks gracefully" in deployed.world.calls

    def test_a_crash_at_the_start_fails_the_run_with_the_log(self, deployed):
        def crash(kept):
            kept.log = ["Traceback", "it broke"]
            deployed.world.end("clicks")

        deployed.world.on_submit = crash
        text = failure_of(deployed.by_hand("restart", stream="clicks"))
        assert text.endswith("Its last log lines:\nTraceback\nit broke")

    @pytest.mark.parametrize(("graceful", "how"), [(True, "gracefully"), (False, "at once")])
    def test_a_stop_stops_and_the_stream_stays_stopped(self, deployed, graceful, how):
        overload(deployed)
        result = deployed.by_hand("stop", stream="clicks", graceful=graceful)
        assert result.success
        assert deployed.world.calls[-1] == f"stop clicks {how}"
        (event,) = result.get_asset_observation_events()
        observation = event.asset_observation_data.asset_observation
        assert observation.description == "driver 1 was running and is stopped now"
        assert observation.metadata[PREFIX + "exit_reason"].value == "stop requested"
        tick = deployed.tick()
        assert tick.requests == []
        assert tick.observed()["reason"] == "stopped on request"

    def test_a_stop_of_what_never_ran_says_so(self, deployed):
        text = failure_of(deployed.by_hand("stop", stream="clicks"))
        assert text == "'clicks' was never started: there is nothing to stop"

    def test_an_operation_beside_another_is_refused_by_its_holder(self, deployed, monkeypatch):
        monkeypatch.setattr("dagster_sparkscale.lifecycle.jobs._LEASE_WAIT", 0)
        overload(deployed)
        with deployed.world.cluster.lease("clicks", "rescale run 12345678"):
            text = failure_of(deployed.by_hand("stop", stream="clicks"))
        assert "rescale run 12345678 holds 'clicks'" in text


def test_an_unattended_stream_comes_back_after_every_crash_until_the_limit():
    """Ticks and runs together: a stream whose program always breaks is given up in the end."""
    from dagster_sparkscale.policies import RecoveryPolicy

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
    assert "giving up" in deployed.tick().observed()["reason"]
