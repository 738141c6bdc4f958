"""Receivers that move: the example of SPARK-12133 on a real cluster, with a source that counts."""

import contextlib
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale.observe.status import Relaunch, Status
from tests.driver.acking import Source, jar_of_the_receiver
from tests.driver.conftest import PROGRAMS
from tests.driver.running import EPOCH, Cluster, Driver
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.clusters]


@dataclass(frozen=True)
class Size:
    """Of a story, in which there are as many receivers as executors.

    Attributes:
        of_two: how many receivers run on each of two executors, the most first.
        of_three: likewise, once one of them has moved to a third.
    """

    executors: int
    cores: int
    of_two: tuple[int, int]
    of_three: tuple[int, int, int]

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "spark.executor.cores": self.cores,
            # Or Spark would place receivers on those that have come by then, cores or none.
            "spark.scheduler.minRegisteredResourcesRatio": 1,
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "600s",
            "spark.streaming.receiver.writeAheadLog.enable": "true",
            "spark.sparkscale.receivers.removal": "fitting",
        }


def hosts(seen: Status) -> dict[str, list[int]]:
    """The receivers that run on each executor."""
    told: dict[str, list[int]] = {executor.id: [] for executor in seen.executors}
    for receiver in seen.receivers or ():
        if receiver.executor is not None:
            told.setdefault(receiver.executor, []).append(receiver.stream_id)
    return told


def spread(seen: Status) -> list[int]:
    """How many receivers run on each executor, the most first; without those that are away."""
    return sorted((len(each) for each in hosts(seen).values()), reverse=True)


def ask(driver: Driver, receiver: int, executor: str, operation: int | None = None) -> Any:
    body = {"executor": executor, "epoch": EPOCH, "operation": operation}
    return driver.ask("POST", f"/v1/receivers/{receiver}/move", body)


def move(driver: Driver, receiver: int, executor: str, operation: int) -> None:
    """Send a receiver to an executor, as soon as it may be."""

    def sent() -> bool:
        answer = ask(driver, receiver, executor, operation)
        assert answer.status_code in (200, 503), answer.text
        return answer.status_code == 200

    wait_for("the move is taken up", sent, about=driver.log)


def moved(driver: Driver, receiver: int, executor: str, operation: int) -> Relaunch:
    """Send a receiver to an executor, and see it there; how that went."""
    move(driver, receiver, executor, operation)

    def there(seen: Status) -> bool:
        return receiver in hosts(seen).get(executor, [])

    seen = driver.wait(there, f"receiver {receiver} runs on executor {executor}")
    [relaunch] = [each for each in seen.relaunches if each.operation == operation]
    assert (relaunch.stream_id, relaunch.cause) == (receiver, "move")
    assert relaunch.to_executor == relaunch.wanted == executor != relaunch.from_executor
    assert relaunch.away_seconds is not None and relaunch.began_at > seen.started_at
    return relaunch


def processed(folder: Path) -> set[int]:
    files = folder.glob("*[0-9]") if folder.exists() else ()
    return {int(line) for file in files for line in file.read_text().split()}


def test_receivers_of_three_executors_move_to_two_and_on_to_a_third_and_nothing_is_lost(
    cluster: Cluster, tmp_path: Path
) -> None:
    receivers_move(cluster, tmp_path, Size(3, 2, (2, 1), (1, 1, 1)))


