"""A submission without Spark: what its driver is given, what is told of it, and who is asked.

The agents that answer here are real ones, over real connections; only Spark is not behind them.
"""

import json
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.errors import AgentRefused, AgentUnreachable
from dagster_sparkscale.clusters.host import processes
from dagster_sparkscale.clusters.host.agent_files import agent_of
from dagster_sparkscale.clusters.host.drivers import HostedDriver
from dagster_sparkscale.clusters.host.folders import StreamFolder, SubmissionFolder
from dagster_sparkscale.clusters.host.launch import Runtime, command, environment
from dagster_sparkscale.clusters.launch.driver_options import Invocation
from dagster_sparkscale.clusters.records.starts import EpochStart
from dagster_sparkscale.clusters.records.store import Desired, Process, Record
from dagster_sparkscale.declare.streams import StructuredStream
from dagster_sparkscale.driver.agent import Agent
from dagster_sparkscale.driver.begin.announce import announce, url_of
from dagster_sparkscale.driver.begin.options import Options, parse
from dagster_sparkscale.driver.ending.end_report import Stopped
from dagster_sparkscale.driver.part import Core
from dagster_sparkscale.driver.server import Server
from tests.clusters.host.begun import begun
from tests.fakes import structured
from tests.waiting import wait_for

TOKEN = "0123456789abcdef-token"
RUNTIME = Runtime(Path("/java"), Path("/spark"), "/python", None, True, "127.0.0.1")


class Submitted:
    """Driver 3 of the stream `clicks`: its folder, and agents for its address."""

    def __init__(self, state: Path) -> None:
        hosted = begun(state, times=3)
        self.folder: StreamFolder = hosted.folder
        self.record: Record = hosted.record
        self.submission: SubmissionFolder = hosted.files
        self.submission.create()
        self.submission.write_private(self.submission.token, TOKEN)
        self.stops: list[tuple[bool, float]] = []
        self.servers: list[Server] = []
        self.silent: socket.socket | None = None

    def command(self, stream: StructuredStream, *arguments: str) -> list[str]:
        program = self.submission.path / "clicks.py"
        program.touch()
        return command(
            Invocation(stream, program, arguments),
            EpochStart(self.record),
            self.submission,
            RUNTIME,
        )

    def answering(self, **changed: Any) -> str:
        """The URL of a driver's agent: of this one's, but for what is `changed`."""
        options: Options = replace(parse(self.command(structured())[3:]), **changed)
        server = Server("127.0.0.1", 0, Agent(Core(options)), self.asked_to_stop)
        self.servers.append(server)
        # As `start` does, but quick to end.
        threading.Thread(target=server.serve_forever, args=(0.005,), daemon=True).start()
        return url_of("127.0.0.1", server.server_port)

    def nobody(self) -> str:
        """A URL at which nobody listens: its port is taken, so that nobody will either."""
        self.silent = socket.socket()
        self.silent.bind(("127.0.0.1", 0))
        return url_of("127.0.0.1", self.silent.getsockname()[1])

    def asked_to_stop(self, graceful: bool, seconds: float) -> None:
        self.stops.append((graceful, seconds))

    def announced(self, url: str) -> None:
        announce(self.submission.agent, {"url": url})

    @property
    def hosted(self) -> HostedDriver:
        return HostedDriver(self.folder, self.record)

    def driver(self) -> Driver:
        return self.hosted.describe()

    def ended(self, at: float) -> None:
        self.submission.exit.write_text(json.dumps({"code": 1, "signal": None, "at": at}))

    def close(self) -> None:
        for server in self.servers:
            server.shutdown()
            server.server_close()
        if self.silent is not None:
            self.silent.close()


@pytest.fixture
def submitted(tmp_path: Path) -> Iterator[Submitted]:
    it = Submitted(tmp_path / "state")
    yield it
    it.close()


