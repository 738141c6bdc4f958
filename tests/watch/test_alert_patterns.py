"""What people get of troubles that last for hours: few alerts, and never half a pair.

Rows of a minute each go through the fleet's memory and the alerts', to an address that takes some.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import pytest

from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.records.starts import ATTEMPT
from dagster_sparkscale.clusters.records.store import Submission
from dagster_sparkscale.declare.decisions import Hold
from dagster_sparkscale.declare.policies import RecoveryPolicy
from dagster_sparkscale.lifecycle.recovery import Restart, recover
from dagster_sparkscale.observe.findings import Health
from dagster_sparkscale.watch.alerts.alerts import AFTER, Alert, AlertMemory, Outcome
from dagster_sparkscale.watch.fleet.memory import FleetMemory, that_stand
from dagster_sparkscale.watch.fleet.news import News, Occurrence
from dagster_sparkscale.watch.fleet.rows import Failing, Row, loops

BEGIN = 1_000_000.0
MINUTE = 60.0
HOUR = 60
"""Minutes."""
LISTED = 100
"""Problems that the fleet's event has at most."""
DEFAULT = RecoveryPolicy()

Stream = Callable[[float], Row]
"""A stream: its row at a moment."""


def row(name: str, at: float, state: str = "running", **fields) -> Row:
    return Row(stream=name, asset=(name,), state=state, seen_at=at, **fields)


class Crashing:
    """A stream whose drivers crash some seconds after each start, until it is mended."""

    def __init__(
        self,
        name: str = "clicks",
        policy: RecoveryPolicy = DEFAULT,
        lives: float = 60.0,
        mended_at: float = float("inf"),
    ) -> None:
        self.name, self.policy, self.lives, self.mended_at = name, policy, lives, mended_at
        self.history = [Submission(1, BEGIN, "manual")]

    def __call__(self, now: float) -> Row:
        started = self.history[-1].at
        ended = started + self.lives
        failed = ended <= min(now, self.mended_at)
        driver = Driver(
            stream=self.name,
            epoch=len(self.history),
            state=DriverState.FAILED if failed else DriverState.RUNNING,
            submitted_at=started,
            ended_at=ended if failed else None,
            restarted_at=tuple(each.at for each in self.history[1:]),
        )
        gave_up = False
        if failed:
            decision = recover(self.policy, driver, self.history, now)
            if isinstance(decision, Restart):
                self.history.append(Submission(driver.epoch + 1, now + 10, "recovery"))
            gave_up = isinstance(decision, Hold) and decision.gave_up
        return row(
            self.name,
            now,
            driver.state.value,
            since=ended if failed else started,
            gave_up=gave_up,
            looping=loops(driver, now),
            reason="exit code 1",
        )


def not_answering(now: float) -> Row:
    """Seven of each fourteen minutes its agent does not answer."""
    silent = (now - BEGIN) % (14 * MINUTE) < 7 * MINUTE
    failing = (Failing(Health.RUNNING.value, "no answer", "", True),) if silent else ()
    return row("clicks", now, failing=failing, since=BEGIN - 1e5)


def lagging_for(minutes: float) -> Stream:
    def stream(now: float) -> Row:
        late = now - BEGIN < minutes * MINUTE
        failing = (Failing(Health.LAG_WITHIN_LIMIT.value, "far behind", "", False),)
        return row("clicks", now, failing=failing if late else (), since=BEGIN - 1e5)

    return stream


def alerts_of(
    streams: Iterable[Stream], minutes: int, a_tick: Callable[[float], int] = lambda _: 1000
) -> list[Alert]:
    """What arrives at an address.

    Args:
        a_tick: how many alerts the address takes in the tick at a moment.
    """
    fleet, alerts, arrived, streams = FleetMemory(), AlertMemory(), [], list(streams)
    news: News | None = None
    for minute in range(minutes):
        now = BEGIN + minute * MINUTE
        rows = [stream(now) for stream in streams]
        fleet.see(rows)
        if fleet.is_due(rows, fleet.problems, now):
            standing = [
                Occurrence(each.stream, problem, one.since, one.text, "")
                for each, problem, one in that_stand(rows, fleet.problems, now)
            ]
            news = News("web/x", now, tuple(standing[:LISTED]), max(0, len(standing) - LISTED))
        alerts = AlertMemory.load(alerts.dump())
        if news is not None:
            alerts.learn(news, AFTER, now)
        takes = a_tick(now)
        if alerts.queue and not takes:
            alerts.settle(Outcome.UNANSWERED)
        for _ in range(takes):
            if not alerts.queue:
                break
            arrived.append(alerts.queue[0])
            alerts.settle(Outcome.TAKEN)
    no_halves(arrived)
    return arrived


