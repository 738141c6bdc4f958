"""What is released: the wheel and the source distribution, installed where nothing else is."""

import ast
import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from fnmatch import fnmatch
from pathlib import Path

import pytest

from dagster_sparkscale.version import __version__
from tests.deploy.test_images import DAGSTER, arguments, instructions
from tests.waiting import HANGS

ROOT = Path(__file__).parents[2]
PACKAGE = "dagster_sparkscale"
FOLDER = f"{PACKAGE}/quick_start/"
BEGINS = ("demo/run.py", "demo/load.py", "definitions.py", "dev/java.py", "dev/runs.py")
BEGINS_TOO = ("dev/kinesis.py", "dev/kafka/__main__.py")
"""What the demo runs as processes of their own."""
NO_FILES = ("demo/pictures.py", "dev/browser.py")
"""For `make screenshots`, which wants a clone."""


def patterns() -> tuple[str, ...]:
    """The files of the quick start, as setup.py has them."""
    for node in ast.parse((ROOT / "setup.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FILES":
            found: tuple[str, ...] = eval(compile(ast.Expression(node.value), "setup.py", "eval"))
            return found
    raise AssertionError("setup.py has no FILES")


def bundled() -> set[str]:
    return {str(path.relative_to(ROOT)) for each in patterns() for path in ROOT.glob(each)}


def needed() -> set[str]:
    """All modules beside the package that the demo imports, at whatever time."""
    found: set[str] = set()
    todo = [*BEGINS, *BEGINS_TOO]
    while todo:
        file = todo.pop()
        if file not in found and file not in NO_FILES:
            found.add(file)
            todo += imported(ROOT / file)
    return found


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
        for name in names:
            for file in (f"{name.replace('.', '/')}.py", f"{name.replace('.', '/')}/__init__.py"):
                if not file.startswith(f"{PACKAGE}/") and (ROOT / file).is_file():
                    yield file


def test_the_quick_start_has_all_that_it_imports_and_nothing_else_of_the_repository() -> None:
    files = bundled()
    modules = {file for file in files if file.endswith(".py")}
    programs = {file for file in modules if file.startswith("jobs/")}
    packages = {file for file in modules if file.endswith("/__init__.py")}
    assert needed() - modules == set()
    assert modules - programs - packages - needed() == set()
    assert {"dagster.yaml", "workspace.yaml", "dev/emulators/tether.js"} <= files


def test_the_changelog_begins_with_the_version() -> None:
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert first and first[1] == __version__
    # It stands in one place: whoever else wants it reads that.
    text = (ROOT / "pyproject.toml").read_text()
    assert f'"{__version__}"' not in text


@dataclass(frozen=True)
class Built:
    wheel: Path
    source: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Both, built of a copy, as the wheel is of the source distribution."""
    folder = tmp_path_factory.mktemp("release")
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split()]
    shutil.copytree(ROOT, folder / "clone", ignore=shutil.ignore_patterns(*ignored, ".git"))
    run(
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        "dist",
        ".",
        cwd=folder / "clone",
    )
    [wheel] = (folder / "clone" / "dist").glob("*.whl")
    [source] = (folder / "clone" / "dist").glob("*.tar.gz")
    return Built(wheel, source)


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment that has the wheel, with what it needs, and nothing else."""
    folder = tmp_path_factory.mktemp("empty") / "venv"
    run(sys.executable, "-m", "venv", str(folder))
    pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check")
    run(*pip, "--quiet", str(built.wheel))
    return folder


def run(*command: str, cwd: Path | None = None, code: int = 0) -> str:
    """The output of a program that knows nothing of this clone."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as file:
        [name] = (each for each in file.namelist() if each.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(file.read(name))


@pytest.mark.clusters
class TestRelease:
    def test_the_wheel_has_the_package_and_the_quick_start(self, built: Built) -> None:
        with zipfile.ZipFile(built.wheel) as file:
            found = {name for name in file.namelist() if ".dist-info/" not in name}
        package = {
            str(path.relative_to(ROOT))
            for path in (ROOT / PACKAGE).rglob("*")
            if path.is_file() and path.suffix not in (".pyc", ".pyo")
        }
        assert found == package | {f"{FOLDER}{file}" for file in bundled()} | {
            "pyspark_kinesis_direct.py"
        }
        assert f"{PACKAGE}/py.typed" in found

    def test_its_metadata_say_what_it_is(self, built: Built) -> None:
        said = metadata(built.wheel)
        assert said["Name"] == "dagster-sparkscale"
        assert said["Version"] == __version__
        assert said["License-Expression"] == "Apache-2.0 AND MIT"
        licenses = said.get_all("License-File") or []
        assert [name for name in licenses if fnmatch(name, "LICENSE")]
        assert [name for name in licenses if fnmatch(name, "*/uplot.LICENSE")]
        # As PEP 639 has it: no classifier says it a second time.
        assert not [each for each in said.get_all("Classifier") or [] if "License" in each]
        assert "demo" in (said.get_all("Provides-Extra") or [])

    def test_the_source_has_what_tests_and_docs_are_made_of(self, built: Built) -> None:
        with tarfile.open(built.source) as file:
            found = {name.partition("/")[2] for name in file.getnames()}
        assert {
            *("setup.py", "Makefile", "CHANGELOG.md", "LICENSE", "mkdocs.yml", "definitions.py"),
            *("tests/dev/test_wheel.py", "docs/index.md", "deploy/prometheus/alerts.yaml"),
            *("dev/kubernetes/control_plane/go.mod", ".ci/run", "jobs/clicks.py"),
            *(".dockerignore", "deploy/docker/Dockerfile.driver"),
        } - found == set()
        assert not [name for name in found if name.endswith((".pyc", ".egg-link"))]

    def test_the_command_is_there_where_nothing_else_is(
        self, installed: Path, tmp_path: Path
    ) -> None:
        sparkscale = str(installed / "bin" / "sparkscale")
        assert run(sparkscale, "--version", cwd=tmp_path) == f"sparkscale, version {__version__}\n"
        assert "--headless" in run(sparkscale, "demo", "--help", cwd=tmp_path)
        # Spark is an extra, and what the demo needs besides.
        said = run(sparkscale, "demo", cwd=tmp_path, code=1)
        assert "Error: the demo needs pyspark, " in said
        assert "pip install 'dagster-sparkscale[demo]'" in said
        assert [*tmp_path.iterdir()] == []

    def test_an_image_of_it_loads_the_definitions_for_kubernetes(
        self, built: Built, tmp_path: Path
    ) -> None:
        """What Dockerfile.dagster installs, where no image can be built: by its own command, into
        an environment that has nothing else, neither Spark."""
        given, dist = arguments(DAGSTER), "/tmp/dist"
        [install] = [line for line in instructions(DAGSTER) if line.startswith("RUN ")]
        command = install.partition(f"target={dist} ")[2].replace(dist, str(built.wheel.parent))
        assert command.split()[:2] == ["pip", "install"]
        folder = tmp_path / "venv"
        run(sys.executable, "-m", "venv", str(folder))
        path = f"{folder / 'bin'}:{os.environ['PATH']}"
        image = ("env", f"PATH={path}", f"DAGSTER={given['DAGSTER']}", "bash", "-c")
        run(*image, command)
        shutil.copytree(ROOT / given["APP"], tmp_path / "app")
        said = run(*image, "dagster definitions validate -f definitions.py", cwd=tmp_path / "app")
        assert "All code locations passed validation" in said, said
        for module, there in (
            ("dagster_k8s", True),
            ("dagster_postgres", True),
            ("pyspark", False),
        ):
            found = f"import importlib.util as u; print(u.find_spec({module!r}) is not None)"
            assert run(*image, f'python -c "{found}"') == f"{there}\n"

    def test_the_definitions_of_the_quick_start_load(self, installed: Path, tmp_path: Path) -> None:
        python = str(installed / "bin" / "python")
        where = "import dagster_sparkscale; print(dagster_sparkscale.__path__[0])"
        folder = Path(run(python, "-c", where, cwd=tmp_path).strip(), "quick_start")
        assert folder.is_relative_to(installed)
        loads = (
            "import dagster as dg, definitions; "
            "dg.Definitions.validate_loadable(definitions.defs); "
            "print(*(stream.name for stream in definitions.STREAMS))"
        )
        said = run(python, "-W", "ignore", "-c", loads, cwd=folder)
        assert said.splitlines()[-1] == "clicks orders visits"

    def test_no_other_package_s_name_is_taken(self, installed: Path) -> None:
        [site] = (installed / "lib").glob("python*/site-packages")
        [record] = site.glob("dagster_sparkscale-*.dist-info/RECORD")
        tops = {line.partition("/")[0].partition(",")[0] for line in record.read_text().split("\n")}
        ours = {each for each in tops if each and not each.startswith((PACKAGE, "..", "__pycache"))}
        assert ours == {"pyspark_kinesis_direct.py"}
