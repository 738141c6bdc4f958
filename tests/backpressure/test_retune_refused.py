"""What a retuning refuses, and that it has touched nothing by then."""

from dataclasses import replace

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.records.store import DurableHold
from dagster_sparkscale.observe.status import Query
from tests.backpressure.retuning import (
    JOB,
    KNOB,
    kept,
    ran,
    read_once,
    record,
    remember,
    tuned_before,
    tuning,
)
from tests.state.saying import change
from tests.watch.deployment import failure_of


def refused(deployed, **config) -> str:
    before = dict(deployed.world.records), list(deployed.world.calls)
    text = failure_of(ran(deployed, **config))
    assert (replace(record(deployed), **_LEASED), deployed.world.calls) == (
        replace(before[0]["clicks"], **_LEASED),
        before[1],
    ), "something was touched"
    return text


_LEASED = {"revision": 0, "operations": 0, "lease": None}


class TestRefused:
    @pytest.mark.parametrize(
        ("config", "text"),
        [
            (
                {"values": {"clikcs.x": 1}},
                "clikcs.x: 'clicks' has no such limit; it has clicks.",
            ),
            ({"values": {KNOB: 0}}, f"{KNOB} = 0: must be above 0"),
            ({"values": {KNOB: "9"}}, f"{KNOB} = '9': must be a number"),
            ({"values": {KNOB: 1e30}}, "SourceLimits: max_offsets_per_trigger = 1000000"),
            ({"values": {KNOB: 1}, "verify": True}, "verify and values: give one of them"),
            ({"put_back": True, "verify": True}, "verify and put_back: give one of them"),
            ({"put_back": True, "dry_run": True}, "dry_run and put_back: give one of them"),
            ({"put_back": True}, "'clicks': nothing of it was tuned that could be put back"),
            ({"epoch": 7}, "'clicks': this was asked for driver 7, and driver 1 has come since"),
            ({"decided_at": 1.0}, "stale: this was decided"),
        ],
    )
    def test_what_makes_no_sense(self, deployed, config, text):
        assert refused(deployed, **config).startswith(text)

    def test_a_stream_without_limits(self, deployed):
        deployed.world.run(deployed.streams[1])
        text = failure_of(deployed.by_hand(JOB, stream="plain"))
        assert text.startswith("'plain' declares no limits that could be retuned: give it limits")

    def test_one_that_was_never_started(self, deployed):
        text = failure_of(deployed.by_hand(JOB, stream="plain"))
        assert text == "'plain' is not started: materialize its asset to start it"

    @pytest.mark.parametrize("state", [s for s in DriverState if s is not DriverState.RUNNING])
    def test_one_that_does_not_run(self, deployed, state):
        deployed.world.end("clicks", state)
        assert refused(deployed) == f"'clicks' is {state.value}: only one that runs is retuned"

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"reachable": False}, "'clicks': its driver can't be asked: "),
            ({"refuses": "wrong token"}, "'clicks': its driver can't be asked: wrong token"),
            ({"phase": "stopping"}, "'clicks': its driver is stopping"),
            ({"queries": ()}, "'clicks': no query of it is active"),
            ({"queries": (Query("a", False),)}, "'clicks': no query of it is active"),
            (
                {"reconfigurations": (change(step="rewriting"),)},
                "'clicks': its state is being reconfigured",
            ),
        ],
    )
    def test_one_that_can_not_be_changed_now(self, deployed, fields, text):
        for name, value in fields.items():
            setattr(kept(deployed), name, value)
        assert refused(deployed).startswith(text)

    def test_one_that_is_held(self, deployed):
        remember(deployed, hold=DurableHold("somebody", "moving it", "move it back", 1.0))
        assert refused(deployed) == "'clicks' is held by somebody, in the middle of: moving it"

    def test_who_tunes_it_meanwhile_is_not_undone(self, deployed):
        calls = 0

        def on_look(launched):
            nonlocal calls
            calls += 1
            if calls == 1:
                remember(deployed, tuning=tuned_before(read_once(), by="another run"))

        deployed.world.on_look = on_look
        text = failure_of(ran(deployed))
        assert text == "'clicks' was tuned by another run in the meantime: nothing was done"
        assert tuning(deployed).by == "another run"
        assert kept(deployed).driver.epoch == 1
