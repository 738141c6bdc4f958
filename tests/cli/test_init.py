"""A minimal definitions.py, written by the command."""

import runpy
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from dagster_sparkscale.cli.main import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_it_writes_loads_as_it_is_and_its_program_is_there(folder: Path) -> None:
    done = CliRunner().invoke(main, ["init", "clicks"])
    assert done.exit_code == 0, done.output
    defs = runpy.run_path(str(folder / "definitions.py"))["defs"]
    keys = {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}
    assert keys == {"clicks", "fleet"}
    assert isinstance(defs.resolve_job_def("rescale"), dg.JobDefinition)
    program = folder / "jobs" / "clicks.py"
    compile(program.read_text(), str(program), "exec")
    assert "sparkscale start clicks -f definitions.py" in done.output


def test_nothing_that_is_there_is_written_over(folder: Path) -> None:
    (folder / "jobs").mkdir()
    (folder / "jobs" / "numbers.py").write_text("mine")
    done = CliRunner().invoke(main, ["init"])
    assert done.exit_code == 1
    assert "jobs/numbers.py is there already: nothing was written" in done.output
    assert not (folder / "definitions.py").exists()


@pytest.mark.parametrize("name", ["1st", "a-b", "a b", "", "x" * 64])
def test_a_name_that_no_stream_can_have_is_not_understood(folder: Path, name: str) -> None:
    done = CliRunner().invoke(main, ["init", name])
    assert done.exit_code == 2
    assert "must be letters, digits and underscores" in done.output
    assert list(folder.iterdir()) == []
