"""Backtests from the command line, of a history in Dagster's event log."""

import json
import shutil
import sys
import time
from pathlib import Path

import dagster as dg
import pytest

from dagster_sparkscale.cli import backtest as commands
from tests.advice.recorded import recorded, stored_in
from tests.cli.terminal import Terminal

DECLARED = (
    'structured("clicks", executor_cores=2, autoscale=RatioPolicy(max_executors=20, '
    "min_executors=1))"
)


@pytest.fixture(scope="module")
def stored_home(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of Dagster, to copy, in which hours of `clicks` are stored."""
    home = tmp_path_factory.mktemp("stored") / "home"
    shutil.copytree(made_home, home)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        stored_in(instance, recorded(began_at=int(time.time()) // 86400 * 86400 - 86400))
    return home


@pytest.fixture
def known(terminal: Terminal, stored_home: Path) -> Terminal:
    """`clicks`, of which hours are stored."""
    shutil.copytree(stored_home, terminal.folder / "home", dirs_exist_ok=True)
    terminal.declare(DECLARED)
    definitions = terminal.folder / "definitions.py"
    imported = "from dagster_sparkscale import RatioPolicy\n"
    definitions.write_text(imported + definitions.read_text())
    return terminal


def test_the_conclusion_comes_first_then_its_error_then_the_table(known: Terminal) -> None:
    done = known.ask("backtest", "clicks", "--policy", "fixed:executors=2", "--most-late", "5")
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].startswith("clicks: the declared policy is in time (")
    assert lines[1].startswith("  calibrated by ")
    assert lines[2].startswith("  replayed on the executors that were there: executor-hours ")
    (head,) = [number for number, line in enumerate(lines) if line.startswith("POLICY")]
    names = [line.split()[0] for line in lines[head + 1 :] if not line.startswith(" ")]
    assert names == ["recorded", "declared", "executors=2", "oracle"]
    assert "late, and 5 % may be" in done.output


def test_a_policy_that_is_too_late_fails_the_build(known: Terminal) -> None:
    done = known.ask("backtest", "clicks", "--most-late", "0", "--scale", "9", "--json")
    assert done.exit_code == 1, done.output
    found = json.loads(done.output)
    assert found["policies"][0]["late_percent"] > 0
    assert found["recommended"] is None


def test_where_the_simulation_is_not_what_ran_no_advice_is_given(known: Terminal) -> None:
    definitions = known.folder / "definitions.py"
    definitions.write_text(definitions.read_text().replace("min_executors=1", "min_executors=19"))
    done = known.ask("backtest", "clicks", "--policy", "capacity")
    assert done.exit_code == 2
    assert done.output.startswith("clicks: no advice, as the simulation is not what was recorded: ")
    assert "POLICY" not in done.output


def test_without_a_history_there_is_no_advice(known: Terminal) -> None:
    done = known.ask("backtest", "clicks", "--until", "2020-01-01", "--days", "1")
    assert done.exit_code == 2
    assert "nothing was stored of it" in done.output
    with dg.DagsterInstance.get() as instance:
        instance.wipe_assets([dg.AssetKey("clicks")])
    assert known.ask("backtest", "clicks").exit_code == 2


def test_a_trace_needs_no_history(known: Terminal) -> None:
    rates = "".join(f"{60 * n},{1000 + 10 * n}\n" for n in range(60))
    (known.folder / "load.csv").write_text(f"seconds,records_per_second\n{rates}")
    words = ("backtest", "clicks", "--trace", "load.csv", "--most-late", "100", "--json")
    with dg.DagsterInstance.get() as instance:
        instance.wipe_assets([dg.AssetKey("clicks")])
    fields = "overhead=0.8,work=0.0032,partitions=64"
    done = known.ask(*words, "--application", fields, "--policy", "capacity")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["seconds"] == 3600 and found["replay"] is None
    assert len(found["policies"]) == 2
    assert known.ask(*words).exit_code == 2  # whose batches are not known


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["clikcs"], "did you mean clicks"),
        (["clicks", "--policy", "ration"], "did you mean 'ratio'"),
        (["clicks", "--policy", "ratio:scale_up_ratio=-1"], "scale_up_ratio = -1"),
        (["clicks", "--application", "work=1"], "needs the load of a --trace"),
        (["clicks", "--since", "yesterday"], "must be a moment"),
        (["clicks", "--since", "2021-01-01", "--until", "2020-01-01"], "must be before"),
        (["clicks", "--held-out", "1"], "--held-out"),
        (["clicks", "--days", "1e300"], "--days"),
        (["clicks", "--trace", "none.csv", "--application", ""], "none.csv"),
        (["clicks", "--trace", "none.csv"], "'none.csv': No such file"),
        (["clicks", "--policy", "fixed"], "must be as fixed:executors=4"),
        (["clicks", "--trace", "definitions.py"], "must be 'seconds,records_per_second'"),
    ],
)
def test_what_is_wrong_is_said(known: Terminal, words: list[str], fault: str) -> None:
    done = known.ask("backtest", *words)
    assert done.exit_code == 2
    assert fault in done.output


def test_many_policies_are_tried_and_what_to_declare_is_said(
    known: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = ["capacity", "ratio:scale_up_ratio=0.8", "fixed:executors=2"]
    monkeypatch.setattr(commands, "policies_to_try", lambda _: few)
    done = known.ask("recommend", "clicks", "--most-late", "5", "--json", "--report", "one.png")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert [each["rejected"] is None for each in found["policies"]] == [True, True, True, False]
    assert found["recommended"] in [each["policy"] for each in found["policies"][:3]]
    assert (known.folder / "one.png").read_bytes().startswith(b"\x89PNG")
    known.ask("backtest", "clicks", "--most-late", "5", "--report", "one.html")
    assert "clicks: backtest</title>" in (known.folder / "one.html").read_text()
    wrong = known.ask("backtest", "clicks", "--most-late", "5", "--report", "one.txt")
    assert wrong.exit_code == 2 and "--report: " in wrong.output


def test_a_report_to_no_folder_is_refused_before_anything_is_computed(
    known: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "run_backtest", None)
    done = known.ask("backtest", "clicks", "--report", "reports/one.png")
    assert done.exit_code == 2
    assert "--report: 'reports' is no folder" in done.output


def test_without_matplotlib_the_extra_is_named(
    known: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dagster_sparkscale.advice.picture", None)
    done = known.ask("backtest", "clicks", "--report", "one.png")
    assert done.exit_code == 2
    assert "pip install 'dagster-sparkscale[report]'" in done.output


def test_what_is_in_the_way_is_no_policy_that_is_too_late(
    known: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAGSTER_HOME")
    done = known.ask("backtest", "clicks")
    assert done.exit_code == 2 and "DAGSTER_HOME is not set" in done.output
    (known.folder / "definitions.py").write_text("1 / 0")
    done = known.ask("recommend", "clicks")
    assert done.exit_code == 2 and "can't be loaded" in done.output
