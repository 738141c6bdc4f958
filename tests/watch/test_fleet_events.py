"""The page of the fleet: when Dagster is told of it, what it shows, and how much is stored."""

import json
import re
from dataclasses import replace

import dagster as dg
import pytest
from dagster._serdes import serialize_value
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.in_flight import InFlight
from dagster_sparkscale.names import MINUTES, PREFIX
from dagster_sparkscale.operations import Streams
from dagster_sparkscale.watch.fleet import events
from dagster_sparkscale.watch.fleet.events import (
    carrying_minutes,
    fleet_event,
    latest,
    observation,
    stored_problems,
    told_again,
)
from dagster_sparkscale.watch.fleet.memory import FleetMemory
from dagster_sparkscale.watch.fleet.rows import Failing, Row
from dagster_sparkscale.watch.memory import Memory
from tests.fakes import scaled, structured
from tests.in_memory.cluster import World
from tests.watch.deployment import Deployment, overload

STREAMS = Streams([structured()], "spark_cluster")
START = 1_000_000.0


def line(stream="clicks", **fields) -> Row:
    plain = {"state": "running", "seen_at": START, "ratio": 0.62, "registered": 3, "requested": 3}
    return Row(**{"stream": stream, "asset": (stream,), "maximum": 8} | plain | fields)


class Told:
    """Tells of fleets, one after the other, with one memory."""

    def __init__(self) -> None:
        self.memory, self.instance = FleetMemory(), dg.DagsterInstance.ephemeral()

    def at(self, seconds: float, *rows: Row) -> dict | None:
        now = START + seconds
        rows = tuple(replace(row, seen_at=now) for row in rows)
        self.memory.see(rows)
        known = STREAMS, rows, self.memory.problems, self.memory, self.instance, World().cluster
        events = [*fleet_event(*known, "web/x", now)]
        if not events:
            return None
        (event,) = events
        assert event.asset_key == dg.AssetKey("fleet")
        self.size = len(serialize_value(event))
        shown = {k.removeprefix(PREFIX): v.value for k, v in event.metadata.items()}
        return shown | {"for alerts": json.loads(stored_problems(event))}


