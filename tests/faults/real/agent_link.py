"""A damaged connection between Dagster and the agent of a driver.

A rescale is asked for, and the connection is damaged from the moment on at which the agent is asked
for executors. Whatever the run says came of it must be so; the sensor does not take the driver for
dead; batches go on; and once the connection is well, the next rescale is reached by the same
driver.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_sparkscale import LocalCluster
from dagster_sparkscale.clusters.agents.agent import RemoteAgent
from dagster_sparkscale.clusters.host.agent_files import agent_of
from dagster_sparkscale.observe.status import Status
from dev.toxiproxy.proxy import Link, Toxiproxy
from tests.e2e.deployment import Deployment, deployed, failure, paced_stream, told
from tests.faults.real.links import Damage, begun_later
from tests.faults.real.watched import Record, recovers
from tests.waiting import wait_for

LASTS = 20.0
"""Seconds that a run waits for executors over the damaged connection."""


class Steered:
    """A stream whose agent Dagster reaches over `link`, and tests beside it, too."""

    def __init__(self, deployment: Deployment, toxiproxy: Toxiproxy, name: str) -> None:
        self.deployment, self._cluster = deployment, deployment.cluster
        assert isinstance(self._cluster, LocalCluster)
        told(deployment.materialize())
        wait_for("an executor", lambda: deployment.registered() == 1)
        driver = deployment.driver()
        files = self._cluster.files_of(driver)
        self.epoch = driver.epoch
        announced = json.loads(files.agent.read_text())
        self._agent = agent_of(driver.stream, driver.epoch, files)
        self.link: Link = toxiproxy.link(name, announced["url"].removeprefix("http://"))
        # As an ingress or a tunnel would have it announced.
        files.agent.write_text(json.dumps({**announced, "url": f"http://{self.link.address}"}))

    @property
    def answer_bytes(self) -> int:
        """Of what it says to who asks for no batches, as a change does."""
        return len(self._agent._call("GET", "/v1/status?window=0", None, 60))

    def status(self) -> Status:
        """What the driver says to who asks it beside the link."""
        return self._agent.status(timeout=60)


@contextmanager
def steered(cluster: LocalCluster, folder: Path, toxiproxy: Toxiproxy) -> Iterator[Steered]:
    with deployed(cluster, paced_stream("over_a_link", folder), folder) as deployment:
        yield Steered(deployment, toxiproxy, "agent")


@contextmanager
def damaged_from_the_change_on(steered: Steered, damage: Damage) -> Iterator[None]:
    """Whatever a rescale asks for before it passes."""
    change, toxics = RemoteAgent.change, damage.toxics(steered.answer_bytes)
    later = begun_later(lambda: steered.link.damaged(toxics))
    with later as begin, pytest.MonkeyPatch.context() as patch:

        def asked(agent: RemoteAgent, *args: Any, **named: Any) -> Status:
            begin()
            return change(agent, *args, **named)

        patch.setattr(RemoteAgent, "change", asked)
        yield


def play(steered: Steered, damage: Damage, record: Record) -> None:
    d = steered.deployment
    before = steered.status()
    assert before.requested is not None
    asked = 2 if before.requested != 2 else 3
    with damaged_from_the_change_on(steered, damage):
        result = d.run("rescale", target=asked, wait_seconds=LASTS)
        record("seen", _said(result, asked, steered))
        tick = d.tick()
        assert not tick.run_requests, tick.run_requests  # unknown is no reason to do anything
        seq = steered.status().last_seq
        wait_for("batches to go on", lambda: steered.status().last_seq > seq + 1)
    recovers(record, "the agent to be reached", lambda: d.registered() is not None)
    again = 1
    story = told(d.run("rescale", target=again))
    assert story["ending"] == "reached", story
    after = steered.status()
    assert (after.epoch, after.requested) == (before.epoch, again)
    assert [start.epoch for start in d.cluster.history(d.stream.name)] == [steered.epoch]


def _said(result: dg.ExecuteInProcessResult, asked: int, steered: Steered) -> str:
    """What the run says came of it, which must be so."""
    if result.success:
        story = told(result)
        assert steered.status().requested == asked, story
        if story["ending"] == "reached":
            assert steered.status().registered == asked, story
        return f"the run ended as: {story['ending']}"
    text = failure(result)
    assert "gave no answer" in text, text
    assert "at http://127.0.0.1:" in text, text
    carried_out = steered.status().requested == asked
    return f"the run failed and said why; the driver had {'' if carried_out else 'not '}heard of it"