class TestEnvironment:
    def environment(self, submitted: Submitted, **env: str) -> dict[str, str]:
        return environment(structured(env=env), submitted.submission, "clicks:3:0", RUNTIME)

    def test_of_dagsters_it_has_what_spark_needs_and_what_the_cluster_is_told_to_pass(
        self, submitted: Submitted, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DAGSTER_PG_PASSWORD", "hunter2")
        monkeypatch.setenv("CLICKS_TOPIC", "web")
        monkeypatch.setenv("AWS_PROFILE", "clicks")
        env = self.environment(submitted)
        assert env["AWS_PROFILE"] == "clicks" and env["PATH"] == os.environ["PATH"]
        assert not {"DAGSTER_PG_PASSWORD", "CLICKS_TOPIC"} & set(env)
        told = replace(RUNTIME, pass_environment=["CLICKS_*"])
        env = environment(structured(), submitted.submission, "clicks:3:0", told)
        assert env["CLICKS_TOPIC"] == "web" and "DAGSTER_PG_PASSWORD" not in env

    def test_the_streams_own_variables_win_over_dagsters_and_over_the_defaults(
        self, submitted: Submitted, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_PROFILE", "web")
        monkeypatch.setenv("JAVA_HOME", "/elsewhere")
        assert self.environment(submitted)["JAVA_HOME"] == "/java"
        env = self.environment(submitted, AWS_PROFILE="mobile", JAVA_HOME="/mine")
        assert (env["AWS_PROFILE"], env["JAVA_HOME"]) == ("mobile", "/mine")

    def test_but_not_over_what_its_processes_are_found_by_and_its_settings_travel_in(
        self, submitted: Submitted
    ) -> None:
        env = self.environment(
            submitted, PYSPARK_SUBMIT_ARGS="--master local", **{processes.MARKER: "another:1:2"}
        )
        assert env[processes.MARKER] == "clicks:3:0"
        assert str(submitted.submission.properties) in env["PYSPARK_SUBMIT_ARGS"]
        assert "local" not in env["PYSPARK_SUBMIT_ARGS"].split()


class TestCommand:
    def test_the_driver_reads_what_was_declared(self, submitted: Submitted) -> None:
        stream = structured(executors=3, batch_interval="2 s", spark_conf={"spark.cores.max": 8})
        options = parse(submitted.command(stream, "--topic", "web")[3:])
        assert (options.stream, options.epoch, options.interval_ms) == ("clicks", 3, 2000)
        assert (options.initial_executors, options.max_executors) == (3, 8)
        assert (options.token, options.announce) == (TOKEN, submitted.submission.agent)
        assert options.arguments == ("--topic", "web")

    def test_without_a_maximum_it_is_given_none(self, submitted: Submitted) -> None:
        assert parse(submitted.command(structured())[3:]).max_executors is None

    def test_it_begins_with_what_is_remembered(self, submitted: Submitted) -> None:
        submitted.record = replace(submitted.record, executors=5)
        assert parse(submitted.command(structured())[3:]).initial_executors == 5


class TestDescribed:
    @pytest.mark.parametrize(
        ("after", "reason"),
        [(-1, "exit code 1, before it was asked to stop"), (1, "stop requested")],
    )
    def test_of_a_stopped_stream_it_is_told_whether_its_driver_had_ended_before(
        self, submitted: Submitted, after: float, reason: str
    ) -> None:
        submitted.record = replace(submitted.record, desired="stopped", desired_since=5000.0)
        submitted.ended(at=5000.0 + after)
        driver = submitted.driver()
        assert (driver.state, driver.exit_reason) == (DriverState.STOPPED, reason)
        assert (driver.ended_at, driver.asked_to_stop_at) == (5000.0 + after, 5000.0)

    def test_of_a_stream_that_is_to_run_an_end_is_a_failure(self, submitted: Submitted) -> None:
        submitted.ended(at=submitted.record.desired_since + 1)
        driver = submitted.driver()
        assert (driver.state, driver.exit_reason) == (DriverState.FAILED, "exit code 1")

    def test_what_it_died_of_is_what_it_has_told_or_else_in_its_log(
        self, submitted: Submitted
    ) -> None:
        submitted.ended(at=submitted.record.desired_since + 1)
        files = submitted.submission
        files.log.write_text("Traceback (most recent call last):\nKeyError: 'x'\nno input\n")
        assert submitted.driver().exit_reason == "exit code 1: KeyError: 'x'"
        for cut in ("", "[]", "{}", '{"raised": 1}'):
            files.raised.write_text(cut)
            assert submitted.driver().exit_reason == "exit code 1: KeyError: 'x'"
        files.raised.write_text('{"raised": "no input"}')
        assert submitted.driver().exit_reason == "exit code 1: no input"

    @pytest.mark.parametrize("gone", [0, 3], ids=["without a trace", "declared gone"])
    def test_one_whose_end_nobody_saw_counts_as_ended_when_it_last_showed_that_it_lived(
        self, submitted: Submitted, gone: int
    ) -> None:
        """Counted from its start, it would have failed right after the restarts of long ago."""
        ended = {"pid": os.getpid(), "birth": "another"}
        submitted.submission.driver.write_text(json.dumps(ended))
        submitted.submission.alive.touch()
        os.utime(submitted.submission.alive, (8000.0, 8000.0))
        submitted.record = replace(submitted.record, gone=gone)
        driver = submitted.driver()
        assert (driver.state, driver.ended_at) == (DriverState.FAILED, 8000.0)

    def test_whether_it_ended_before_it_was_asked_to_is_told_only_where_that_was_seen(
        self, submitted: Submitted
    ) -> None:
        """A supervisor that was killed has not shown anything of the driver since."""
        ended = {"pid": os.getpid(), "birth": "another"}
        submitted.submission.driver.write_text(json.dumps(ended))
        submitted.submission.alive.touch()
        os.utime(submitted.submission.alive, (8000.0, 8000.0))
        submitted.record = replace(submitted.record, desired="stopped", desired_since=9000.0)
        assert submitted.driver().exit_reason == "stop requested"

    @pytest.mark.parametrize(
        ("desired", "at"), [("stopped", 9000.0), ("restarting", None), ("running", None)]
    )
    def test_whether_it_was_asked_to_stop_is_told_while_it_runs(
        self, submitted: Submitted, desired: Desired, at: float | None
    ) -> None:
        submitted.record = replace(submitted.record, desired=desired, desired_since=9000.0)
        driver = submitted.driver()
        assert (driver.state, driver.asked_to_stop_at) == (DriverState.STARTING, at)

    def test_on_another_host_it_runs_if_its_own_agent_says_so(self, submitted: Submitted) -> None:
        submitted.record = replace(submitted.record, host="another-host", submitter=Process())
        submitted.announced(submitted.answering())
        assert submitted.driver().state is DriverState.RUNNING

    @pytest.mark.parametrize(
        "there",
        [{"token": "of another driver entirely"}, {"epoch": 4}, {"stream": "orders"}, None],
        ids=["refuses", "follows", "is of another stream", "is silent"],
    )
    def test_on_another_host_it_cannot_be_told_from_whatever_else_is_at_its_address(
        self, submitted: Submitted, there: dict[str, Any] | None
    ) -> None:
        submitted.record = replace(submitted.record, host="another-host", submitter=Process())
        url = submitted.nobody() if there is None else submitted.answering(**there)
        submitted.announced(url)
        assert submitted.driver().state is DriverState.UNKNOWN


class TestSigterm:
    """Of a driver that has ended in good order nobody knows who asked it to, but itself."""

    def ended(self, submitted: Submitted, **told: bool) -> None:
        submitted.ended(at=15.0)
        how = Stopped(15.0, **{"graceful": True, "ended_itself": True, "sigterm": True, **told})
        submitted.submission.stopped.write_text(json.dumps(asdict(how)))

    def wished(self, submitted: Submitted, desired: Desired) -> None:
        submitted.record = replace(submitted.record, desired=desired, desired_since=20.0)

    def test_it_has_failed_by_it_and_did_not_just_return(self, submitted: Submitted) -> None:
        self.ended(submitted)
        driver = submitted.driver()
        assert (driver.state, driver.exit_reason) == (DriverState.FAILED, "ended by SIGTERM")

    def test_one_that_was_asked_otherwise_ended_as_its_exit_code_says(
        self, submitted: Submitted
    ) -> None:
        self.ended(submitted, sigterm=False)
        assert submitted.driver().exit_reason == "exit code 1"

    def test_what_was_cut_is_said(self, submitted: Submitted) -> None:
        self.ended(submitted, ended_itself=False)
        cut = "ended by SIGTERM; the program did not end in time and was ended"
        assert submitted.driver().exit_reason == cut

    def test_a_stop_that_was_asked_for_after_it_does_not_hide_it(
        self, submitted: Submitted
    ) -> None:
        self.ended(submitted)
        self.wished(submitted, "stopped")
        driver = submitted.driver()
        asked = "ended by SIGTERM, before it was asked to stop"
        assert (driver.state, driver.exit_reason) == (DriverState.STOPPED, asked)


class TestAsked:
    def test_a_driver_that_was_found_before_its_agent_was_announced_can_be_asked_after(
        self, submitted: Submitted
    ) -> None:
        found = submitted.driver()
        assert found.agent_url is None
        with pytest.raises(AgentUnreachable, match="'clicks' has not announced its address"):
            agent_of(found.stream, found.epoch, submitted.submission, found.agent_url).status()
        submitted.announced(submitted.answering())
        status = agent_of(found.stream, found.epoch, submitted.submission, found.agent_url).status()
        assert (status.stream, status.epoch, status.phase) == ("clicks", 3, "starting")

    @pytest.mark.parametrize(
        ("there", "who"),
        [({"stream": "orders"}, "'orders', epoch 3"), ({"epoch": 4}, "'clicks', epoch 4")],
    )
    def test_another_drivers_status_is_not_taken_for_its_own(
        self, submitted: Submitted, there: dict[str, Any], who: str
    ) -> None:
        submitted.announced(submitted.answering(**there))
        with pytest.raises(
            AgentUnreachable, match=f"the agent of {who}, not that of 'clicks', epoch 3"
        ):
            submitted.hosted.agent().status()

    def test_a_token_that_is_refused_is_a_refusal(self, submitted: Submitted) -> None:
        submitted.announced(submitted.answering(token="of another driver entirely"))
        with pytest.raises(AgentRefused, match="refused the token"):
            submitted.hosted.agent().status()

    def test_an_agent_that_is_asked_to_stop_agrees(self, submitted: Submitted) -> None:
        submitted.announced(submitted.answering())
        assert submitted.hosted.agrees_to_stop(graceful=True, patience=9.0, operation=4)
        wait_for("the program to be told", lambda: submitted.stops)  # once it has been answered
        assert submitted.stops == [(True, 9.0)]

    @pytest.mark.parametrize(
        "there", [{"token": "of another driver entirely"}, {"epoch": 4}, None], ids=str
    )
    def test_who_does_not_answer_or_refuses_has_not_agreed_and_nobody_is_stopped(
        self, submitted: Submitted, there: dict[str, Any] | None
    ) -> None:
        submitted.announced(submitted.nobody() if there is None else submitted.answering(**there))
        assert not submitted.hosted.agrees_to_stop(graceful=True, patience=9.0, operation=4)
        assert submitted.stops == []