def receivers_move(cluster: Cluster, tmp_path: Path, size: Size) -> None:
    """Receivers move to two executors and on to a third, and nothing is lost."""
    receivers = size.executors
    settings = {**size.settings, "spark.jars": jar_of_the_receiver()}
    with (
        contextlib.closing(Source()) as source,
        cluster.driver(
            *(tmp_path / "driver", PROGRAMS / "acking.py", str(source.port), str(receivers)),
            str(tmp_path / "out"),
            initial=size.executors,
            settings=settings,
        ) as driver,
    ):
        driver.wait(
            lambda s: s.registered == size.executors and sum(spread(s)) == receivers,
            "all executors are there, and all receivers run",
            240,
        )
        one_each(driver, receivers)
        refusals(driver, receivers)

        # Down to two: [2, 1], or [3, 2].
        operations = [each.operation for each in driver.status().relaunches]
        seen = driver.scaled(2)
        assert seen.receivers is not None and len(seen.receivers) == receivers
        all_run = driver.wait(lambda s: sum(spread(s)) == receivers, "all run")
        assert tuple(spread(all_run)) == size.of_two
        evacuated = [each for each in seen.relaunches if each.cause == "evacuation"]
        left = size.executors - 2
        assert len(evacuated) == left == len({each.from_executor for each in evacuated})
        hosting = {each.to_executor for each in evacuated}
        assert hosting <= {e.id for e in seen.executors} and len(hosting) == min(left, 2)
        assert all(each.wanted == each.to_executor for each in evacuated)
        # Each had moved before its executor was told to leave.
        assert {each.cause for each in seen.relaunches} <= {"move", "evacuation"}
        assert [each.operation for each in seen.relaunches if each.cause == "move"] == operations
        # The cores of one executor would not do.
        assert driver.scale(1).status_code == 200
        blocked = driver.wait(lambda s: s.blocked, "it says why no more go").blocked or ""
        assert f"not run all {receivers} receivers and a task of a batch beside them" in blocked

        # Up to three: the third has none, and gets one.
        seen = driver.scaled(3)
        assert tuple(spread(seen)) == (*size.of_two, 0)
        by_number = sorted(hosts(seen).items(), key=lambda each: len(each[1]))
        (empty, _), (_, hosted) = by_number[0], by_number[-1]
        moved(driver, hosted[0], empty, operation=100)
        assert tuple(spread(driver.status())) == size.of_three

        # One that is decommissioned from outside: Spark does not end it while it has receivers.
        victim = next(id for id, has in hosts(driver.status()).items() if len(has) == 1)
        driver.executor_process(victim).send_signal(signal.SIGPWR)
        seen = driver.wait(
            lambda s: (
                victim not in {e.id for e in s.executors}
                and s.registered == 3
                and sum(spread(s)) == receivers
            ),
            "another executor stands for it",
            240,
        )
        [last] = [each for each in seen.relaunches if each.from_executor == victim][-1:]
        assert (last.cause, last.to_executor) == ("evacuation", last.wanted)
        assert tuple(spread(seen)) == (*size.of_two, 0)

        # An executor that dies by itself, and what it had stored comes from the log.
        victim = next(id for id, has in hosts(driver.status()).items() if len(has) == 2)
        before = len(source.acknowledged)
        wait_for("more is taken", lambda: len(source.acknowledged) > before + 100)
        driver.executor_process(victim).kill()
        seen = driver.wait(
            lambda s: (
                sum(spread(s)) == receivers
                and sum(each.cause == "executor lost" for each in s.relaunches) == 2
            ),
            "its receivers run elsewhere",
            240,
        )
        lost = [each for each in seen.relaunches if each.cause == "executor lost"]
        assert {each.from_executor for each in lost} == {victim}
        assert all(each.to_executor != victim and each.wanted is None for each in lost)

        before = len(source.acknowledged)
        wait_for("more is taken", lambda: len(source.acknowledged) > before + 100)
        rates = driver.wait(lambda s: s.receivers and s.receivers[0].rate, "rates").receivers
        assert rates is not None and all((each.rate or 0) > 0 for each in rates)
        assert {each.name for each in rates} == {f"AckingReceiver-{n}" for n in range(receivers)}
        source.end()
        wait_for("all is taken", lambda: source.all_taken, about=driver.log)
        driver.stop()
        assert driver.exit_code(240) == 0, driver.log()
        assert "left to Spark's own" not in driver.log()
        assert source.acknowledged - processed(tmp_path / "out") == set()


def one_each(driver: Driver, receivers: int) -> None:
    """Have each executor host one receiver, whatever Spark made of it; by decided moves."""
    operation = 10
    while spread(seen := driver.status()) != [1] * receivers:
        by_number = sorted(hosts(seen).items(), key=lambda each: len(each[1]))
        (empty, _), (_, hosted) = by_number[0], by_number[-1]
        moved(driver, hosted[0], empty, operation)
        operation += 1
    # There and back again; asked for twice, and once more when it is there.
    (_, [receiver]), (away, _) = sorted(hosts(seen).items())[:2]
    home = next(id for id, has in hosts(seen).items() if receiver in has)
    move(driver, receiver, away, operation=50)
    move(driver, receiver, away, operation=50)
    moved(driver, receiver, away, operation=50)
    before = driver.status().relaunches
    assert sum(each.operation == 50 for each in before) == 1
    assert ask(driver, receiver, away, operation=51).status_code == 200
    assert driver.wait(lambda s: (s.ages or {})["receivers"] < 1, "a look").relaunches == before
    moved(driver, receiver, home, operation=52)
    # One that was held up on its way undoes nothing.
    assert ask(driver, receiver, away, operation=51).status_code == 409


def refusals(driver: Driver, receivers: int) -> None:
    there_are = ", ".join(sorted(hosts(driver.status())))
    numbers = ", ".join(map(str, range(receivers)))
    answer = ask(driver, 99, "0")
    assert (answer.status_code, answer.json()["error"]) == (
        400,
        f"receiver: 99: there is none of that number; there are {numbers}",
    )
    answer = ask(driver, 0, "nonsense")
    assert (answer.status_code, answer.json()["error"]) == (
        400,
        f"executor: nonsense: none of that id is there; there are {there_are}",
    )
