"""What `dg` does with the component: lists it, checks its YAML, and writes a stream that runs."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

import dagster_sparkscale as ours
from tests.components.documents import CLUSTER, STREAM, TYPE, document

DEFINITIONS = """
from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project as `dg` finds one."""
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "shop"\nversion = "0"\n[tool.dg]\ndirectory_type = "project"\n'
        '[tool.dg.project]\nroot_module = "shop"\n'
    )
    defs = tmp_path / "src" / "shop" / "defs"
    defs.mkdir(parents=True)
    (defs / "__init__.py").touch()
    (defs.parent / "__init__.py").touch()
    (defs.parent / "definitions.py").write_text(DEFINITIONS)
    return tmp_path


def dg(project: Path, *words: str, fails: bool = False) -> str:
    program = Path(sys.executable).with_name("dg")
    environ = {
        **os.environ,
        **{"PYTHONPATH": str(project / "src"), "DAGSTER_CLI_TELEMETRY": "0"},
        **{"COLUMNS": "400", "NO_COLOR": "1", "DAGSTER_HOME": str(project)},
    }
    command: Sequence[str] = [str(program), *words]
    done = subprocess.run(
        command, cwd=project, env=environ, capture_output=True, text=True, timeout=600
    )
    said = done.stdout + done.stderr
    assert (done.returncode != 0) is fails, said
    return said if fails else done.stdout


def test_it_is_listed(project: Path) -> None:
    assert "dagster_sparkscale.components.SparkStreams" in dg(project, "list", "components")


@pytest.mark.clusters
def test_what_is_scaffolded_can_be_loaded(project: Path) -> None:
    dg(project, "scaffold", "defs", TYPE, "clicks-of-web", "--stream", "clicks")
    folder = project / "src" / "shop" / "defs" / "clicks-of-web"
    written = yaml.safe_load((folder / "defs.yaml").read_text())
    [stream] = written["attributes"]["streams"]
    assert stream["name"] == "clicks"
    ast.parse((folder / stream["program"]).read_text())
    dg(project, "check", "defs")  # its YAML as well
    listed = json.loads(dg(project, "list", "defs", "--json"))
    assert {each.get("key") or each["asset_key"] for each in listed["assets"]} == {
        "clicks",
        "fleet",
    }


@pytest.mark.clusters
def test_it_is_scaffolded_in_python_as_well(project: Path) -> None:
    dg(project, "scaffold", "defs", TYPE, "1st", "--format", "python")
    folder = project / "src" / "shop" / "defs" / "1st"
    # Dagster imports what is beside it, and would run it.
    assert {path.name for path in folder.glob("*.py")} == {"component.py"}
    ast.parse((project / "jobs" / "s_1st.py").read_text())
    dg(project, "check", "defs")


def test_a_name_that_no_stream_can_have_is_refused_and_nothing_is_written(project: Path) -> None:
    said = dg(project, "scaffold", "defs", TYPE, "x", "--stream", "../../../evil", fails=True)
    assert "stream" in said and "pattern" in said
    assert not list(project.rglob("evil*"))
    assert not (project / "src" / "shop" / "defs" / "x" / "defs.yaml").exists()


def test_what_is_wrong_in_yaml_is_found_without_loading_it(project: Path) -> None:
    folder = project / "src" / "shop" / "defs" / "ingest"
    folder.mkdir()
    (folder / "defs.yaml").write_text(document(CLUSTER + STREAM + "    executor_cores: 0"))
    said = dg(project, "check", "yaml", fails=True)
    assert "defs.yaml:9 - " in said
    assert "streams.0.executor_cores 0 is less than the minimum of 1" in said


def test_what_is_wrong_when_it_is_loaded_is_said_by_the_declaration(project: Path) -> None:
    folder = project / "src" / "shop" / "defs" / "ingest"
    folder.mkdir()
    both = "    autoscale: {type: RatioPolicy}\n    executors: 2"
    (folder / "defs.yaml").write_text(document(CLUSTER + STREAM + both))
    said = dg(project, "check", "defs", fails=True)
    assert "defs.yaml:5: StructuredStream 'clicks': executors = 2: drop it, or drop" in said


def test_the_module_of_the_entry_point_imports_nothing_but_dagster() -> None:
    """It is loaded by each process that loads a folder of definitions, of whatever project."""
    code = (
        "import sys, dagster; before = {*sys.modules}; import dagster_sparkscale.components; "
        "print(*{*sys.modules} - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if not name.startswith("dagster.")}
    assert loaded == {
        "dagster_sparkscale",
        "dagster_sparkscale.components",
        "dagster_sparkscale.components.scaffold",
        "dagster_sparkscale.components.spark_streams",
        "dagster_sparkscale.names",
    }


def test_the_component_is_public() -> None:
    from dagster_sparkscale.components import SparkStreams

    assert ours.SparkStreams is SparkStreams
