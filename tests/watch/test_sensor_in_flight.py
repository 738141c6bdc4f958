"""The sensor and operations that are in flight, as Dagster knows them."""

import threading
import time
from dataclasses import replace
from typing import ClassVar

import dagster as dg
import pytest
from dagster._core.events import DagsterEvent, DagsterEventType
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)

from dagster_sparkscale import in_flight
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.deadlines import Calls
from dagster_sparkscale.names import OUTCOME_TAG, PREFIX
from dagster_sparkscale.operations import Streams
from tests.fakes import scaled
from tests.watch.deployment import STREAM, Deployment, overload


class TestOperationsInFlight:
    TAGS: ClassVar = {"stream": "clicks", "cluster": "spark_cluster", "operation": "stop"}

    def in_flight(self, deployed, status=dg.DagsterRunStatus.STARTED, **tags):
        """A run that Dagster believes to be going on."""
        location = RegisteredCodeLocationOrigin("definitions.py")
        repository = RemoteRepositoryOrigin(location, "__repository__")
        run = deployed.instance.create_run_for_job(
            deployed.defs.resolve_job_def("stop"),
            run_config={"ops": {"stop": {"config": {"stream": "clicks"}}}},
            tags={
                PREFIX + name: value
                for name, value in (self.TAGS | tags).items()
                if value is not None
            },
            remote_job_origin=RemoteJobOrigin(repository, "stop"),  # only so are runs queued
        )
        event = {
            dg.DagsterRunStatus.QUEUED: "PIPELINE_ENQUEUED",
            dg.DagsterRunStatus.STARTING: "PIPELINE_STARTING",
            dg.DagsterRunStatus.STARTED: "PIPELINE_START",
            dg.DagsterRunStatus.CANCELING: "PIPELINE_CANCELING",
            dg.DagsterRunStatus.SUCCESS: "PIPELINE_SUCCESS",
            dg.DagsterRunStatus.FAILURE: "PIPELINE_FAILURE",
        }.get(status)
        if event:
            deployed.instance.report_dagster_event(
                DagsterEvent(event_type_value=DagsterEventType(event).value, job_name="stop"),
                run.run_id,
            )
        assert deployed.instance.get_run_by_id(run.run_id).status == status
        return run

    def test_nor_is_a_slow_answer_waited_for_a_hundred_times(self, deployed, monkeypatch, clock):
        asked = []

        def slowly(*_):
            asked.append(time.sleep(0.05))
            return False

        monkeypatch.setattr(in_flight, "is_held", slowly)
        monkeypatch.setattr(in_flight, "ASKING_IN_ALL", 0.2)
        monkeypatch.setattr(in_flight, "_CALLS", Calls())
        for number in range(20):
            self.in_flight(deployed, stream=f"other_{number}")
        clock[0] += 120
        found = in_flight.in_flight(
            deployed.instance, "spark_cluster", deployed.world.cluster, clock[0]
        )
        assert 1 <= len(asked) <= 4
        assert len(found) == 20
        assert all(each.bars_recovery for each in [*found.values()][len(asked) :])

    def test_of_the_streams_of_other_sensors_nobody_is_asked(self, deployed, monkeypatch, clock):
        asked = []
        monkeypatch.setattr(in_flight, "is_held", lambda _store, name, _now: asked.append(name))
        for name in ("clicks", "other"):
            self.in_flight(deployed, stream=name)
        clock[0] += 120
        of = (deployed.instance, "spark_cluster", deployed.world.cluster, clock[0])
        assert {*in_flight.in_flight(*of, {"other", "third"})} == {"other"}
        assert asked == ["other"]
        assert {*in_flight.in_flight(*of)} == {"clicks", "other"}

    def test_who_holds_a_stream_is_not_waited_for_for_ever(self, deployed, monkeypatch, clock):
        """As on a state folder whose server is gone."""
        release, returned = threading.Event(), threading.Event()

        def hang(*_):
            release.wait(60)
            returned.set()
            return False

        monkeypatch.setattr(in_flight, "is_held", hang)
        monkeypatch.setattr(in_flight, "ASKING", 0.1)
        monkeypatch.setattr(in_flight, "_CALLS", Calls())
        overload(deployed, batch_seconds=5)
        self.in_flight(deployed)
        clock[0] += in_flight.TAKES_LEASE + 1
        tick = deployed.tick()
        assert not returned.is_set()
        assert "stop run" in str(tick.fleet)
        release.set()
        assert returned.wait(60)

    @pytest.mark.parametrize(
        "status",
        [
            dg.DagsterRunStatus.QUEUED,
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
        assert tick.decided().startswith(
            f"hold: stop run {run.run_id[:8]} is in progress; otherwise: scale to 5"
        )

    @pytest.mark.parametrize("stopped", [False, True])
    def test_a_start_is_what_a_stream_waits_for_that_does_not_run(self, stopped):
        deployed = Deployment([STREAM])
        if stopped:
            deployed.world.run(STREAM)
            deployed.world.end("clicks", DriverState.STOPPED)
        run = self.in_flight(deployed, operation="start")
        assert deployed.tick().decided() == f"hold: start run {run.run_id[:8]} is in progress"

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

    def test_what_it_held_up_is_decided_at_the_next_tick_and_not_an_interval_later(self):
        deployed = Deployment([scaled(interval=600)])
        overload(deployed)
        run = self.in_flight(deployed)
        assert deployed.tick().requests == []
        deployed.instance.report_run_canceled(run)
        assert len(deployed.tick().requests) == 1

    @pytest.mark.parametrize("load_of_another", [5, 25])
    def test_a_stream_with_nothing_to_do_beside_it_has_been_evaluated(self, load_of_another):
        # Whether another stream has something to do makes no difference to when this one is due.
        deployed = Deployment([scaled(interval=600), scaled("orders", interval=600)])
        kept = overload(deployed, batch_seconds=5)
        overload(deployed, deployed.streams[1], batch_seconds=load_of_another)
        run = self.in_flight(deployed)
        assert "hold: R 0.50" in deployed.tick().decided()
        deployed.instance.report_run_canceled(run)
        kept.batch_seconds = 25
        assert "hold: not due yet; otherwise: scale to 5" in deployed.tick().decided()

    @pytest.mark.parametrize("tags", [{"stream": "orders"}, {"cluster": "west"}, {"stream": None}])
    def test_one_on_another_stream_or_cluster_or_on_none_holds_nothing(self, deployed, tags):
        overload(deployed)
        self.in_flight(deployed, **tags)
        assert len(deployed.tick().requests) == 1

    def found(self, deployed, after=0.0):
        """The run that is in flight so many seconds later."""
        cluster, now = deployed.world.cluster, time.time() + after
        return in_flight.in_flight(deployed.instance, "spark_cluster", cluster, now).get("clicks")

    def test_one_that_has_not_begun_does_not_hold_its_stream_for_ever(self, deployed):
        self.in_flight(deployed, dg.DagsterRunStatus.STARTING)
        assert self.found(deployed, in_flight.BEGINS - 60).bars_recovery
        assert self.found(deployed, in_flight.BEGINS + 60) is None

    @pytest.mark.parametrize("status", [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING])
    def test_one_whose_process_was_killed_holds_a_recovery_for_a_minute_only(
        self, deployed, status, monkeypatch
    ):
        overload(deployed)
        self.in_flight(deployed, status)
        assert self.found(deployed, in_flight.TAKES_LEASE - 10).bars_recovery
        # For a stream that runs somewhat longer: it may follow executors that come.
        late = self.found(deployed, in_flight.TAKES_LEASE + 10)
        assert late is not None and not late.bars_recovery
        assert self.found(deployed, in_flight.FOLLOWS + 10) is None
        monkeypatch.setattr(in_flight, "TAKES_LEASE", 0.0)
        assert deployed.tick().requests == []  # a rescale waits still
        deployed.world.end("clicks", ended_at=1.0)
        (request,) = deployed.tick().requests
        assert request.job_name == "restart"

    def test_one_that_holds_the_lease_holds_its_stream_for_as_long(self, deployed):
        overload(deployed)
        self.in_flight(deployed)
        late = in_flight.FOLLOWS + 10
        with deployed.world.cluster.lease("clicks", "stop run 1") as lease:
            held = replace(lease.record.lease, renewed_at=time.time() + late)
            record = lease.record
            deployed.world.records["clicks"] = replace(record, lease=held)
            assert self.found(deployed, late).bars_recovery
            # It was killed: nobody renews it.
            deployed.world.records["clicks"] = record
            assert self.found(deployed, late) is None

    def test_where_it_can_t_be_told_who_holds_it_nothing_is_done(self, deployed, monkeypatch):
        self.in_flight(deployed)

        def fails(*_):
            raise ClusterError("no API server")

        monkeypatch.setattr(in_flight, "is_held", fails)
        assert self.found(deployed, in_flight.FOLLOWS + 10).bars_recovery

    def test_the_time_of_a_run_is_read_as_utc_wherever_dagster_runs(self, deployed, monkeypatch):
        self.in_flight(deployed)
        for zone in ("America/Los_Angeles", "Asia/Tokyo"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            assert self.found(deployed) is not None
        monkeypatch.undo()
        time.tzset()

    def test_a_run_from_the_launchpad_is_seen_though_it_began_without_tags(self, deployed):
        """The tags it is given when it starts are those the sensor looks for."""
        overload(deployed)
        result = deployed.by_hand("stop", stream="clicks")
        run = deployed.instance.get_run_by_id(result.run_id)
        wanted = Streams([STREAM], "spark_cluster").tags("clicks", "stop")
        wanted[OUTCOME_TAG] = "driver 1 was running and is stopped now"
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
