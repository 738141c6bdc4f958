"""Real drivers whose sources take what the driver lets them."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale.driver.backpressure.plan import EstimatorPlan
from dagster_sparkscale.driver.settings import BACKPRESSURE, RATES
from dagster_sparkscale.observe.status import Batch, Limit, Status
from tests.driver.conftest import PROGRAMS
from tests.driver.flood import Flood
from tests.driver.running import EPOCH, Cluster, Driver
from tests.releases import has
from tests.waiting import wait_for

pytestmark = pytest.mark.spark

PLAN = EstimatorPlan(initial_rate=100, min_rate=20)
LIMITED = {
    BACKPRESSURE: PLAN.to_json(),
    # As the declaration makes it: Spark's receivers begin with it, backpressure of its own or not.
    "spark.streaming.backpressure.initialRate": "100",
}
LOGGED = "spark.streaming.receiver.writeAheadLog.enable"
MANY = 1000
"""Records of a batch that only a source without a limit brings: it brings tens of thousands."""


def costs(folder: Path, ms: float) -> None:
    """Have each record take so long."""
    draft = folder / "draft"
    draft.write_text(str(ms))
    draft.rename(folder / "cost")


def limit_of(seen: Status, source: str) -> Limit:
    found = [limit for limit in seen.limits if limit.source == source]
    return found[0] if found else Limit(source)


def put(driver: Driver, rates: Any, **more: Any) -> Any:
    answer = driver.ask("PUT", "/v1/rates", {"rates": rates, "epoch": EPOCH, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def full(seen: Status) -> list[Batch]:
    return [batch for batch in seen.batches if batch.records]


def later(moment: float, holds: Callable[[Batch], bool]) -> Callable[[Status], bool]:
    """Whether the last three batches with records are all such, and of later than that."""

    def so(seen: Status) -> bool:
        last = full(seen)[-3:]
        return len(last) == 3 and last[0].completed_at > moment and all(map(holds, last))

    return so


@pytest.fixture
def flood() -> Iterator[Flood]:
    with contextlib.closing(Flood()) as flood:
        yield flood


@contextlib.contextmanager
def flooded(
    folder: Path, flood: Flood, receivers: int = 1, cost: float = 2.0, **settings: str
) -> Iterator[Driver]:
    costs(folder, cost)
    arguments = str(flood.port), str(receivers), str(folder)
    driver = Driver(
        folder / "driver",
        PROGRAMS / "flooded.py",
        *arguments,
        settings={"spark.master": f"local[{receivers + 2}]", **settings},
    )
    try:
        yield driver
    finally:
        driver.kill()


class TestReceivers:
    def test_the_rate_follows_what_batches_can_take_from_the_first_one_on(
        self, tmp_path: Path, flood: Flood
    ) -> None:
        with flooded(tmp_path, flood, **LIMITED) as driver:
            # 2 ms a record: 450 of them in nine tenths of a second.
            seen = driver.wait(
                lambda s: 200 <= (limit_of(s, "receiver-0").estimate or 0) <= 500,
                "the rate that its batches can take",
            )
            limit = limit_of(seen, "receiver-0")
            assert (limit.query, limit.by, limit.estimator) == ("dstream", "estimator", "work")
            assert limit.reason and limit.records
            seen = driver.wait(
                lambda s: (
                    limit_of(s, "receiver-0").taken
                    and [b for b in full(s) if (b.records or 0) > 150]
                ),
                "the receiver takes it",
            )
            assert max(batch.records or 0 for batch in seen.batches) < MANY, "nor did the first"
            assert all(b.limit for b in full(seen)), "each was taken under a limit"
            costs(tmp_path, 8)
            driver.wait(
                lambda s: (limit_of(s, "receiver-0").rate or 999) <= 150,
                "records that cost more have it lowered",
                240,
            )
            driver.wait(
                lambda s: (full(s)[-1].records or 0) <= 200 and full(s)[-1].processing_ms < 2000,
                "and so are its batches",
            )

    @pytest.mark.clusters
    def test_what_is_set_by_hand_holds_and_goes(self, tmp_path: Path, flood: Flood) -> None:
        rates = {"*": {"maxRate": 300}}
        with flooded(tmp_path, flood, 2, 0.01, **{RATES: json.dumps(rates)}) as driver:
            seen = driver.wait(lambda s: len(full(s)) >= 4, "some batches")
            assert seen.rates == rates
            assert max(batch.records or 0 for batch in full(seen)) < MANY
            put(driver, {"receiver-0": {"maxRate": 40}, "receiver-1": {"maxRate": 60}})
            seen = driver.wait(
                lambda s: limit_of(s, "receiver-0").taken and limit_of(s, "receiver-1").taken,
                "both heed it",
            )
            assert [(e.source, e.rate, e.by) for e in seen.limits] == [
                ("receiver-0", 40, "set"),
                ("receiver-1", 60, "set"),
            ], "each has its own, and not that of all"
            moment = seen.now
            driver.wait(
                later(moment, lambda b: (b.records or 0) <= 150 and b.limit == 100), "its batches"
            )
            # One that goes on with no limit.
            put(driver, {"receiver-0": {"maxRate": 40}}, absolute=True)
            driver.wait(lambda s: (full(s)[-1].records or 0) > MANY, "the other is free again")
            assert full(driver.status())[-1].limit is None

    @pytest.mark.clusters
    def test_limits_of_an_earlier_driver_hold_from_the_first_batch_on(
        self, tmp_path: Path, flood: Flood
    ) -> None:
        rates = {"receiver-0": {"maxRate": 40}}
        with flooded(tmp_path, flood, cost=0.01, **{RATES: json.dumps(rates)}) as driver:
            seen = driver.wait(lambda s: len(full(s)) >= 4, "some batches")
            assert seen.rates == rates
            assert max(batch.records or 0 for batch in full(seen)) <= 120
            assert limit_of(seen, "receiver-0").by == "set"

    @pytest.mark.clusters
    def test_a_receiver_whose_limit_is_taken_away_has_what_is_declared_again(
        self, tmp_path: Path, flood: Flood
    ) -> None:
        settings = {
            RATES: json.dumps({"receiver-0": {"maxRate": 40}}),
            "spark.streaming.backpressure.initialRate": "300",
        }
        with flooded(tmp_path, flood, 2, 0.01, **settings) as driver:
            # The other one began with 40 too, as Spark has one setting for both.
            driver.wait(later(0, lambda b: 250 <= (b.records or 0) <= 500), "340 a batch")
            put(driver, {}, absolute=True)
            seen = driver.wait(later(0, lambda b: 500 < (b.records or 0) < MANY), "600 a batch")
            assert full(seen)[-1].limit == 600

    @pytest.mark.clusters
    def test_sparks_own_estimator_in_our_place(self, tmp_path: Path, flood: Flood) -> None:
        plan = EstimatorPlan("pid", min_rate=20, initial_rate=100)
        settings = {**LIMITED, BACKPRESSURE: plan.to_json()}
        with flooded(tmp_path, flood, **settings) as driver:
            seen = driver.wait(
                lambda s: (
                    limit_of(s, "receiver-0").by == "estimator" and limit_of(s, "receiver-0").taken
                ),
                "an estimate",
            )
            assert limit_of(seen, "receiver-0").estimator == "pid"
            assert 20 <= (limit_of(seen, "receiver-0").rate or 0) <= 500
            assert max(batch.records or 0 for batch in seen.batches) < MANY


@pytest.mark.clusters
def test_a_receiver_that_is_started_anew_has_its_limit_again(
    cluster: Cluster, tmp_path: Path, flood: Flood
) -> None:
    """Spark forgets it: what registers again begins with what the settings say."""
    costs(tmp_path, 0.01)
    program, arguments = PROGRAMS / "flooded.py", (str(flood.port), "1", str(tmp_path))
    begin = {
        RATES: json.dumps({"receiver-0": {"maxRate": 300}}),
        # Else a batch fails of what was received by the executor that is killed and is not on the
        # other one, and the program with it.
        LOGGED: "true",
    }
    with cluster.driver(
        tmp_path / "driver", program, *arguments, initial=2, settings=begin
    ) as driver:
        both = driver.wait(lambda s: s.registered == 2, "both executors", 240)
        driver.wait(
            lambda s: later(both.now + 2, lambda b: (b.records or 0) > 150)(s), "batches", 240
        )
        put(driver, {"receiver-0": {"maxRate": 50}})
        seen = driver.wait(lambda s: limit_of(s, "receiver-0").taken, "it heeds it")
        [host] = [each.id for each in seen.executors if each.receivers]
        driver.executor_process(host).kill()
        seen = driver.wait(
            lambda s: [e for e in s.executors if e.receivers and e.id != host], "it is moved"
        )
        moment = seen.now
        seen = driver.wait(later(moment, lambda b: (b.records or 0) <= 150), "it is limited", 240)
        assert limit_of(seen, "receiver-0").rate == 50
        assert {batch.executors for batch in full(seen)} <= {1, 2}, "and each says of how many"
        driver.wait(lambda s: limit_of(s, "receiver-0").taken, "it heeds it again")


@pytest.mark.clusters
@pytest.mark.skipif(not has("4.2"), reason="a source in Python tells of itself from 4.2 on")
def test_a_source_in_python_takes_what_its_query_can(tmp_path: Path) -> None:
    costs(tmp_path, 0.5)
    settings = {"spark.master": "local[2]", **LIMITED}
    driver = Driver(
        tmp_path / "driver", PROGRAMS / "endless_source.py", str(tmp_path), settings=settings
    )
    try:
        seen = driver.wait(full, "a batch", 240)
        assert full(seen)[0].records == 100, "the first one is limited"
        # Half a millisecond a record: at most 1800 in nine tenths of a second.
        seen = driver.wait(
            lambda s: 300 <= (limit_of(s, "numbers").estimate or 0) <= 1800, "the rate", 240
        )
        limit = limit_of(seen, "numbers")
        assert (limit.query, limit.by, limit.taken) == ("counted", "estimator", True)
        assert all(batch.records == batch.limit for batch in full(seen))
        put(driver, {"numbers": {"maxRate": 30}})
        seen = driver.wait(lambda s: full(s)[-1].records == 30, "what is set by hand")
        assert limit_of(seen, "numbers").by == "set"
        assert seen.rates == {"numbers": {"maxRate": 30}}
        # It may be gone from the file for a moment, and is there for good.
        put(driver, {}, absolute=True)
        driver.wait(lambda s: (full(s)[-1].records or 0) > 100, "the estimate again")
        assert max(batch.records or 0 for batch in driver.status().batches) <= 2500
    finally:
        driver.kill()
    wait_for("its end", lambda: not driver.lives())
