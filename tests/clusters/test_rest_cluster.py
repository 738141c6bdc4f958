"""StandaloneRestCluster without Spark: its fields, and what it makes of a silent cluster."""

import json
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host.supervisor import write_json
from dagster_sparkscale.clusters.records.store import Record, Submission
from dagster_sparkscale.clusters.standalone.remote_driver import Masters, RemoteDriver
from dagster_sparkscale.clusters.standalone.rest_cluster import Program, StandaloneRestCluster
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.streams import StructuredStream
from tests.clusters.answering import Agent
from tests.clusters.running import stream

ALONE = {"status": "ALIVE", "workers": []}
DEAD = "http://127.0.0.1:9"


def on(state: Path, **fields: Any) -> StandaloneRestCluster:
    given = {"master": "spark://h:7077", "rest_urls": [DEAD], "web_urls": [DEAD], **fields}
    return StandaloneRestCluster(state_dir=str(state / "state"), **given)


@pytest.mark.parametrize(
    ("field", "value", "right"),
    [
        ("master", "h:7077", "must be the URL of a Standalone master"),
        ("rest_urls", ["spark://h:6066"], "must be a URL such as http://host:6066"),
        ("rest_urls", ["http://"], "must be a URL such as http://host:6066"),
        ("rest_urls", ["http://h:99999"], "must be a URL such as http://host:6066"),
        ("web_urls", ["http://h:web"], "must be a URL such as http://host:8080"),
        (
            "web_urls",
            [],
            r'web_urls = \[\]: must be a list of URLs, such as \["http://host:8080"\]',
        ),
        ("rest_urls", None, r'must be a list of URLs, such as \["http://host:6066"\]'),
        ("rest_urls", "http://h:6066", r'must be a list of URLs, such as \["http://host:6066"\]'),
        ("python", "", "must not be empty"),
        ("agent_bind", " ", "must not be empty"),
    ],
)
def test_a_wrong_field_is_refused_when_it_is_declared(
    tmp_path: Path, field: str, value: Any, right: str
) -> None:
    with pytest.raises(DeclarationError, match=right):
        on(tmp_path, **{field: value})


def test_a_field_that_is_missing_is_told_with_what_it_is_for() -> None:
    with pytest.raises(DeclarationError) as refused:
        StandaloneRestCluster(master="spark://h:7077")
    assert str(refused.value).splitlines() == [
        "StandaloneRestCluster: rest_urls: missing; it has no default. REST servers of the "
        'masters, such as ["http://host:6066"].',
        "StandaloneRestCluster: web_urls: missing; it has no default. Web UIs of the masters, such "
        'as ["http://host:8080"]. Those of the workers, which the masters name, must be reached '
        "from here too.",
    ]


def test_where_no_master_answers_nothing_is_begun(tmp_path: Path) -> None:
    cluster = on(tmp_path)
    assert cluster.capacity() is None
    with pytest.raises(ClusterError, match="none of the masters at"):
        cluster.check(stream("clicks"))
    with (
        cluster.lease("clicks", "test") as lease,
        pytest.raises(ClusterError, match="none of the masters at"),
    ):
        cluster.submit(stream("clicks"), lease)
    assert cluster.find("clicks") is None


def test_a_refused_driver_was_never_launched_and_one_without_an_answer_may_have_been(
    tmp_path: Path, agent: Agent
) -> None:
    agent.body = json.dumps({"status": "ALIVE", "workers": [], "success": False}).encode()
    cluster = on(tmp_path, rest_urls=[agent.url], web_urls=[agent.url])
    with (
        cluster.lease("clicks", "test") as lease,
        pytest.raises(ClusterError, match="refused to take a driver"),
    ):
        cluster.submit(stream("clicks"), lease)
    refused = cluster.find("clicks")
    assert refused is not None and refused.state is DriverState.FAILED
    assert str(refused.exit_reason).startswith("was never launched: the master refused")
    files = cluster.store().folder("clicks").submission(1)
    assert not cluster.took("clicks", 1)
    files.exit.unlink()  # as where the answer was lost
    unsure = cluster.find("clicks")
    assert unsure is not None and unsure.state.alive
    assert cluster.took("clicks", 1)


@pytest.mark.parametrize(
    ("posted", "told"),
    [
        (None, (DriverState.FAILED, "was never launched: the process submitting it died")),
        (
            {"known": ["driver-1"]},
            (
                DriverState.UNKNOWN,
                "it can't be told whether the master has taken it: it has not if its page lists no "
                "driver submitted at 2026-11-23 04:00:00 UTC or after",
            ),
        ),
    ],
)
def test_of_one_whose_submitter_died_it_is_told_how_to_find_out_whether_it_runs(
    tmp_path: Path, posted: dict[str, Any] | None, told: tuple[DriverState, str]
) -> None:
    folder = on(tmp_path).store().folder("clicks")
    started = Submission(1, 1_795_406_400.0, "manual")
    record = Record("1" * 16, 1, "running", started.at, "somebody", (started,))
    driver = RemoteDriver(folder, record, Masters([DEAD], lambda: ALONE, lambda _who: True))
    driver.files.create()
    if posted is not None:
        write_json(driver.files.posted, posted)
    fate = driver.look().fate
    assert (fate.state, fate.reason) == told


def test_one_look_serves_many_streams(tmp_path: Path, agent: Agent) -> None:
    agent.body = json.dumps({"status": "ALIVE", "workers": []}).encode()
    glance = on(tmp_path, web_urls=[agent.url]).snapshot()
    for _ in range(3):
        assert glance.capacity() is not None
    assert len(agent.asked) == 1


def test_what_its_drivers_need_is_told(tmp_path: Path) -> None:
    wrong = {each.subject for each in on(tmp_path).conditions([stream("x", "no.py")]) if each.wrong}
    assert wrong == {"master", "program"}


def test_a_program_on_the_workers_is_not_looked_for_here(tmp_path: Path) -> None:
    there = StructuredStream(name="x", program="local:///opt/x.py", batch_interval="1s")
    cluster = on(tmp_path)
    assert cluster.program_of(there) == Program("/opt/x.py", {})
    with pytest.raises(ClusterError, match=r"there is no file /opt/x\.py"):
        cluster.program_of(StructuredStream(name="x", program="/opt/x.py", batch_interval="1s"))
