"""What a tick tells of a stream besides its checks, and ticks of many streams."""

import re
import zlib
from dataclasses import replace
from itertools import pairwise

import dagster as dg
import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.definitions import all_operations, build_defs
from dagster_sparkscale.markdown import carried
from dagster_sparkscale.names import MINUTES, STORY
from dagster_sparkscale.observe.minutes import restored
from dagster_sparkscale.observe.status import Limit, Query, Reconfiguration
from dagster_sparkscale.operations import Operations, Streams
from dagster_sparkscale.watch import sensor as sensor_module
from dagster_sparkscale.watch import turns
from dagster_sparkscale.watch.pace import STORING
from dagster_sparkscale.watch.page import events as events_module
from tests.fakes import QUERY, scaled, structured
from tests.in_memory.cluster import World
from tests.watch.deployment import HOUR, Deployment, grown, overload
from tests.watch.hanging import hanging


class TestEvents:
    def kinds(self, ticks) -> list[str]:
        return ["".join(type(e).__name__[5] for e in tick.told()) or "-" for tick in ticks]

    def test_a_quiet_stream_is_told_of_every_ten_minutes_with_every_minute(self, deployed, clock):
        overload(deployed, batch_seconds=5)
        clock[0] += 1
        ticks = deployed.passing(60, clock)
        kinds = self.kinds(ticks)
        assert kinds[0] == "M"
        assert kinds.count("M") in (6, 7) and set(kinds) == {"M", "-"}
        told = [number for number, kind in enumerate(kinds) if kind == "M"]
        assert {later - before for before, later in pairwise(told[1:])} == {10}
        told_of = [
            minute.at
            for tick in ticks
            for event in tick.told()
            for minute in restored(carried(event.metadata[MINUTES].value))
        ]
        first = int(clock[0]) - 60 * 60
        assert told_of == [first + 60 * number for number in range(told[-1] + 1)]

    def test_the_declaration_may_have_another_pause(self, clock):
        deployed = Deployment([structured(report_every="3 min")])
        overload(deployed, deployed.streams[0], batch_seconds=5)
        kinds = self.kinds(deployed.passing(31, clock))
        assert kinds.count("M") in (11, 12)

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            # In this cluster they come at once.
            (lambda kept: setattr(kept, "requested", 3), "executors registered: 2 -> 3"),
            (lambda kept: setattr(kept, "batch_seconds", 25), "decision"),
            (lambda kept: setattr(kept, "batch_seconds", 8.99), None),
            (
                lambda kept: setattr(
                    kept, "queries", (Query(QUERY, active=True, behind_ms=200_000),)
                ),
                "lag grew",
            ),
            (
                lambda kept: setattr(kept, "queries", (Query(QUERY, active=True, source_lost=1),)),
                "health",
            ),
            (
                lambda kept: setattr(
                    kept, "driver", replace(kept.driver, state=DriverState.UNKNOWN)
                ),
                "running -> unknown",
            ),
        ],
    )
    def test_what_happens_is_told_at_once(self, deployed, clock, change, why):
        kept = overload(deployed, batch_seconds=5)
        deployed.tick()
        clock[0] = (clock[0] // 600) * 600 + 600 - zlib.crc32(b"clicks") % 600 + 5
        deployed.tick()
        clock[0] += 60
        assert deployed.tick().told() == []
        change(kept)
        clock[0] += 60
        assert [event.description for event in deployed.tick().told()] == ([why] if why else [])

    def test_records_make_it_a_materialization_and_none_an_observation(self, deployed, clock):
        kept = overload(deployed, batch_seconds=5)
        assert self.kinds([deployed.tick()]) == ["M"]
        kept.records = 0
        clock[0] += 600
        assert self.kinds([deployed.tick()]) == ["O"]
        kept.records = 5
        clock[0] += 60
        deployed.tick()
        kept.records = 0
        clock[0] += 600
        assert self.kinds([deployed.tick()]) == ["M"]

    def test_so_does_a_state_that_overview_does_not_show_yet(self, deployed, clock):
        kept = overload(deployed, batch_seconds=5, records=0)
        assert self.kinds([deployed.tick()]) == ["M"]
        clock[0] += 60
        assert deployed.tick().told() == []
        kept.requested = 3
        assert self.kinds([deployed.tick()]) == ["M"]
        deployed.world.end("clicks")
        clock[0] += 60
        (event,) = deployed.tick().told()
        assert isinstance(event, dg.AssetMaterialization)
        assert event.description == "running -> failed"
        assert "**failed since " in event.metadata["state"].value

    def test_so_does_that_it_is_seen_no_more_once(self, deployed, clock):
        kept = overload(deployed, batch_seconds=5)
        assert self.kinds([deployed.tick()]) == ["M"]
        kept.reachable = False
        clock[0] += 600
        (event,) = deployed.tick().told()
        assert isinstance(event, dg.AssetMaterialization)
        assert "does not answer" in event.metadata["state"].value
        clock[0] += 600
        assert self.kinds([deployed.tick()]) == ["O"]

    def test_what_was_never_started_is_not_materialized(self, deployed, clock):
        assert self.kinds(deployed.passing(2, clock)) == ["O", "-"]

    def test_a_crash_loop_does_not_pass_for_data_that_moves_on(self, deployed, clock):
        overload(deployed, batch_seconds=5, records=0)
        deployed.tick()
        kinds = []
        for _ in range(40):
            clock[0] += 60
            if deployed.world.streams["clicks"].driver.state.alive:
                deployed.world.end("clicks", ended_at=clock[0])
            tick = deployed.tick()
            kinds += self.kinds([tick])
            for request in tick.requests:
                assert deployed.run(request).success
                deployed.world.streams["clicks"].records = 0
        assert "O" in kinds
        # Failed, running again, crash-looping, given up.
        assert kinds.count("M") <= 5

    def test_a_clock_that_was_set_back_does_not_silence_them(self, deployed, clock):
        overload(deployed, batch_seconds=5)
        deployed.tick()
        clock[0] -= 30 * 24 * HOUR
        assert self.kinds([deployed.tick()]) == ["M"]

    def test_what_it_remembers_of_the_last_hours_outlives_its_process(self, deployed, clock):
        overload(deployed)
        deployed.passing(3, clock)
        fresh = Deployment(deployed.streams, deployed.world, deployed.instance, deployed.cursor)
        (event,) = fresh.tick().told()
        assert event.metadata["what happened"].value.count("](/runs") == 5
        assert "R 2.5" in event.metadata["last hours"].value


class TestManyStreams:
    def test_five_hundred_streams_make_bounded_ticks(self):
        deployed = Deployment([scaled(f"s{number}") for number in range(500)])
        for stream in deployed.streams[:400]:
            overload(deployed, stream, batch_seconds=5)
        tick = deployed.tick(stored=False)
        assert 0 < len(tick.data.asset_events) < turns.TICK / STORING + 20
        told = len(tick.of((dg.AssetObservation, dg.AssetMaterialization)))
        follow, running, others = tick.data.skip_message.splitlines()
        assert follow == f"told of {told} of 500 streams: the rest follows"
        assert running.startswith("400 streams (s0, s1, s2 and 397 more): hold: R 0.50")
        assert others.startswith("100 streams (s400, s401, s402 and 97 more): hold: not started")
        assert len(tick.data.cursor) < 500 * 60

    def test_where_of_each_another_thing_is_said_some_are_left_out(self):
        def find(stream):
            raise RuntimeError(f"{stream} is lost")

        deployed = Deployment([scaled(f"s{number}") for number in range(500)])
        deployed.world.on_find = find
        reason = deployed.tick(stored=False).data.skip_message
        assert len(reason) < 4200
        *_, shown, more = reason.splitlines()
        assert "is lost" in shown
        assert re.fullmatch(r"\.\.\. and \d{3} more: see the pages of the streams", more)

    def test_one_endless_reason_is_cut(self, deployed):
        def find(stream):
            raise RuntimeError("x" * 100_000)

        deployed.world.on_find = find
        assert len(deployed.tick().data.skip_message) < 4200

    def test_streams_that_hang_do_not_hold_up_the_tick(self):
        streams = [scaled("stuck"), scaled("fine")]
        world = World()
        known = Streams(streams, "spark_cluster")
        nothing = build_defs(streams, world.cluster)
        sensor = sensor_module.autoscale_sensor(
            known,
            Operations(known, all_operations()),
            CAPABILITIES,
            default_status=dg.DefaultSensorStatus.STOPPED,
            seconds=1.0,
        )
        with (
            hanging(world, "stuck", {"fine"}, seconds=1),
            dg.build_sensor_context(
                instance=dg.DagsterInstance.ephemeral(),
                definitions=nothing,
                resources=nothing.resources,
            ) as context,
        ):
            tick = sensor.evaluate_tick(context)
        stuck, fine = tick.skip_message.splitlines()
        assert re.fullmatch(r"stuck: hold: not looked at within 0\.\d s: .* are slow", stuck)
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


class TestWhatOverviewShows:
    """Of a stream without data, nothing stands there that is no longer so."""

    def idle(self, deployed, clock, **fields):
        kept = overload(deployed, batch_seconds=5, records=0, **fields)
        deployed.tick()
        clock[0] += 60
        return kept

    def overview(self, deployed) -> str:
        latest = deployed.instance.get_latest_materialization_event(dg.AssetKey("clicks"))
        return latest.asset_materialization.metadata["state"].value.replace("\\", "")

    def test_a_check_that_fails(self, deployed, clock):
        kept = self.idle(deployed, clock)
        kept.queries = (Query(QUERY, active=False, error="no space left"),)
        deployed.tick()
        assert "no space left" in self.overview(deployed)

    def test_another_driver(self, deployed, clock):
        self.idle(deployed, clock)
        record = deployed.world.records["clicks"]
        long_ago = tuple(replace(each, at=0.0) for each in record.history)
        deployed.world.records["clicks"] = replace(record, history=long_ago)
        assert deployed.by_hand("restart", stream="clicks").success
        grown(deployed.world.streams["clicks"])
        deployed.tick()
        assert "driver 2: " in self.overview(deployed)

    def test_a_step_of_a_change_and_that_it_is_over(self, deployed, clock):
        kept = self.idle(deployed, clock)
        for step in ("checking", "rewriting"):
            kept.reconfigurations = (Reconfiguration("1", QUERY, step, clock[0]),)
            deployed.tick()
            assert step in self.overview(deployed)
            assert self.overview(deployed).startswith("**in maintenance, ")
            clock[0] += 240
        kept.reconfigurations = ()
        deployed.tick()
        assert self.overview(deployed).startswith("**healthy, ")
        assert "rewriting" not in self.overview(deployed)

    def test_a_limit_that_was_set_and_is_over(self, deployed, clock):
        kept = self.idle(deployed, clock)
        kept.limits = (Limit("s", query=QUERY, rate=20.0, by="set"),)
        told = deployed.tick().told()
        assert [event.description for event in told] == ["a limit was set"]
        assert isinstance(told[0], dg.AssetMaterialization)
        clock[0] += 240
        kept.limits = ()
        (told,) = deployed.tick().told()
        assert told.description == "no limit that was set is in force any more"
        assert "limits" not in told.metadata

    def test_what_a_person_did_at_once_and_before_it_what_came_and_went(self, deployed, clock):
        self.idle(deployed, clock)
        for target in (3, 4):
            deployed.by_hand("rescale", stream="clicks", target=target)
            (event,) = deployed.tick().of(dg.AssetMaterialization)
            assert f"\u2192 {target} executors in" in event.description
            clock[0] += 1

    def test_a_run_that_attached_to_what_runs(self, deployed, clock):
        self.idle(deployed, clock)
        before = deployed.instance.get_latest_materialization_event(dg.AssetKey("clicks"))
        job = deployed.defs.resolve_implicit_global_asset_job_def()
        for _ in range(2):
            assert job.execute_in_process(instance=deployed.instance).success
            after = deployed.instance.get_latest_materialization_event(dg.AssetKey("clicks"))
            shown = dict(after.asset_materialization.metadata)
            assert shown.pop(STORY).data["action"] == "attached"
            # What stood there, but for what would count once more.
            told = before.asset_materialization.metadata
            assert shown == {
                name: value
                for name, value in told.items()
                if name in ("state", "last hours", "executors", "what happened")
            }
            assert "**healthy, 2 executors (1 to 10 allowed)" in self.overview(deployed)
        clock[0] += 600
        deployed.tick()
        assert "**healthy, 2 executors (1 to 10 allowed)" in self.overview(deployed)

    def test_why_there_is_no_r(self, deployed, clock):
        kept = overload(deployed, batch_seconds=5)
        deployed.tick()
        kept.records, kept.batch_seconds = 0, None
        clock[0] += 600
        deployed.tick()
        assert "R 0.50" not in self.overview(deployed)
        first = self.overview(deployed)
        clock[0] += 600
        # Nor is it data that moves on.
        assert not deployed.tick().of(dg.AssetMaterialization)
        assert self.overview(deployed) == first

    def test_dagster_is_asked_for_it_only_where_no_data_moved_on(
        self, deployed, clock, monkeypatch
    ):
        """To ask costs a tick as much as to store an event."""
        asked = []
        monkeypatch.setattr(events_module, "_overview_is_ours", lambda *_: asked.append(1) or True)
        kept = overload(deployed, batch_seconds=5)
        for _ in range(3):
            assert deployed.tick().told()
            clock[0] += 600
        assert asked == []
        kept.records = 0
        assert deployed.tick().told()
        assert asked == [1]

    def test_a_stream_that_was_an_orphan_and_is_declared_again(self, deployed, clock):
        self.idle(deployed, clock)
        other = Deployment([scaled("orders")], deployed.world, deployed.instance, deployed.cursor)
        other.tick()
        again = Deployment(deployed.streams, deployed.world, deployed.instance, other.cursor)
        clock[0] += 60
        (event,) = again.tick().told()
        assert "healthy, 2 executors (1 to 10 allowed)" in event.metadata["state"].value


class TestWhatWavers:
    def test_an_r_around_one_is_no_event_and_no_check_a_minute(self, deployed, clock):
        kept = overload(deployed, batch_seconds=5, executors=10)
        events = checks = 0
        for number in range(60):
            kept.batch_seconds = 10.1 if number % 2 else 9.9
            tick = deployed.tick()
            events += len(tick.told())
            checks += len([name for name in tick.checks() if name == "ratio_below_one"])
            clock[0] += 60
        assert events < 20
        assert checks <= 2

    def test_executors_that_come_and_go_are_told_of_now_and_then(self, deployed, clock):
        kept = overload(deployed, batch_seconds=5)
        events = 0
        for number in range(60):
            kept.requested = 2 + number % 2
            events += len(deployed.tick().told())
            clock[0] += 60
        assert 6 <= events <= 30


class TestBrokenTexts:
    def test_half_a_character_costs_no_memory(self, deployed, clock):
        overload(deployed, batch_seconds=5)
        deployed.world.end("clicks", exit_reason="broken \ud800 text", ended_at=clock[0])
        deployed.tick()
        clock[0] += 1
        assert deployed.tick().told() == []

    def test_what_cannot_be_told_of_one_stream_silences_no_other(self, clock):
        deployed = Deployment([scaled("clicks", max_executors=10), scaled("orders")])
        for stream in deployed.streams:
            overload(deployed, stream)
        kept = deployed.world.streams["clicks"]
        kept.driver = replace(kept.driver, ui_url=5)  # whatever a broken file says
        tick = deployed.tick()
        assert len(tick.requests) == 2
        assert len(tick.told("orders")) == 1
