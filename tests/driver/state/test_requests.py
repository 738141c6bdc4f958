"""The request to change state in place, over the real server, without Spark."""

from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

from dagster_sparkscale.driver.settings import KEY_GROUPS
from dagster_sparkscale.driver.spark.features import AGAIN
from dagster_sparkscale.driver.state.beside.limits import Limits
from dagster_sparkscale.driver.state.part import StatePart
from tests.driver.serving import ask
from tests.driver.state.played import PLAN


class Changes:
    """What would carry plans out."""

    busy = False

    def __init__(self):
        self.asked = []

    def ask(self, plan, within, beside):
        self.asked.append((plan, within, beside))

    def why_not(self):
        return {"counts": None}

    def why_not_beside(self):
        return {"counts": "it reads from 'socket'"}


@pytest.fixture
def changes(agent, monkeypatch) -> Changes:
    """Of a driver whose program runs."""
    (part,) = (each for each in agent._parts if isinstance(each, StatePart))
    part._changes = Changes()
    agent.admission.phase, agent.admission.attached = "running", True
    monkeypatch.setattr(agent, "_refresh", lambda: None)
    return part._changes


def put(client, **more):
    body = {"plan": asdict(PLAN), "within": 60, "epoch": 4, **more}
    return ask(client, "PUT", "/v1/state", body)


def test_a_plan_is_taken(client, changes):
    code, answer = put(client, operation=7)
    assert (code, answer["operation"], answer["in_place"]) == (200, 7, {"counts": None})
    assert answer["beside"] == {"counts": "it reads from 'socket'"}
    assert changes.asked == [(PLAN, 60, None)]


def test_what_may_be_done_beside_the_stream_is_taken(client, changes):
    put(client, beside={"rows": 500, "replay": True, "within": 900})
    assert changes.asked == [(PLAN, 60, Limits(500, True, 900.0))]


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        ({"plan": None}, 400, "plan: the plan can't be read"),
        ({"plan": {**asdict(PLAN), "partitions": 0}}, 400, "plan: partitions = 0: must be 1 to 8"),
        ({"plan": {**asdict(PLAN), "queries": []}}, 400, "plan.queries: must name at least one"),
        ({"within": "soon"}, 400, 'within: "soon": must be seconds, above 0'),
        ({"within": 86401}, 400, "within: 86401: must be seconds, above 0 and at most 86400"),
        ({"within": True}, 400, "within: true: must be seconds"),
        ({"beside": 1}, 400, "beside = 1: must have rows, replay, within"),
        ({"beside": {"rows": -1}}, 400, "beside.rows = -1: must be a whole number, at least 0"),
        ({"epoch": 3}, 409, "epoch: 3: this driver's is 4"),
        ({"epoch": None}, 400, "epoch: missing"),
    ],
)
def test_what_makes_no_sense_is_refused(client, changes, more, code, said):
    found, answer = put(client, **more)
    assert found == code
    assert answer["error"].startswith(said)
    assert changes.asked == []


def test_a_later_operation_prevails(client, changes):
    put(client, operation=7)
    code, answer = put(client, operation=6)
    assert (code, answer["operation"]) == (409, 7)
    assert len(changes.asked) == 1


@pytest.mark.parametrize("phase", ["starting", "stopping", "ended"])
def test_nothing_is_changed_while_the_program_does_not_run(client, changes, agent, phase):
    agent.admission.phase = phase
    code, answer = put(client)
    assert code == 503
    assert answer["error"] == f"the driver is {phase}: the state of queries can't be changed now"
    assert changes.asked == []


def begun(agent, version: str, **declared: str):
    """The part of a driver that has begun, and whose query runs."""
    (part,) = (each for each in agent._parts if isinstance(each, StatePart))
    agent.admission.phase, agent.admission.attached = "running", True
    conf = SimpleNamespace(getAll=lambda: list(declared.items()))
    part.begin(SimpleNamespace(version=version, getConf=lambda: conf))
    labels = {"counts": "counts", "ended": "ended"}
    for name in labels:
        started: Any = SimpleNamespace(label=lambda name=name: labels[name])
        part.query_started(started)
    labels["ended"] = None
    return part


def lacks_again(monkeypatch):
    def lacks(*_):
        raise ImportError("no JStreamingQueryListener")

    monkeypatch.setattr(StatePart, "_prepare", lacks)


@pytest.mark.parametrize(
    ("version", "declared", "why"),
    [
        ("4.3.0", {}, "its driver was started when the stream declared no state"),
        ("4.1.2", {KEY_GROUPS: "64"}, "its Spark is 4.1.2, and it takes 4.2 or newer"),
        ("4.3.0", {KEY_GROUPS: "64"}, "its Spark lacks starting queries again in their driver"),
    ],
)
def test_a_driver_that_can_t_says_why_of_each_query(
    client, agent, monkeypatch, version, declared, why
):
    monkeypatch.setattr(agent, "_refresh", lambda: None)
    lacks_again(monkeypatch)
    begun(agent, version, **declared)
    code, answer = put(client)
    assert (code, answer["error"]) == (400, f"in place: {why}")
    assert ask(client, "GET", "/v1/status")[1]["in_place"] == {"counts": why}


def test_so_does_one_whose_spark_turns_out_to_lack_it_later(client, agent, monkeypatch):
    monkeypatch.setattr(agent, "_refresh", lambda: None)
    part = begun(agent, "4.3.0")
    part._changes, part._never = Changes(), "its Spark lacks it"
    assert ask(client, "GET", "/v1/status")[1]["in_place"] == {"counts": None}
    monkeypatch.setattr(part._private, "has", lambda feature: feature is not AGAIN)
    assert ask(client, "GET", "/v1/status")[1]["in_place"] == {"counts": "its Spark lacks it"}
