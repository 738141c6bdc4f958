"""What an agent is asked, and what is made of its answers."""

import json

import pytest

from dagster_sparkscale.clusters.agents.change import SetExecutors
from dagster_sparkscale.clusters.agents.http import Connections
from dagster_sparkscale.clusters.errors import (
    AgentRefused,
    AgentUnreachable,
    NotMet,
    StaleEpoch,
    Superseded,
)
from dagster_sparkscale.in_force.live_limits import PatchRates, SetRates
from tests.clusters.answering import STATUS, TOKEN, Agent, ask, remote
from tests.waiting import HANGS


def test_it_asks_with_the_token_and_reads_the_status(
    connections: Connections, agent: Agent
) -> None:
    status = remote(connections, agent.url).status(HANGS, window=60.0)
    assert (status.stream, status.epoch, status.registered) == ("clicks", 3, 2)
    method, path, headers, _ = agent.asked[0]
    assert (method, path) == ("GET", "/v1/status?window=60.000")
    assert headers["Authorization"] == f"Bearer {TOKEN}"


def test_it_scales_and_stops_as_agreed(connections: Connections, agent: Agent) -> None:
    assert remote(connections, agent.url).change(SetExecutors(4), HANGS).registered == 2
    limits = {"web": {"maxRecordsPerTrigger": 9, "maxSpanPerTrigger": None}, "old": None}
    now = {"web": {"maxRecordsPerTrigger": 9}}
    agent.body = json.dumps({**STATUS, "rates": now}).encode()
    assert remote(connections, agent.url).change(PatchRates(limits), HANGS).rates == now
    agent.code, agent.body = 202, b"{}"
    remote(connections, agent.url).stop(True, 60.0)
    asked = [(method, path, body) for method, path, _, body in agent.asked]
    assert asked == [
        ("PUT", "/v1/executors", {"target": 4, "epoch": 3}),
        ("PUT", "/v1/rates", {"rates": limits, "epoch": 3}),
        ("POST", "/v1/stop", {"graceful": True, "epoch": 3, "timeout": 60.0}),
    ]


def test_it_names_the_operation_that_asks(connections: Connections, agent: Agent) -> None:
    asked = remote(connections, agent.url)
    asked.change(SetExecutors(4), HANGS, operation=7)
    asked.change(PatchRates({}), HANGS, operation=8)
    agent.code, agent.body = 202, b"{}"
    asked.stop(True, 60.0, operation=0)
    assert [body["operation"] for _, _, _, body in agent.asked] == [7, 8, 0]


def test_all_limits_are_stated_and_an_older_agent_is_told_what_is_to_go(
    connections: Connections, agent: Agent
) -> None:
    wanted = {"web": {"maxRate": 9}, "new": {"maxRate": 5}}
    agent.body = json.dumps({**STATUS, "rates": wanted}).encode()
    asked = remote(connections, agent.url)
    asked.change(SetRates(wanted), HANGS, operation=7)
    has = {**wanted, "web": {"maxRate": 9, "maxSpanPerTrigger": 2}, "old": {"maxRate": 1}}
    agent.body = json.dumps({**STATUS, "rates": has}).encode()
    asked.change(SetRates(wanted), HANGS, operation=7)
    agent.body = json.dumps({**STATUS, "rates": None}).encode()
    asked.change(SetRates({}), HANGS)
    stated = {"rates": wanted, "absolute": True, "epoch": 3, "operation": 7}
    left = {"web": {"maxSpanPerTrigger": None}, "old": None}
    assert [body for *_, body in agent.asked] == [
        stated,
        stated,
        {"rates": left, "epoch": 3, "operation": 7},
        {"rates": {}, "absolute": True, "epoch": 3},
    ]


def test_a_change_that_came_after_a_later_operation_is_told_from_one_for_another_start(
    connections: Connections, agent: Agent
) -> None:
    agent.code = 409
    agent.body = b'{"error": "operation: 6: too late", "epoch": 3, "operation": 7}'
    with pytest.raises(Superseded, match="changed by a later operation: operation: 6: too late"):
        remote(connections, agent.url).change(SetExecutors(4), HANGS, operation=6)
    assert issubclass(Superseded, StaleEpoch)


@pytest.mark.parametrize("body", [b"hello", b"<html>"])
def test_who_answers_something_else_has_not_agreed_to_stop(
    connections: Connections, agent: Agent, body: bytes
) -> None:
    agent.body = body
    with pytest.raises(AgentUnreachable, match="answered something that is not JSON"):
        remote(connections, agent.url).stop(True, 60.0)


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        (401, AgentRefused, "refused the token: because"),
        (409, StaleEpoch, "belongs to another start of the stream: because"),
        (400, NotMet, "refused: because"),
        (404, AgentRefused, "refused: because"),
        (503, AgentUnreachable, "can't do it now: because"),
        (500, AgentUnreachable, "failed: because"),
    ],
)
def test_a_refusal_says_who_and_why(
    connections: Connections, agent: Agent, code: int, error: type[Exception], text: str
) -> None:
    agent.code, agent.body = code, b'{"error": "because"}'
    with pytest.raises(error) as caught:
        ask(connections, agent)
    assert type(caught.value) is error
    assert str(caught.value) == f"the agent of 'clicks' at {agent.url} {text}"


@pytest.mark.parametrize("body", [b"", b"<html>no</html>", b"[1]", b"\xff"])
def test_a_refusal_without_words_is_a_refusal_all_the_same(
    connections: Connections, agent: Agent, body: bytes
) -> None:
    agent.code, agent.body = 401, body
    with pytest.raises(AgentRefused, match="HTTP status 401"):
        ask(connections, agent)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"<html>hello</html>", "no status: it is not JSON"),
        (b"[" * 100_000, "no status: it is not JSON"),
        (b"[]", "no status: it must be a JSON object"),
        (b"{}", "no status: stream: missing"),
        (b"", "its answer was cut short"),
    ],
)
def test_an_answer_that_is_no_status_is_no_answer(
    connections: Connections, agent: Agent, body: bytes, text: str
) -> None:
    agent.body = body
    with pytest.raises(AgentUnreachable, match=text):
        ask(connections, agent)