def no_halves(arrived: Iterable[Alert]) -> None:
    """Nobody hears that something is over who has not heard that it was, and of nothing twice."""
    begun: set[tuple[str, str, float]] = set()
    for each in arrived:
        what = each.occurrence.stream, each.occurrence.problem, each.occurrence.since
        assert (each.status == "resolved") == (what in begun)
        begun ^= {what}


def counts(arrived: Iterable[Alert]) -> Mapping[tuple[str, str], int]:
    return Counter((each.status, each.occurrence.problem) for each in arrived)


def test_a_crash_loop_is_one_problem_until_it_is_given_up():
    arrived = alerts_of([Crashing()], 6 * HOUR)
    assert counts(arrived) == {("problem", "failed"): 1, ("problem", "given_up"): 1}


def test_a_crash_loop_that_is_mended_is_over_once_its_driver_has_settled():
    arrived = alerts_of([Crashing(mended_at=BEGIN + 300)], HOUR)
    assert counts(arrived) == {("problem", "failed"): 1, ("resolved", "failed"): 1}
    assert BEGIN + 600 <= arrived[1].at < BEGIN + 900


@pytest.mark.parametrize("lives", [20.0, 60.0, 400.0, 900.0])
def test_a_crash_loop_of_hours_is_told_twice_at_most_and_once_when_it_is_given_up(lives):
    """In quick succession it is one problem; with time to settle in between it is told again, once,
    and stands from then on."""
    policy = RecoveryPolicy(limit=20, within=86400)
    found = dict(counts(alerts_of([Crashing(policy=policy, lives=lives)], 6 * HOUR)))
    assert found.pop(("problem", "given_up"), 0) == (lives < 900)
    once = {("problem", "failed"): 1}
    twice = {("problem", "failed"): 2, ("resolved", "failed"): 1}
    assert found == (once if lives < 300 else twice)


def test_a_hundred_streams_of_a_broken_broker_are_a_hundred_problems_and_each_given_up_once():
    arrived = alerts_of([Crashing(f"s{n}") for n in range(LISTED)], HOUR, lambda _: 10)
    assert counts(arrived) == {("problem", "failed"): LISTED, ("problem", "given_up"): LISTED}


def test_an_address_that_was_down_for_an_hour_gets_what_still_stands():
    streams = [Crashing(f"s{n}", mended_at=BEGIN + 300) for n in range(LISTED)]
    streams += [Crashing(f"t{n}") for n in range(20)]
    arrived = alerts_of(streams, 2 * HOUR, lambda now: 10 if now >= BEGIN + 3600 else 0)
    # The first was tried, and may have arrived.
    tried = {("problem", "failed"): 1, ("resolved", "failed"): 1}
    found = {key: n for key, n in counts(arrived).items() if key[1] != "left_out"}
    assert found == tried | {("problem", "given_up"): 20}


def test_one_that_does_not_answer_again_and_again_is_told_twice():
    arrived = alerts_of([not_answering], 6 * HOUR)
    assert counts(arrived) == {("problem", "unhealthy"): 2, ("resolved", "unhealthy"): 1}


def test_what_comes_and_goes_is_over_when_it_stays_away():
    def calm_after_hours(now: float) -> Row:
        return not_answering(now) if now < BEGIN + 3 * 3600 else row("clicks", now)

    arrived = alerts_of([calm_after_hours], 6 * HOUR)
    assert counts(arrived) == {("problem", "unhealthy"): 2, ("resolved", "unhealthy"): 2}
    assert arrived[-1].at < BEGIN + 3 * 3600 + 3600


def test_one_that_comes_once_is_over_at_once():
    arrived = alerts_of([lagging_for(20)], HOUR)
    assert [(each.status, each.at - BEGIN) for each in arrived] == [
        ("problem", 5 * MINUTE),
        ("resolved", 20 * MINUTE),
    ]


def test_attempts_that_come_to_nothing_are_one_problem():
    """Each restart is refused, as where the cluster is full."""
    stream = Crashing()

    def refused(now: float) -> Row:
        before = len(stream.history)
        seen = stream(now)
        for number, each in enumerate(stream.history[before:], before):
            stream.history[number] = replace(each, cause=ATTEMPT)
        return seen

    assert len(alerts_of([refused], 6 * HOUR)) <= 2