class TestWhen:
    def test_a_quiet_fleet_is_told_of_every_ten_minutes(self):
        told = Told()
        at = [n * 60 for n in range(61) if told.at(n * 60, line()) is not None]
        assert at == [0, 600, 1200, 1800, 2400, 3000, 3600]

    @pytest.mark.parametrize(
        "changed",
        [
            {"state": "failed"},
            {"epoch": 2},
            {"registered": 4},
            {"requested": 4},
            {"acts": True},
            {"failing": (Failing("ratio_below_one", "R is 1.2", "", False),)},
            {"failing": (Failing("below_maximum", "no more", "", False),)},
            {"steering": ("pinned to 6 by a person until it is resumed",)},
        ],
    )
    def test_a_small_one_is_told_of_at_once_when_something_changes(self, changed):
        told = Told()
        told.at(0, line())
        assert told.at(60, line(**changed)) is not None
        assert told.at(120, line(**changed)) is None

    def test_never_more_than_once_a_minute_and_then_what_is_so(self):
        told = Told()
        told.at(0, line())
        assert told.at(20, line(state="failed")) is None
        assert told.at(40, line()) is None
        assert told.at(60, line()) is None
        assert told.at(80, line(epoch=2)) is not None

    def test_a_tick_may_be_early_by_a_moment(self):
        told = Told()
        told.at(0, line())
        assert told.at(0, line(epoch=2)) is None
        assert told.at(53, line(epoch=2)) is None
        assert told.at(54, line(epoch=2)) is not None

    def test_what_is_measured_is_no_change(self):
        told = Told()
        told.at(0, line(), line("orders", ratio=0.7))
        changed = line(ratio=0.9, lag=4.0, reason="other")
        assert told.at(60, changed, line("orders", ratio=0.7)) is None, "in another order"

    def test_a_large_one_is_told_of_calmly_where_nothing_is_grave(self):
        told, fleet = Told(), [line(f"s{n}") for n in range(100)]
        told.at(0, *fleet)
        grown = [replace(fleet[0], registered=4), *fleet[1:]]
        assert told.at(240, *grown) is None
        assert told.at(300, *grown) is not None
        failed = [replace(grown[0], state="failed"), *fleet[1:]]
        assert told.at(360, *failed) is not None

    def test_one_stream_that_comes_and_goes_does_not_store_all_of_them_each_minute(self):
        told, fleet = Told(), [line(f"s{n:03}") for n in range(100)]
        whole, sizes = [], []
        for minute in range(31):
            state = "unknown" if minute % 2 else "running"
            shown = told.at(minute * 60, replace(fleet[0], state=state), *fleet[1:])
            sizes.append(told.size)
            if shown["whole table"].count("/assets/") == 100:
                whole.append(minute)
            else:
                assert shown["streams 1"]
                assert shown["at a glance"]
        assert whole == [0, 10, 20, 30]
        assert max(size for minute, size in enumerate(sizes) if minute not in whole) < 5_500

    def test_where_the_whole_table_is_instead_is_said(self):
        told, fleet = Told(), [line(f"s{n:03}") for n in range(100)]
        told.at(0, *fleet)
        shown = told.at(60, replace(fleet[0], state="failed"), *fleet[1:])
        assert shown["whole table"] == "in the event of 1970-01-12 13:46 UTC"

    def test_what_another_sensor_tells_again_is_short_and_the_news_are_as_they_were(self):
        told, fleet = Told(), [line(f"s{n:03}") for n in range(100)]
        told.at(0, *fleet)
        known = STREAMS, fleet, {}, FleetMemory(), told.instance, World().cluster
        [event] = fleet_event(*known, "web/x", START)
        told.instance.report_runless_asset_event(event)
        again = told_again(carrying_minutes(event, "some"))
        assert len(serialize_value(again)) < 6_500 < len(serialize_value(event))
        assert again.metadata["whole table"].value == "in the event of 1970-01-12 13:46 UTC"
        assert again.metadata["streams 1"] == event.metadata["streams 1"]
        assert MINUTES not in again.metadata
        for _ in range(60):  # the event itself is too far back to be looked for
            told.instance.report_runless_asset_event(told_again(again))
            news = latest(told.instance, event.asset_key, "web/x")
            assert news is not None and news.at == START

    def test_a_fleet_that_grows_beyond_the_page_has_its_whole_table_at_once(self):
        told = Told()
        told.at(0, line())
        shown = told.at(60, *(line(f"s{n}") for n in range(100)))
        assert shown["whole table"].count("/assets/") == 100

    def test_a_clock_that_was_set_back_is_waited_for_by_nobody(self):
        told = Told()
        told.at(0, line())
        assert told.at(-5000, line()) is not None


