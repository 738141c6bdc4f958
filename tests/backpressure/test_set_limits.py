"""Live limits that are set by hand."""

from dataclasses import replace

import pytest

from dagster_sparkscale.backpressure import set_limits as module
from dagster_sparkscale.backpressure.set_limits import (
    ENOUGH_BATCHES,
    LimitsRequest,
    heeded,
    in_words,
    set_limits,
    wanted,
)
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AgentUnreachable, OperationInProgress
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.records.store import Tuning
from dagster_sparkscale.clusters.requests import Refused
from dagster_sparkscale.driver.backpressure.rates import BadRates
from dagster_sparkscale.in_force.limits import live
from dagster_sparkscale.in_force.tuned import with_tuning
from dagster_sparkscale.observe.status import Batch, Limit, Query
from tests.fakes import QUERY, status, structured
from tests.in_memory.cluster import MemoryAgent, World
from tests.in_memory.driver import Kept

STREAM = structured()
CLICKS, ORDERS = Limit("clicks", QUERY), Limit("orders", QUERY)
GHOST = Limit("ghost", rate=5, by="set")
"""Something is set for such a name, and no source has it."""


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(module, "_POLL", 0)


def asks(**fields) -> LimitsRequest:
    return LimitsRequest(**fields)


class TestWanted:
    @pytest.mark.parametrize(
        ("fields", "limits"),
        [({"rate": 50}, {"maxRate": 50}), ({"records": 9}, {"maxRecordsPerTrigger": 9})],
    )
    def test_the_only_source_is_meant_where_none_is_named(self, fields, limits):
        assert wanted(asks(**fields), {}, [CLICKS]) == ("clicks", {"clicks": limits})
        assert wanted(asks(**fields), {}, [CLICKS, GHOST])[0] == "clicks"

    def test_one_of_several_has_to_be_named(self):
        with pytest.raises(Refused) as refused:
            wanted(asks(rate=5), {}, [CLICKS, ORDERS])
        assert str(refused.value) == (
            "source: missing; there is 'clicks', 'orders', or '*' for all"
        )
        assert wanted(asks(rate=5, source="orders"), {}, [CLICKS, ORDERS])[0] == "orders"
        assert wanted(asks(rate=5, source="*"), {}, [CLICKS, ORDERS]) == (
            *("*", {"*": {"maxRate": 5}}),
        )

    def test_before_a_source_has_told_of_itself_none_can_be_limited(self):
        with pytest.raises(Refused, match="missing; no source has told yet that it takes live"):
            wanted(asks(rate=5), {}, [])
        with pytest.raises(Refused, match="no such source; no source has told yet"):
            wanted(asks(rate=5, source="clicks"), {}, [])

    def test_but_one_that_something_is_set_for_can(self):
        has = {"clicks": {"maxRate": 300}}
        assert wanted(asks(rate=5, source="clicks"), has, []) == (
            *("clicks", {"clicks": {"maxRate": 5}}),
        )

    @pytest.mark.parametrize("name", ["cliks", "ghost"])
    def test_a_source_that_there_is_not_is_refused_with_those_that_there_are(self, name):
        with pytest.raises(Refused) as refused:
            wanted(asks(rate=5, source=name), {}, [ORDERS, CLICKS, GHOST])
        assert str(refused.value) == (
            f"source = {name!r}: there is no such source; there is 'clicks', 'orders'"
        )

    def test_a_rate_stands_for_records_that_were_set_and_other_limits_stay(self):
        has = {"clicks": {"maxRecordsPerTrigger": 5, "maxSpanPerTrigger": 2}, "x": {"maxRate": 1}}
        assert wanted(asks(rate=9), has, [CLICKS])[1] == {
            "clicks": {"maxSpanPerTrigger": 2, "maxRate": 9},
            "x": {"maxRate": 1},
        }
        assert has["clicks"] == {"maxRecordsPerTrigger": 5, "maxSpanPerTrigger": 2}, "a copy"

    def test_what_was_set_is_taken_away(self):
        has = {"clicks": {"maxRate": 5}, "ghost": {"maxRate": 5}}
        assert wanted(asks(none=True), has, [CLICKS]) == (None, {})
        assert wanted(asks(none=True, source="ghost"), has, [CLICKS, GHOST])[1] == {
            "clicks": {"maxRate": 5}
        }
        assert wanted(asks(none=True, source="clicks"), {}, [CLICKS]) == ("clicks", {})
        with pytest.raises(Refused, match="source = 'typo': there is no such source; there is"):
            wanted(asks(none=True, source="typo"), has, [CLICKS, GHOST])

    def test_with_nothing_to_set_everything_stays(self):
        has = {"clicks": {"maxRate": 5}}
        assert wanted(asks(), has, [CLICKS, ORDERS]) == (None, has)
        assert wanted(asks(source="typo"), {}, []) == ("typo", {})

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"rate": 5, "records": 5}, "rate and records: give one"),
            ({"rate": 5, "none": True}, "rate and none: give one"),
            ({"rate": 0}, "rate = 0: must be above 0; to take a limit away, say none"),
            ({"records": -3}, "records = -3: must be above 0"),
            ({"rate": float("nan")}, "rate = nan: must be above 0"),
            ({"rate": float("inf")}, "rate = inf: must be above 0"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, fields, text):
        with pytest.raises(Refused) as refused:
            wanted(asks(**fields), {}, [CLICKS])
        assert str(refused.value).startswith(text)


