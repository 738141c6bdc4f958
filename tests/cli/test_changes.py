"""What changes a stream from the command line: runs that Dagster records, and their refusals."""

import logging
import signal
import time
from contextlib import suppress
from typing import Any
from unittest.mock import Mock

import dagster as dg
import pytest
from dagster._core.errors import DagsterExecutionInterruptedError
from dagster._daemon.monitoring.run_monitoring import check_run_timeout, monitor_started_run

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.names import OUTCOME_TAG, STORY
from tests.cli.terminal import Terminal, tagged
from tests.fakes import structured
from tests.in_memory.driver import Kept
from tests.state.saying import change, kept_by, plays, runs, tells


@pytest.mark.usefixtures("hangups_end")
class TestScale:
    def test_a_target_is_a_tracked_run_of_the_job(self, terminal: Terminal) -> None:
        done = terminal.ask("scale", "clicks", "5", "--reason", "newsletter at nine")
        assert done.exit_code == 0, done.output
        assert (terminal.kept().requested, terminal.kept().registered) == (5, 5)
        run = terminal.run()
        assert run.job_name == "rescale" and run.is_success
        assert tagged(run) == ("rescale", "clicks")
        assert run.run_config == {
            "ops": {
                "rescale": {
                    "config": {"stream": "clicks", "target": 5, "reason": "newsletter at nine"}
                }
            }
        }
        assert f"run {run.run_id[:8]}: rescale clicks" in done.stderr
        assert "rescale clicks: newsletter at nine" in done.stdout
        assert "2 -> 5 executors in" in done.stdout

    def test_a_delta_may_be_below_0(self, terminal: Terminal) -> None:
        assert terminal.ask("scale", "clicks", "--delta", "-1").exit_code == 0
        assert terminal.kept().requested == 1

    def test_it_tells_what_the_run_logs_and_nothing_of_dagster_s_own(
        self, terminal: Terminal
    ) -> None:
        done = terminal.ask("scale", "clicks", "3")
        for word in ("STEP_START", "DEBUG", "dagster -", "BetaWarning"):
            assert word not in done.output

    def test_who_it_was_is_the_reason_where_none_is_given(self, terminal: Terminal) -> None:
        terminal.ask("scale", "clicks", "3")
        (config,) = terminal.run().run_config["ops"].values()
        assert config["config"]["reason"].startswith("by hand: sparkscale, ")

    def test_what_the_run_refuses_is_refused_in_its_words(self, terminal: Terminal) -> None:
        done = terminal.ask("scale", "clicks", "40")
        assert done.exit_code == 1
        assert "Error: target = 40: 'clicks' has a maximum of 10" in done.stderr
        assert terminal.run().is_failure
        assert terminal.kept().requested == 2

    @pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_interrupted_it_says_what_stands_and_gives_the_stream_back(
        self, terminal: Terminal, by: signal.Signals
    ) -> None:
        def on_look(kept: Kept) -> None:
            if kept.registered == 3:
                signal.raise_signal(by)

        before = signal.getsignal(signal.SIGHUP)
        terminal.world.on_look = on_look
        done = terminal.ask("scale", "clicks", "5")
        assert done.exit_code == 1
        assert "Error: interrupted; what had been asked for by then stands\n" in done.stderr
        assert "now: `sparkscale status clicks -f definitions.py` follows it" in done.stderr
        assert terminal.kept().requested == 5
        assert terminal.world.leases == set()
        assert terminal.run().is_failure
        assert signal.getsignal(signal.SIGHUP) == before

    def test_interrupted_between_stop_and_start_it_says_that_the_stream_is_down(
        self, terminal: Terminal
    ) -> None:
        def on_submit(_kept: Kept) -> None:
            terminal.world.end("clicks", DriverState.FAILED)
            signal.raise_signal(signal.SIGINT)

        terminal.world.on_submit = on_submit
        done = terminal.ask("restart", "clicks")
        assert done.exit_code == 1
        assert (
            "now: driver 2 has ended and no other was started: THE STREAM IS DOWN until "
            "`sparkscale start clicks -f definitions.py`, or its recovery where a daemon runs; "
            "`sparkscale status clicks -f definitions.py` follows it"
        ) in done.stderr

    def test_a_terminal_that_ends_twice_ends_it_once(self, terminal: Terminal) -> None:
        def on_look(kept: Kept) -> None:
            if kept.registered == 3:
                with suppress(DagsterExecutionInterruptedError):
                    signal.raise_signal(signal.SIGHUP)
                signal.raise_signal(signal.SIGHUP)

        terminal.world.on_look = on_look
        assert terminal.ask("scale", "clicks", "5").exit_code == 0

    def test_interrupted_before_it_begins_it_does_nothing_and_is_no_run_that_goes_on(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        create = dg.DagsterInstance.create_run_for_job

        def created(self: dg.DagsterInstance, *words: Any, **fields: Any) -> dg.DagsterRun:
            run = create(self, *words, **fields)
            signal.raise_signal(signal.SIGHUP)
            return run

        monkeypatch.setattr(dg.DagsterInstance, "create_run_for_job", created)
        assert terminal.ask("scale", "clicks", "5").exit_code == 1
        assert terminal.kept().requested == 2
        assert terminal.run().is_failure

    def test_what_was_started_to_outlive_its_terminal_does(self, terminal: Terminal) -> None:
        terminal.world.on_look = lambda kept: signal.raise_signal(signal.SIGHUP)
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
        try:
            assert terminal.ask("scale", "clicks", "5").exit_code == 0
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        finally:
            signal.signal(signal.SIGHUP, before)

    def test_an_output_that_nobody_reads_any_more_is_no_end(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def echo(message: str, **fields: Any) -> None:
            if "file" in fields:
                raise BrokenPipeError

        monkeypatch.setattr("dagster_sparkscale.cli.runs.click.echo", echo)
        assert terminal.ask("scale", "clicks", "5").exit_code == 0
        assert terminal.run().is_success

    @pytest.mark.parametrize("words", [(), ("3", "--delta", "1")])
    def test_neither_or_both_of_number_and_delta_is_not_understood(
        self, terminal: Terminal, words: tuple[str, ...]
    ) -> None:
        done = terminal.ask("scale", "clicks", *words)
        assert done.exit_code == 2
        assert "give either N, the number of executors, or --delta" in done.stderr
        assert terminal.runs() == []


def test_a_run_that_monitoring_gives_up_meanwhile_ends_as_what_it_came_to(
    terminal: Terminal,
) -> None:
    """The run monitoring of Dagster asks the run launcher, which has not started this run."""
    (terminal.folder / "home" / "dagster.yaml").write_text(
        "telemetry:\n  enabled: false\nrun_monitoring:\n  enabled: true\n"
        "run_launcher:\n  module: tests.cli.pods\n  class: Pods\n"
    )
    seen = []

    def monitored(kept: Kept) -> None:
        with dg.DagsterInstance.get() as instance:
            for record in instance.get_run_records():
                if record.dagster_run.status is dg.DagsterRunStatus.STARTED:
                    monitor_started_run(instance, Mock(), record, logging.getLogger("test"))
            seen.extend(run.status for run in instance.get_runs())

    terminal.world.on_look = monitored
    done = terminal.ask("scale", "clicks", "5")
    assert (done.exit_code, terminal.kept().registered) == (0, 5)
    assert dg.DagsterRunStatus.FAILURE in seen
    assert terminal.run().is_success


def test_a_limit_of_run_monitoring_does_not_end_it(terminal: Terminal) -> None:
    """As a stop that is given hours needs it."""
    seen = []

    def monitored(kept: Kept) -> None:
        with dg.DagsterInstance.get() as instance:
            (record,) = instance.get_run_records()
            hours_ago = record._replace(start_time=time.time() - 7200)
            check_run_timeout(instance, hours_ago, logging.getLogger("test"), 3600.0)
            seen.extend(run.status for run in instance.get_runs())

    terminal.world.on_look = monitored
    assert terminal.ask("scale", "clicks", "5").exit_code == 0
    assert set(seen) == {dg.DagsterRunStatus.STARTED}


class TestStartStopRestart:
    def test_a_start_materializes_the_asset(self, terminal: Terminal) -> None:
        done = terminal.ask("start", "orders")
        assert done.exit_code == 0, done.output
        assert terminal.kept("orders").driver.state is DriverState.RUNNING
        assert "started driver 1" in done.stdout
        run = terminal.run()
        assert {key.to_user_string() for key in run.asset_selection or ()} == {"orders"}
        assert tagged(run) == ("start", "orders")
        assert "submit clicks 2" not in terminal.world.calls
        assert "orders_health" not in done.output  # its checks are for the page

    def test_a_start_remembers_whose_the_stream_is(self, terminal: Terminal) -> None:
        terminal.ask("start", "orders")
        assert terminal.world.records["orders"].owner == "definitions.py/spark_cluster"
        assert terminal.run().tags[".dagster/repository"] == "__repository__@definitions.py"

    def test_a_start_of_what_runs_attaches_to_it(self, terminal: Terminal) -> None:
        assert "driver 1 runs already" in terminal.ask("start", "clicks").stdout

    def test_a_start_that_fails_shows_the_driver_s_log(self, terminal: Terminal) -> None:
        def crash(kept: object) -> None:
            terminal.kept("orders").log = ["Traceback", "it broke"]
            terminal.world.end("orders")

        terminal.world.on_submit = crash
        done = terminal.ask("start", "orders")
        assert done.exit_code == 1
        assert "ended before its first query" in done.stderr and "it broke" in done.stderr

    def test_a_stop_is_graceful(self, terminal: Terminal) -> None:
        done = terminal.ask("stop", "clicks")
        assert done.exit_code == 0, done.output
        assert terminal.world.calls[-1] == "stop clicks gracefully"
        assert "driver 1 was running and is stopped now" in done.stdout
        assert tagged(terminal.run()) == ("stop", "clicks")

    def test_a_stop_at_once_with_a_limit(self, terminal: Terminal) -> None:
        terminal.kept().ends_after = 10
        assert terminal.ask("stop", "clicks", "--timeout", "5").exit_code == 0
        assert terminal.world.calls[-1] == "kill clicks"
        terminal.world.run(structured())
        assert terminal.ask("stop", "clicks", "--now").exit_code == 0
        assert terminal.world.calls[-1] == "stop clicks at once"

    def test_a_stop_of_what_never_ran_is_refused(self, terminal: Terminal) -> None:
        done = terminal.ask("stop", "orders")
        assert done.exit_code == 1
        assert "'orders' was never started: there is nothing to stop" in done.stderr

    def test_a_stop_beside_another_operation_names_who_holds_it(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dagster_sparkscale.operations.LEASE_WAIT", 0)
        with terminal.world.cluster.lease("clicks", "rescale run 12345678"):
            done = terminal.ask("stop", "clicks")
        assert done.exit_code == 1
        assert "rescale run 12345678 has held 'clicks'" in done.stderr

    def test_a_restart_replaces_the_driver(self, terminal: Terminal) -> None:
        assert terminal.ask("restart", "clicks", "--reason", "new code").exit_code == 0
        assert terminal.kept().driver.epoch == 2
        assert tagged(terminal.run()) == ("restart", "clicks")

    def test_its_report_is_at_the_asset(self, terminal: Terminal) -> None:
        terminal.ask("restart", "clicks", "--reason", "new code")
        with dg.DagsterInstance.get() as instance:
            (record,) = instance.fetch_observations(dg.AssetKey("clicks"), limit=1).records
        observation = record.asset_observation
        assert observation is not None
        assert observation.metadata[STORY].value["reason"] == "new code"


class TestReconfigure:
    @pytest.fixture
    def keeping(self, terminal: Terminal) -> Terminal:
        """A stream that runs on 4 state partitions and declares 8."""
        terminal.declare('stateful("words")')
        assert terminal.ask("start", "words").exit_code == 0
        kept = terminal.kept("words")
        kept.queries, kept.batch_seconds = (kept_by(),), 1.0
        return terminal

    def test_a_dry_run_says_what_would_be_done(self, keeping: Terminal) -> None:
        done = keeping.ask("reconfigure", "words", "16", "--dry-run")
        assert done.exit_code == 0, done.output
        assert "would change query 'counts' from 4 to 16 partitions; nothing was" in done.stdout
        assert keeping.kept("words").driver.epoch == 1

    def test_it_is_a_tracked_run_that_tells_each_step(self, keeping: Terminal) -> None:
        plays(keeping.world, [tells(change(step="rewriting")), runs(8, change())])
        done = keeping.ask("reconfigure", "words", "--query", "counts", "--reason", "it grew")
        assert done.exit_code == 0, done.output
        assert "query 'counts': rewriting" in done.stdout
        assert (
            "query 'counts': changed, 4 -> 8 partitions; by a restart of the driver; the first"
            in done.stdout
        )
        assert keeping.kept("words").driver.epoch == 2
        run = keeping.runs()[0]
        assert tagged(run) == ("reconfigure_state", "words")
        (config,) = run.run_config["ops"].values()
        assert (config["config"]["query"], config["config"]["reason"]) == ("counts", "it grew")

    def test_interrupted_it_says_that_the_driver_goes_on_and_what_follows_it(
        self, keeping: Terminal
    ) -> None:
        def interrupts(_kept: Kept, _id: str) -> None:
            signal.raise_signal(signal.SIGINT)

        plays(keeping.world, [tells(change(step="rewriting")), interrupts])
        done = keeping.ask("reconfigure", "words")
        assert done.exit_code == 1
        assert (
            "where the driver has begun to change state, it finishes or undoes that by itself\n"
            "in the end: `sparkscale explain words -f definitions.py` says what came of it\n"
            "now: `sparkscale status words -f definitions.py` follows it"
        ) in done.stderr
        (run,) = [each for each in keeping.runs() if each.job_name == "reconfigure_state"]
        assert run.tags[OUTCOME_TAG].startswith("interrupted; what had been asked for by then")

    def test_what_is_refused_is_refused_in_its_words(self, keeping: Terminal) -> None:
        done = keeping.ask("reconfigure", "words", "5")
        assert done.exit_code == 1
        assert "Error: partitions = 5: must divide 16, the number of key groups" in done.stderr


def test_without_a_home_it_says_what_is_right(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAGSTER_HOME")
    done = terminal.ask("stop", "clicks")
    assert done.exit_code == 1
    assert "DAGSTER_HOME is not set" in done.stderr
    assert terminal.kept().driver.state is DriverState.RUNNING


def test_what_dagster_can_not_make_a_run_of_is_a_sentence(terminal: Terminal) -> None:
    path = terminal.folder / "definitions.py"
    variable = "__import__('dagster').EnvVar('SPARKSCALE_TEST_UNSET')"
    path.write_text(path.read_text().replace(f'"{terminal.world.key}"', variable))
    done = terminal.ask("stop", "clicks")
    assert done.exit_code == 1
    assert "SPARKSCALE_TEST_UNSET" in done.stderr


def test_a_user_without_a_name_is_a_number(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert "by hand: sparkscale, user " in terminal.ask("stop", "clicks").stdout


def test_a_number_that_is_none_is_not_understood(terminal: Terminal) -> None:
    assert terminal.ask("stop", "clicks", "--timeout", "0").exit_code == 2
    assert terminal.ask("scale", "clicks", "many").exit_code == 2
