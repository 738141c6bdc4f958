"""What an agent tells of a Spark that answers in parts."""

import time
from collections.abc import Mapping
from typing import Any

import pytest

from dagster_sparkscale.driver.agent import Agent
from dagster_sparkscale.driver.receivers.part import ReceiversPart
from dagster_sparkscale.driver.receivers.tracker import Receivers
from dagster_sparkscale.driver.spark import looks
from dagster_sparkscale.driver.spark.looks import Look
from dagster_sparkscale.driver.wire import Executor, Query, Spark
from tests.driver.serving import agent_of, options
from tests.waiting import HANGS

EXECUTORS = (Executor("0", "here", 2, 1), Executor("1", "here", 2))
GRAPH = Query(
    **{"name": "dstream", "active": True, "interval_ms": 1000, "running_ms": 400},
    **{"pending_batches": 3, "backlog_records": 50, "behind_ms": 900},
    **{"source_shards": 2, "source_lost": 1},
)


def seeing(agent: Agent, **parts: Any) -> None:
    """Have an agent see parts of a Spark, once."""
    for name, value in parts.items():
        look: Look[Any] = Look(name, lambda value=value: value, lambda: HANGS)
        look.begin()
        assert look.now(HANGS) is value
        if name == "executors":
            agent._executors.look = look
        elif name == "receivers":
            receivers = agent._parts[0]
            assert isinstance(receivers, ReceiversPart)
            receivers.look = look
        else:
            setattr(agent, f"_{name}", look)


@pytest.fixture
def agent(agent: Agent) -> Agent:
    seeing(
        agent,
        executors=Spark(registered=2, executors=EXECUTORS),
        receivers=Receivers({"1": 2}),
        graph=GRAPH,
        triggers={},
    )
    return agent


def test_an_answer_is_put_together_of_what_each_look_saw(agent: Agent) -> None:
    answer = agent.status()
    assert answer.spark.registered == 2
    assert [executor.receivers for executor in answer.spark.executors] == [0, 2]
    assert answer.queries == (GRAPH,)


def test_what_is_true_of_a_moment_is_unknown_once_its_look_has_hung_for_long(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "STALE_AFTER", 0.0)
    [graph] = agent.status().queries
    assert graph == Query("dstream", True, interval_ms=1000, source_lost=1)
    assert agent.status().spark.registered == 2  # which is another look's


def test_what_no_look_has_seen_yet_is_unknown() -> None:
    answer = agent_of(options()).status()
    assert answer.spark == Spark()
    assert answer.queries == ()
    ages: Mapping[str, Any] = answer.ages or {}
    assert ages == dict.fromkeys(("executors", "receivers", "tasks", "dstreams", "queries"))


def test_the_keeper_is_told_that_the_program_is_being_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent, told = agent_of(options()), list[bool]()
    monkeypatch.setattr(
        agent._executors._keeper, "turn", lambda target, stopping: told.append(stopping)
    )
    for agent.admission.phase in ("running", "stopping"):
        agent._executors.look._look()
    assert told == [False, True]


def test_each_age_is_of_its_own_look(agent: Agent) -> None:
    began = time.monotonic()
    seeing(agent, graph=None)
    receivers = agent._parts[0]
    assert isinstance(receivers, ReceiversPart)
    assert agent._graph.seen is not None and receivers.look.seen is not None
    assert receivers.look.seen.at < began <= agent._graph.seen.at
    assert agent.status().queries == ()
