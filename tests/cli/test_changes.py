"""`scale`, `start`, `stop`, `restart`, `forget`: runs that Dagster records, and their refusals."""

import signal

import dagster as dg
import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.names import STORY
from tests.cli.terminal import Terminal, tagged
from tests.fakes import Kept, structured


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
        assert "2 -> 5 executors, target 5: reached after" in done.stdout

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

    def test_interrupted_it_says_what_stands_and_gives_the_stream_back(
        self, terminal: Terminal
    ) -> None:
        def on_look(kept: Kept) -> None:
            if kept.registered == 3:
                signal.raise_signal(signal.SIGINT)

        terminal.world.on_look = on_look
        done = terminal.ask("scale", "clicks", "5")
        assert done.exit_code == 1
        assert "Error: interrupted; what had been asked for by then stands" in done.stderr
        assert terminal.kept().requested == 5
        assert terminal.world.leases == set()
        assert terminal.run().is_finished

    @pytest.mark.parametrize("words", [(), ("3", "--delta", "1")])
    def test_neither_or_both_of_number_and_delta_is_not_understood(
        self, terminal: Terminal, words: tuple[str, ...]
    ) -> None:
        done = terminal.ask("scale", "clicks", *words)
        assert done.exit_code == 2
        assert "give either N, the number of executors, or --delta" in done.stderr
        assert terminal.runs() == []


class TestStartStopRestart:
    def test_a_start_materializes_the_asset(self, terminal: Terminal) -> None:
        done = terminal.ask("start", "orders")
        assert done.exit_code == 0, done.output
        assert terminal.kept("orders").driver.state is DriverState.RUNNING
        assert "started driver 1" in done.stdout
        run = terminal.run()
        assert {key.to_user_string() for key in run.asset_selection or ()} == {"orders"}
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
        monkeypatch.setattr("dagster_sparkscale.lifecycle.jobs.LEASE_WAIT", 0)
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


class TestForget:
    def orphan(self, terminal: Terminal) -> None:
        """`old` was declared and started, and runs on after it was taken out."""
        terminal.declare('structured("old"), scaled(max_executors=10)')
        assert terminal.ask("start", "old").exit_code == 0
        terminal.declare()

    def test_an_orphan_of_this_code_location_is_stopped(self, terminal: Terminal) -> None:
        self.orphan(terminal)
        done = terminal.ask("forget", "old")
        assert done.exit_code == 0, done.output
        assert terminal.kept("old").driver.state is DriverState.STOPPED
        assert next(tagged(run) for run in terminal.runs()) == ("stop_orphan", "old")

    def test_one_of_another_is_refused_unless_it_is_meant(self, terminal: Terminal) -> None:
        self.orphan(terminal)
        (terminal.folder / "other.py").write_text((terminal.folder / "definitions.py").read_text())
        done = terminal.type("forget", "old", "-f", "other.py")
        assert done.exit_code == 1
        assert "was started by code location 'definitions.py'" in done.stderr
        assert terminal.kept("old").driver.state is DriverState.RUNNING
        assert (
            terminal.type(
                "forget", "old", "-f", "other.py", "--whoever-declares-it", "--now"
            ).exit_code
            == 0
        )
        assert terminal.world.calls[-1] == "stop old at once"

    def test_a_declared_one_is_no_orphan(self, terminal: Terminal) -> None:
        done = terminal.ask("forget", "clicks")
        assert done.exit_code == 1
        assert "stream = 'clicks': is declared, so it is no orphan" in done.stderr

    def test_one_that_nobody_knows(self, terminal: Terminal) -> None:
        done = terminal.ask("forget", "odl")
        assert done.exit_code == 2
        assert "stream = 'odl': no such stream; there is clicks, orders" in done.stderr


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
