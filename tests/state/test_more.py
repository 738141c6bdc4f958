"""Executors that are added while state is changed beside the stream: how many, and who says so."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.clusters.records.leases import steer
from dagster_sparkscale.clusters.records.steering import EFFECT, KINDS, Kind, Steered, with_entry
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.in_force.steering import Steering, combined
from dagster_sparkscale.names import STORY
from dagster_sparkscale.state import in_place
from dagster_sparkscale.state.more import More, more
from tests.fakes import QUERY, scaled
from tests.in_memory.cluster import World
from tests.state.following import Run
from tests.state.saying import kept_by, stateful
from tests.state.test_in_place import again, begins, here
from tests.watch.deployment import Deployment

NOW = 2000.0
FREE = Steering(NOW)
STREAM = stateful(beside_rows=0, beside_executors=2).model_copy(
    update={"autoscale": scaled(max_executors=5).autoscale}
)


def steered(kind: Kind) -> Steering:
    of = {"size": 4} if kind == "pin" else {"maximum": 4} if kind == "bounds" else {}
    return combined({kind: Steered("ann", "load test", NOW, None, **of)}, {}, NOW)


@given(
    st.integers(0, 9),
    st.none() | st.integers(1, 20),
    st.none() | st.integers(1, 20),
    st.none() | st.sampled_from(KINDS),
)
def test_all_that_are_declared_or_none_never_above_the_maximum_nor_where_it_is_steered(
    declared, requested, maximum, kind
):
    steering = FREE if kind is None else steered(kind)
    found = more(declared, requested, Bounds(1, maximum, 1), steering)
    fits = requested is not None and (maximum is None or requested + declared <= maximum)
    if declared and fits and kind in (None, "bounds"):
        assert found == More(declared, requested + declared)
    else:
        assert found.target is None
        assert (found.why_not is None) == (declared == 0)


@pytest.mark.parametrize(
    ("requested", "bounds", "steering", "said"),
    [
        (2, Bounds(1, 4, 1), FREE, ", with 2 more executors while it is made"),
        (
            3,
            Bounds(1, 4, 1),
            FREE,
            ", without the 2 more executors that are declared: it has 3, and may have 4",
        ),
        (
            3,
            Bounds(1, 4, 1, note="bounds of at most 4 executors set by ann"),
            FREE,
            ", without the 2 more executors that are declared: it has 3, and may have 4 (bounds of "
            "at most 4 executors set by ann)",
        ),
        (
            None,
            Bounds(1, 4, 1),
            FREE,
            ", without the 2 more executors that are declared: how many it was to have is not "
            "known",
        ),
        (
            2,
            Bounds(1, 4, 1),
            steered("pin"),
            ", without the 2 more executors that are declared: the stream is pinned to 4 by ann "
            "until it is resumed (load test)",
        ),
    ],
)
def test_it_says_so(requested, bounds, steering, said):
    assert more(2, requested, bounds, steering).words == said
    assert more(0, requested, bounds, steering).words == ""


def test_more_than_a_driver_takes_are_none_and_no_reason_to_restart_it():
    found = more(10_000, 2, Bounds(1, None, 1), FREE)
    assert found.target is None
    assert found.why_not == "a stream may have 10,000 executors at most"


class TestRuns:
    @pytest.fixture(autouse=True)
    def no_pauses(self, monkeypatch):
        monkeypatch.setattr(in_place, "_POLL", 0.0)

    @pytest.fixture
    def world(self):
        it = World()
        self.runs(it)
        return it

    def runs(self, world, executors=3):
        world.run(STREAM, executors, queries=(kept_by(),), batch_seconds=1.0)
        world.streams["clicks"].beside = {QUERY: None}

    def asked(self, world):
        """The executors in all that the driver was asked to have meanwhile, and what was said."""
        begins(world, again(8, here()))
        run = Run(world, STREAM)
        change = world.streams["clicks"].asked
        (line,) = (each for each in run.lines if each.startswith("beside the stream"))
        return change.beside.executors, line

    def test_the_driver_is_asked_for_them_with_the_change_and_nothing_else_is_changed(self, world):
        remembered = world.records["clicks"].executors
        executors, line = self.asked(world)
        assert executors == 5 and world.streams["clicks"].asked.beside.had == 3
        assert line.startswith("beside the stream, with 2 more executors while it is made: a copy")
        # The driver puts them back. The next one begins with what is remembered.
        assert world.records["clicks"].executors == remembered
        assert not [call for call in world.calls if call.startswith("scale")]

    def test_not_above_the_maximum(self):
        world = World()
        self.runs(world, executors=4)
        executors, line = self.asked(world)
        assert executors is None
        assert "without the 2 more executors that are declared: it has 4, and may have 5" in line

    @pytest.mark.parametrize(
        ("kind", "fields", "said"),
        [
            ("pin", {"size": 3}, "the stream is pinned to 3 by ann"),
            ("freeze", {}, "the stream is frozen by ann"),
            ("pause", {}, "the stream is paused by ann"),
            ("advise", {}, "the stream is advice only, set by ann"),
            ("bounds", {"maximum": 4}, "it has 3, and may have 4 (bounds of at most 4 executors"),
        ],
    )
    def test_not_where_it_is_steered(self, world, kind, fields, said):
        self.steers(world, kind, **fields)
        executors, line = self.asked(world)
        assert executors is None
        assert f"without the 2 more executors that are declared: {said}" in line

    def test_what_the_autoscaler_has_found_of_the_stream_is_no_reason(self, world):
        self.steers(world, EFFECT, maximum=3)
        assert self.asked(world)[0] == 5

    def steers(self, world, kind, **fields):
        now = time.time()
        entry = Steered("ann", "load test", now, None, **fields)
        steer(world.cluster.store(), "clicks", lambda e: with_entry(e, kind, entry, now))

    def test_one_that_did_without_says_why(self, world):
        begins(world, again(8, here(lacked="4 of 5 executors are there after 120 s")))
        assert Run(world, STREAM).came.notes == (
            "query 'counts' was changed without the executors more that are declared: 4 of 5 "
            "executors are there after 120 s",
        )

    def test_a_dry_run_says_it_and_asks_for_none(self):
        deployed = Deployment([STREAM])
        self.runs(deployed.world)
        deployed.world.streams["clicks"].in_place = {QUERY: None}
        result = deployed.by_hand("reconfigure_state", stream="clicks", dry_run=True)
        (event,) = result.get_asset_observation_events()
        seen = event.asset_observation_data.asset_observation
        assert "beside the stream, with 2 more executors while it is made: a copy" in (
            seen.description
        )
        story = seen.metadata[STORY].value
        assert (story["way"], story["executors_meanwhile"]) == ("beside the stream", 5)
        assert story["why_no_more_executors"] is None
        assert deployed.world.streams["clicks"].asked is None
