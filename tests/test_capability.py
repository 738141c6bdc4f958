"""How to add a capability: a toy one, of which all stands in this file but its row.

It lets a stream sleep whose executors have nothing to do. `docs/architecture.md` shows it. Its
number follows from what an agent says anyway; what only Spark knows is a field of the `Answer`, and
a `Part` of the driver's agent.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import dagster as dg
import pytest
from pydantic import Field

from dagster_sparkscale import definitions
from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.capability import Capabilities, Capability, Running, Situation
from dagster_sparkscale.clusters.launch.spark_settings import settings
from dagster_sparkscale.declare.decisions import Decision, Hold
from dagster_sparkscale.declare.part import Part, StreamOfParts
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.declare.streams import StructuredStream
from dagster_sparkscale.names import STORY
from dagster_sparkscale.observe.findings import Finding, Health
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.observe.status import Executor, Status
from dagster_sparkscale.operations import DecidedConfig, Operation, Report, Run
from dagster_sparkscale.watch.memory import Memory
from tests.watch.deployment import Deployment

# What a user declares.


class Nap(Part):
    """The nap of a stream, in what its drivers are started with."""

    def settings(self, stream: StreamOfParts) -> dict[str, str]:
        return {"spark.sparkscale.nap": "true"}


class Napping(StructuredStream):
    """A stream that sleeps while its executors have nothing to do."""

    nap_below: int = Field(default=1, description="Tasks below which it sleeps.")

    @property
    def parts(self) -> tuple[Part, ...]:
        return (*super().parts, Nap())


# What is decided of it, and the operation that does it.


@dataclass(frozen=True)
class Sleep:
    operation: ClassVar[str | None] = "nap"

    seconds: int
    reason: str

    def __str__(self) -> str:
        return f"sleep for {self.seconds} s"


class NapConfig(DecidedConfig):
    seconds: int = Field(default=60, description="How long to sleep.")


def carry_out(run: Run[NapConfig]) -> Report:
    seconds = run.config.seconds
    return Report(f"{run.name} slept for {seconds} s", {"seconds": seconds})


def config_for(decision: Sleep, stream: Stream, epoch: int | None) -> NapConfig:
    return NapConfig(reason=decision.reason, epoch=epoch, seconds=decision.seconds)


NAP = Operation("nap", "Let a stream sleep.", NapConfig, carry_out, config_for=config_for)


# What the minute loop asks.


def tasks(status: Status) -> int:
    return sum(executor.active_tasks for executor in status.executors)


def decide(situation: Running, held: Hold) -> Decision:
    stream = situation.stream
    if not isinstance(stream, Napping) or tasks(situation.status) >= stream.nap_below:
        return held
    naps = situation.learned.get("naps", 0.0)
    return Sleep(60, f"no task is at work, and it has slept {naps:g} times")


def learn(situation: Running, decision: Decision) -> Mapping[str, float]:
    return {"naps": situation.learned.get("naps", 0.0) + 1}


def faults(situation: Situation) -> Iterator[tuple[Health, Finding]]:
    if situation.status is not None and len(situation.status.executors) > 2:
        yield Health.DECLARATION_APPLIED, Finding(False, "too many to sleep", urgent=False)


def numbers(situation: Situation, minute: Minute) -> Mapping[str, float | None]:
    status = situation.status
    return {"9. tasks": None if status is None else tasks(status)}


def sections(situation: Situation) -> Mapping[str, str]:
    return {"nap": f"{tasks(situation.status)} tasks" if situation.status else ""}


def news(status: Status) -> Mapping[str, str]:
    return {"first": f"executor {status.executors[0].id} is the first"} if status.executors else {}


TOY = Capability(
    "nap",
    operations=(NAP,),
    busy=lambda status: "dreaming" if status.app_id == "dream" else None,
    decide=decide,
    learn=learn,
    faults=faults,
    numbers=numbers,
    sections=sections,
    news=news,
)


@pytest.fixture
def it(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """A stream that naps, in a library with one row more."""
    monkeypatch.setattr(definitions, "CAPABILITIES", Capabilities(*CAPABILITIES.rows, TOY))
    stream = Napping(name="clicks", program="jobs/clicks.py", batch_interval=10)
    found = Deployment([stream])
    kept = found.world.run(stream)
    kept.executors = (Executor("0", "spark-1", 4),)
    return found


def test_what_is_declared_is_in_the_settings_of_a_start() -> None:
    stream = Napping(name="clicks", program="jobs/clicks.py", batch_interval=10, nap_below=3)
    assert settings(stream, 1, "local")["spark.sparkscale.nap"] == "true"
    assert stream.nap_below == 3


def test_a_tick_decides_shows_and_remembers(it: Deployment) -> None:
    tick = it.tick()
    [request] = tick.requests
    assert request.job_name == "nap"
    assert tick.decided() == "sleep for 60 s: no task is at work, and it has slept 1 times"
    [event] = tick.told()
    assert event.metadata["nap"].value == "0 tasks"
    assert event.metadata["9. tasks"].value == 0
    memory = Memory.load(it.cursor).of("clicks")
    assert (memory.learned, memory.told.news) == (
        {"naps": 1.0},
        {"first": "executor 0 is the first"},
    )
    assert it.run(request).success
    [record] = it.instance.fetch_observations(dg.AssetKey("clicks"), limit=1).records
    observation = record.asset_observation
    assert observation is not None and observation.description == "clicks slept for 60 s"
    assert observation.metadata[STORY].value["seconds"] == 60


def test_its_news_are_told_at_once_and_its_faults_fail_a_check(it: Deployment) -> None:
    it.tick()
    kept = it.world.streams["clicks"]
    kept.executors = tuple(Executor(str(n), "spark-1", 4, active_tasks=1) for n in (7, 8, 9))
    tick = it.tick()
    assert [event.description for event in tick.told()] == ["executor 7 is the first"]
    assert tick.requests == []
    assert tick.checks()["declaration_applied"] is False


def test_what_its_driver_is_busy_with_is_waited_for(it: Deployment) -> None:
    kept = it.world.streams["clicks"]
    kept.driver = type(kept.driver)(**{**vars(kept.driver), "app_id": "dream"})
    assert it.tick().decided() == "hold: dreaming"