class TestWhat:
    def test_a_sentence_with_its_time_first_and_then_the_table(self):
        shown = Told().at(0, line("orders"), line(state="failed", reason="driver 2 failed"))
        assert shown["at a glance"] == (
            "1970-01-12 13:46 UTC: 2 streams: 1 failed, 1 healthy. Worst: clicks: driver 2 failed."
        )
        rows = shown["streams 1"].splitlines()[2:]
        assert [row.split("]")[0] for row in rows] == ["|[clicks", "|[orders"]
        assert shown["what is up"] == "- [clicks](/assets/clicks): driver 2 failed\n"
        assert list(shown) == ["at a glance", "streams 1", "what is up", "problems", "for alerts"]

    def test_problems_for_programs(self):
        shown = Told().at(0, line(state="failed", reason="driver 2 failed"), line("orders"))
        assert shown["for alerts"] == {
            "of": "web/x",
            "at": START,
            "problems": [
                {
                    "stream": "clicks",
                    "problem": "failed",
                    "since": START,
                    "text": "driver 2 failed",
                    "page": "/assets/clicks",
                }
            ],
            "left_out": 0,
        }

    def test_problems_for_people(self):
        told = Told()
        assert "problems" not in told.at(0, line("orders"))
        pinned = (Failing("below_maximum", "R is 1.2, but", "", False),)
        shown = told.at(60, line("my_clicks", state="failed"), line(failing=pinned))["problems"]
        assert shown == (
            "- my\\_clicks has failed, since 13:47 UTC\n"
            "- clicks is at its maximum of executors, since 13:47 UTC\n"
        )
        shown = told.at(120, *(line("s" * 60 + f"{n:02}", state="failed") for n in range(12)))
        listed = shown["problems"].count("- ")
        assert 8 <= listed < 12
        assert shown["problems"].endswith(f"\n\nand {12 - listed} more")
        assert len(shown["problems"]) < 1000

    @given(st.text() | st.sampled_from(["-->", "<!--", "\\", "--!>"]))
    def test_no_text_ends_the_comment_that_has_them_for_programs(self, text):
        standing = [{"stream": "x", "problem": "failed", "since": 5.0, "text": text}]
        event = observation(dg.AssetKey("fleet"), [], standing, "web/x", START)
        shown = event.metadata["for alerts"].value
        tokens = [each for each in MarkdownIt("commonmark").parse(shown) if each.content]
        assert [each.type for each in tokens] == ["inline", "html_block"]
        assert json.loads(stored_problems(event))["problems"] == standing

    @pytest.mark.parametrize("value", ["none", {"of": "web/x"}, 5, "a -->"])
    def test_what_somebody_else_has_told_has_none(self, value):
        assert stored_problems(dg.AssetObservation("fleet", metadata={"for alerts": value})) is None
        assert stored_problems(dg.AssetObservation("fleet")) is None

    def test_what_belongs_together_stays_in_one_line(self):
        shown = Told().at(0, line(lag=4.0))
        assert "|4\u00a0s|3\u00a0of\u00a08|" in shown["streams 1"]
        shown = Told().at(0, line(state="stopped", since=START - 720))
        assert "|stopped for 12\u00a0min|" in shown["streams 1"]

    def test_a_long_word_does_not_widen_the_page(self):
        shown = Told().at(0, line("s" * 50, state="failed", reason="/" + "x" * 50))
        for piece in ("at a glance", "streams 1", "what is up"):
            assert re.search(r"(?<=[\w])!\[\]\(\)\w", shown[piece]), shown[piece]

    def test_lost_data_is_told_of_for_an_hour(self):
        told = Told()
        lost = line(failing=(Failing("no_data_lost", "gone", "1", False),))
        assert len(told.at(0, lost)["for alerts"]["problems"]) == 1
        assert told.at(3600, lost)["for alerts"]["problems"] == []
        assert told.memory.problems, "else the same loss would be news"

    def test_what_is_shown_on_the_page_itself_is_short_and_the_rest_behind_a_click(self):
        fleet = [line(f"stream_{n:03}") for n in range(100)]
        shown = Told().at(0, *fleet)
        assert all(len(shown[f"streams {n}"]) < 1000 for n in (1, 2, 3))
        assert "streams 4" not in shown
        assert shown["whole table"].count("/assets/") == 100

    def test_an_operation_in_flight_is_what_a_stream_waits_for(self, monkeypatch):
        busy = {"clicks": InFlight("rescale run 1a2b")}
        monkeypatch.setattr(events, "in_flight", lambda *_: busy)
        shown = Told().at(0, line(), line("orders"))["what is up"]
        assert shown == "- [clicks](/assets/clicks): rescale run 1a2b is in progress\n"


FAULT = "driver 7 failed (killed by signal 9): " + "x" * 400


@pytest.mark.parametrize(
    ("streams", "quiet", "worst"),
    [(3, 1_250, 4_200), (100, 11_500, 56_500), (1000, 18_500, 73_000)],
)
def test_what_is_stored_is_bounded(streams, quiet, worst):
    """Bytes of one event: of a fleet where all is well, and of one where all is lost."""
    told = Told()
    shown = told.at(0, *(line(f"stream_{n:04}") for n in range(streams)))
    assert shown is not None
    assert told.size < quiet
    told = Told()
    fleet = [line(f"stream_{n:04}", state="failed", reason=FAULT) for n in range(streams)]
    shown = told.at(0, *fleet)
    assert shown["for alerts"]["left_out"] == max(0, streams - 100)
    if streams > 200:
        assert shown["whole table"].endswith(f"\nand {streams - 200} more streams")
    assert told.size < worst


