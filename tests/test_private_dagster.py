"""Private parts of Dagster, each taken away: it costs its feature, and not the code location."""

import ast
import builtins
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import dagster_sparkscale
from dagster_sparkscale import private_dagster
from dagster_sparkscale.declare.calendar import Window
from dagster_sparkscale.definitions import build_defs
from dagster_sparkscale.names import STREAMS
from tests.in_memory.cluster import World
from tests.watch.deployment import STREAM, Deployment, overload

PACKAGE = Path(dagster_sparkscale.__file__).parent
OURS = {"private_dagster.py", "cli/private_dagster.py"}


def imported(module: Path) -> list[str]:
    """The private modules of Dagster that one of ours imports, whenever it does."""
    found = []
    for node in ast.walk(ast.parse(module.read_text())):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{each.name}" for each in node.names]
        found += [name for name in names if name.startswith(("dagster._", "dagster_shared"))]
    return found


def test_they_are_imported_in_two_places_only() -> None:
    where = {str(each.relative_to(PACKAGE)) for each in PACKAGE.rglob("*.py") if imported(each)}
    assert where == OURS


def test_a_code_location_imports_none_while_it_loads() -> None:
    module = ast.parse((PACKAGE / "private_dagster.py").read_text())
    top = [each for each in module.body if isinstance(each, ast.ImportFrom | ast.Import)]
    assert [each for each in top if "dagster._" in ast.unparse(each)] == []


PARTS = [name.rpartition(".") for name in imported(PACKAGE / "private_dagster.py")]
LOADING = "dagster._core.definitions.definitions_load_context"


def test_without_how_dagster_loads_them_definitions_are_not_taken_for_those_of_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = importlib.import_module(LOADING)
    context = kind.DefinitionsLoadContext(kind.DefinitionsLoadType.RECONSTRUCTION)
    monkeypatch.setattr(kind.DefinitionsLoadContext, "_instance", context)
    assert private_dagster.is_of_a_run()
    monkeypatch.setitem(sys.modules, LOADING, None)
    assert not private_dagster.is_of_a_run()


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, _, name in PARTS])
def test_without_one_the_streams_are_seen_to(
    module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert PARTS
    import_it = builtins.__import__

    def lacks(what: str, of: Any = None, *more: Any) -> Any:
        names = more[1] if len(more) > 1 else ()
        # For us alone: Dagster itself imports some of them as late as we do.
        if what == module and name in (names or ()) and of["__name__"] == private_dagster.__name__:
            raise ImportError(f"cannot import name {name!r} from {module!r}")
        return import_it(what, of, *more)

    monkeypatch.setattr(builtins, "__import__", lacks)
    private_dagster.register_library("dagster-sparkscale", "1.0")
    deployed = Deployment([STREAM])
    overload(deployed)
    (request,) = deployed.tick().requests
    assert deployed.run(request).success
    assert deployed.world.streams["clicks"].requested == 5


@pytest.mark.parametrize(
    "name", ["get_latest_asset_check_execution_by_key", "get_asset_check_execution_history"]
)
def test_without_a_question_to_its_storage_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    deployed = Deployment([STREAM])
    overload(deployed)
    deployed.tick()
    deployed.world.end("clicks")
    storage = type(deployed.instance.event_log_storage)

    def gone(*_: object, **__: object) -> None:
        raise AttributeError(name)

    monkeypatch.setattr(storage, name, gone)
    assert deployed.tick().checks()["running"] is False
    key = dg.AssetCheckKey(dg.AssetKey("clicks"), "running")
    assert private_dagster.stored_failure(deployed.instance, key) is None or "latest" in name


def test_the_streams_are_found_by_what_a_sensor_carries(monkeypatch: pytest.MonkeyPatch) -> None:
    def carried() -> object:
        sensor = build_defs([STREAM], World().cluster).resolve_sensor_def("autoscaler")
        return private_dagster.carried(sensor.metadata, STREAMS)

    assert carried() is not None
    values = importlib.import_module("dagster._core.definitions.metadata.metadata_value")
    monkeypatch.delattr(values, "ObjectMetadataValue")
    assert carried() is None


_TAKES_AWAY = """
import importlib, runpy, sys
import dagster
module, name = sys.argv[1].rsplit(".", 1)
delattr(importlib.import_module(module), name)
sys.argv[:] = ["sparkscale", "--help"]
runpy.run_module("dagster_sparkscale", run_name="__main__")
"""


@pytest.mark.parametrize(
    "part",
    [
        "dagster._grpc.server.LoadedRepositories",
        "dagster_shared.cli.WorkspaceOpts",
        "dagster._core.scheduler.instigation.TickStatus",
    ],
)
def test_without_one_the_command_line_says_so_in_a_sentence(part: str) -> None:
    assert part in imported(PACKAGE / "cli/private_dagster.py")
    done = subprocess.run(
        [sys.executable, "-c", _TAKES_AWAY, part], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"sparkscale: Dagster {dg.__version__} lacks a part that this")
    assert part.rpartition(".")[2] in done.stderr and done.stderr.count("\n") == 1


def test_without_its_reader_of_cron_a_calendar_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dagster._utils.schedules", None)
    with pytest.raises(RuntimeError, match="does not say when a cron schedule is: declare no cal"):
        Window(cron="59 23 31 7 *", duration="1h", freeze=True)