def batches(count, began=1990.0, **fields):
    """Batches of half a second, from a moment on."""
    return tuple(Batch(QUERY, began + n + 0.5, 500, records=10, **fields) for n in range(count))


class TestHeeded:
    SINCE = 1990.0

    def seen(self, taken, told=(), source="clicks", **fields):
        limits = (replace(CLICKS, rate=5.0, by="set", taken=taken), replace(ORDERS, taken=True))
        queries = (Query(QUERY, active=True, interval_ms=1000),)
        return status(limits=limits, batches=told, queries=queries, **fields)

    def asked(self, taken, told=(), over=False, source="clicks"):
        return heeded(source, self.seen(taken, told), self.SINCE, over)

    def test_a_batch_that_was_begun_before_says_nothing(self):
        assert self.asked(True, batches(1, began=1989.9)) is None
        assert self.asked(True) is None
        assert self.asked(True, batches(1, began=1990.0)) == "heeded"

    def test_a_source_has_some_batches_to_heed_it(self):
        assert self.asked(False, batches(ENOUGH_BATCHES - 1)) is None
        assert self.asked(False, batches(ENOUGH_BATCHES)) == "not heeded"
        assert self.asked(None, batches(ENOUGH_BATCHES)) == "not known"
        assert self.asked(True, batches(ENOUGH_BATCHES)) == "heeded"

    def test_when_time_is_over_it_is_told_as_far_as_it_is_known(self):
        assert self.asked(False, batches(1), over=True) == "not heeded"
        assert self.asked(None, batches(1), over=True) == "not known"
        assert self.asked(True, (), over=True) == "not known"

    def test_batches_of_other_queries_or_without_records_do_not_count(self):
        other = tuple(replace(each, query="other") for each in batches(9))
        empty = tuple(replace(each, records=0) for each in batches(9))
        assert self.asked(True, other + empty) is None

    def test_of_all_sources_each_has_to_heed_it(self):
        assert self.asked(True, batches(1), source="*") == "heeded"
        assert self.asked(False, batches(ENOUGH_BATCHES), source="*") == "not heeded"

    def test_one_that_has_vanished_is_not_known(self):
        assert self.asked(True, batches(9), source="gone") is None
        assert self.asked(True, batches(9), source="gone", over=True) == "not known"

    def test_batches_of_dstreams_are_collected_before_their_time(self):
        def dstream(time):
            return (Batch(QUERY, time + 60, 500, records=10, batch_id=round(time * 1000)),)

        now = 1_800_000_000.0
        seen = self.seen(True, dstream(now + 2.9))
        assert heeded("clicks", seen, now, False) is None
        assert heeded("clicks", self.seen(True, dstream(now + 3)), now, False) == "heeded"