def test_the_executor_hours_of_today_are_plotted_every_hour_and_never_as_a_false_zero():
    told = Told()
    key = "executor-hours today"
    first = told.at(0, line(executor_hours=1.26), line("orders"))
    assert first[key] == 1.3
    busy = line(state="failed", executor_hours=1.4)
    assert key not in told.at(120, busy, line("orders"))
    assert told.at(3700, line(executor_hours=1.6), line("orders", executor_hours=2.0))[key] == 3.6
    assert key not in Told().at(0, line(), line("orders"))


class TestTheSensor:
    def test_tells_of_all_streams_and_then_only_of_changes(self):
        deployed = Deployment([scaled("clicks"), scaled("orders")])
        overload(deployed, scaled("clicks"), batch_seconds=7)
        first = deployed.tick().fleet
        assert "2 streams: 1 healthy, 1 not started. Nothing is wrong." in first["at a glance"]
        assert deployed.tick().fleet is None

    def test_remembers_since_when_there_has_been_a_problem(self):
        deployed = Deployment([scaled("clicks")])
        deployed.world.run(scaled("clicks"))
        deployed.world.end("clicks")
        (problem,) = deployed.tick().fleet["for alerts"]["problems"]
        assert (problem["stream"], problem["problem"]) == ("clicks", "failed")
        (standing,) = Memory.load(deployed.cursor).fleet.problems["clicks"].values()
        assert standing.since == problem["since"]

    def test_a_lost_cursor_makes_no_problem_another_one(self, clock):
        deployed = Deployment([scaled("clicks", max_executors=2), scaled("orders")])
        overload(deployed, deployed.streams[0])
        deployed.world.run(structured("old"))
        deployed.world.run(deployed.streams[1])
        deployed.world.end("orders")
        before = deployed.tick().fleet["for alerts"]["problems"]
        deployed.passing(20, clock)
        assert {each["problem"] for each in before} == {"pinned", "orphaned", "failed"}
        deployed.world.streams["clicks"].reachable = False  # whether it is pinned can't be told now
        deployed.cursor = None
        first, second = deployed.passing(2, clock)
        after = first.fleet["for alerts"]["problems"]
        known = {(each["stream"], each["problem"], each["since"]) for each in after}
        assert known >= {(each["stream"], each["problem"], each["since"]) for each in before}
        assert second.fleet is None

    def test_a_lost_cursor_leaves_no_problem_that_is_over(self, clock):
        deployed = Deployment([scaled("clicks", max_executors=2)])
        kept = overload(deployed, deployed.streams[0])
        assert deployed.tick().fleet["for alerts"]["problems"]
        kept.batch_seconds, deployed.cursor = 5, None
        clock[0] += 60
        assert deployed.tick().fleet["for alerts"]["problems"] == []

    def test_orphans_are_in_it(self):
        deployed = Deployment([scaled("clicks")])
        deployed.world.run(structured("old"))
        shown = deployed.tick().fleet
        assert "1 orphan" in shown["at a glance"]
        assert "|[old](/assets/old)|orphan|" in shown["streams 1"]

    def test_another_clusters_fleet_is_another_asset(self):
        deployed = Deployment([scaled("clicks")], cluster_key="west")
        keys = {event.asset_key for event in deployed.tick().data.asset_events}
        assert dg.AssetKey("fleet_west") in keys
        assert dg.AssetKey("fleet_west") in deployed.defs.resolve_asset_graph().get_all_asset_keys()


@pytest.mark.parametrize(
    ("groups", "group"), [(("a", "a"), "a"), (("a", "b"), "default"), ((None, None), "default")]
)
def test_the_page_is_in_the_group_of_its_streams_if_they_share_one(groups, group):
    streams = [structured(f"s{n}", group=each) for n, each in enumerate(groups)]
    graph = Deployment(streams).defs.resolve_asset_graph()
    assert graph.get(dg.AssetKey("fleet")).group_name == group


def test_one_that_failed_is_the_worst():
    deployed = Deployment([scaled("a"), scaled("b")])
    for name in "ab":
        deployed.world.run(scaled(name))
    deployed.world.end("b", DriverState.FAILED)
    assert "Worst: b: driver 1 failed" in deployed.tick().fleet["at a glance"]