def test_a_limit_in_words():
    assert in_words(Limit("clicks", QUERY)) == "clicks: no limit"
    told = Limit("clicks", QUERY, 1234.5, "set", taken=True, estimate=20_000)
    assert in_words(told) == ("clicks: 1,234 records/s (set), the estimator says 20,000, heeded")
    assert in_words(replace(told, taken=False, estimate=None)).endswith("(set), not heeded")
    assert (
        in_words(GHOST) == "ghost: 5 records/s (set), no source has told of itself by this name yet"
    )


def heeds(kept: Kept) -> None:
    """The source keeps to what is set, in a batch that has just begun."""
    rates = [each["maxRate"] for each in kept.rates.values() if "maxRate" in each]
    kept.limits = (
        Limit("clicks", QUERY, *((rates[0], "set") if rates else ()), taken=bool(rates) or None),
    )
    kept.batches = (Batch(QUERY, 2.0**40, 10, records=10),)


class TestOperation:
    @pytest.fixture
    def running(self, world: World) -> World:
        world.run(STREAM, limits=(CLICKS,))
        world.on_look = heeds
        return world

    def carry_out(self, world, lines=None, **fields):
        tell = [].append if lines is None else lines.append
        given = LimitsRequest(**{"wait": 0.0} | fields)
        requester = Requester("set_limits run 1", lease_wait=0, tell=tell)
        return set_limits(world.cluster, STREAM, given, requester)

    def test_it_is_set_remembered_and_heeded(self, running):
        lines = []
        story = self.carry_out(running, lines, rate=50, wait=30)
        assert (story.ending, story.source, story.notes) == ("heeded", "clicks", [])
        assert (story.set_before, story.set_after) == ({}, {"clicks": {"maxRate": 50}})
        assert (story.before[0].rate, story.after[0].rate) == (None, 50)
        assert running.records["clicks"].rates == {"clicks": {"maxRate": 50}}
        assert lines == [
            "before: clicks: no limit",
            "set: clicks: maxRate 50",
            "after: clicks: 50 records/s (set), heeded",
        ]
        assert running.leases == set()

    def test_a_restart_begins_with_it(self, running):
        self.carry_out(running, rate=50)
        running.end("clicks")
        kept = running.run(STREAM)
        assert kept.rates == {"clicks": {"maxRate": 50}}

    def test_a_source_that_takes_more_is_told_of(self, running):
        def ignores(kept):
            heeds(kept)
            kept.limits = tuple(replace(each, taken=False) for each in kept.limits)

        running.on_look = ignores
        story = self.carry_out(running, rate=50)
        assert story.ending == "not heeded"
        assert "have had more than the limit allows" in story.notes[0]

    def test_one_that_has_no_batch_is_not_known_of(self, running):
        running.on_look = lambda kept: None
        story = self.carry_out(running, rate=50)
        assert story.ending == "not known"
        assert "no batch with records has begun since" in story.notes[0]

    def test_an_estimator_that_allows_less_is_told_of(self, running):
        def estimates(kept):
            kept.limits = (Limit("clicks", QUERY, 20.0, "estimator", True, estimate=20.0),)
            kept.batches = (Batch(QUERY, 2.0**40, 10, records=10),)

        running.on_look = estimates
        story = self.carry_out(running, rate=50)
        assert story.ending == "heeded"
        assert story.notes == [
            "clicks: what was set is not in force yet: the estimator allows less, 20 records/s. "
            "It holds once that allows more"
        ]

    def test_what_was_set_is_taken_away_and_nothing_waited_for(self, running):
        self.carry_out(running, rate=50)
        story = self.carry_out(running, none=True, wait=30)
        assert (story.ending, story.source, story.set_after) == ("removed", None, {})
        assert running.records["clicks"].rates == {}

    def test_each_limit_is_shown_as_that_of_who_set_it(self, running):
        running.on_look = lambda kept: setattr(kept, "limits", (CLICKS, ORDERS))

        def ask(run: str, source: str, **fields) -> None:
            given = LimitsRequest(source=source, wait=0.0, **fields)
            set_limits(running.cluster, STREAM, given, Requester(run, lease_wait=0))

        def whose() -> dict[str, str]:
            return {name: each.who for name, each in live(running.records["clicks"]).items()}

        ask("run A", "clicks", rate=50)
        ask("run B", "orders", rate=60)
        assert whose() == {"clicks": "run A", "orders": "run B"}
        ask("run C", "orders", none=True)
        assert whose() == {"clicks": "run A"}

    def test_the_number_that_was_tuned_is_a_person_s_once_a_person_sets_it(self, running):
        tuning = Tuning({}, by="retune run 1", at=60.0, rates={"clicks": 50.0})
        running.records["clicks"] = with_tuning(running.records["clicks"], tuning)
        self.carry_out(running, rate=50)
        kept = running.records["clicks"]
        assert {name: each.by for name, each in live(kept).items()} == {"clicks": "person"}
        back = with_tuning(kept, replace(tuning, rates={}, put_back=True))
        assert back.rates == {"clicks": {"maxRate": 50}}, "a put-back leaves it"

    def test_asked_for_nothing_it_tells_what_there_is(self, running):
        lines = []
        calls = len(running.calls)
        story = self.carry_out(running, lines)
        # The line of the run says what: it is not said twice.
        assert (story.ending, story.after, lines) == ("told", (CLICKS,), [])
        assert len(running.calls) == calls

    def test_a_driver_that_ends_meanwhile_is_told_of(self, running):
        looks = []

        def dies(kept):
            looks.append(1)
            if len(looks) == 2:
                running.end("clicks")

        running.on_look = dies
        story = self.carry_out(running, rate=50, wait=30)
        assert story.ending == "gone"
        assert running.records["clicks"].rates == {"clicks": {"maxRate": 50}}

    def test_one_whose_answer_is_lost_was_set_by_a_person_all_the_same(self, running, monkeypatch):
        def silent(agent, *args, **more):
            raise AgentUnreachable("no answer")

        monkeypatch.setattr(MemoryAgent, "change", silent)
        with pytest.raises(AgentUnreachable):
            self.carry_out(running, rate=50)
        kept = running.records["clicks"]
        assert kept.rates == {"clicks": {"maxRate": 50}}
        assert kept.limited_at is not None  # nothing is retuned by itself for a while

    def test_an_agent_that_falls_silent_is_told_of(self, running):
        looks = []

        def falls_silent(kept):
            looks.append(1)
            kept.reachable = len(looks) < 2

        running.on_look = falls_silent
        story = self.carry_out(running, rate=50)
        assert (story.ending, story.notes) == ("not known", ["the agent does not answer"])

    @pytest.mark.parametrize("state", [DriverState.FAILED, DriverState.STOPPED])
    def test_a_stream_that_does_not_run_has_no_limits(self, running, state):
        running.end("clicks", state)
        with pytest.raises(Refused, match=f"'clicks' is {state.value}: materialize its asset"):
            self.carry_out(running, rate=50)

    def test_one_that_was_never_started_has_none_either(self, world):
        with pytest.raises(Refused, match="'clicks' is not started"):
            self.carry_out(world, rate=50)

    def test_records_of_a_receiver_are_refused_and_not_remembered(self, running):
        running.on_look = lambda kept: setattr(kept, "limits", (Limit("receiver-0", "dstream"),))
        with pytest.raises(BadRates, match="receiver-0 is the name of a receiver, which takes max"):
            self.carry_out(running, records=50)
        assert running.records["clicks"].rates is None

    def test_it_does_not_wait_in_another_operation_s_way(self, running):
        with (
            running.cluster.lease("clicks", "restart run 1"),
            pytest.raises(OperationInProgress, match="restart run 1"),
        ):
            self.carry_out(running, rate=50)
