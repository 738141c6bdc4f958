"""How long `make venv` takes on a fresh machine, against plain pip.

Ours: what `make venv` runs. Peer: `python -m venv` and `pip install`, as before. Both into a folder
of their own with empty caches, in turn, and both until Dagster and Spark have been imported once.

Every repetition downloads all packages twice, so there are few.
"""

import os
import re
import resource
import shutil
import sys
import tempfile
import time
from importlib.metadata import distributions
from pathlib import Path

from benchmarks.figures import Figure, paired_ratio
from dev.installing import InstallFailed, call

REPETITIONS = 2
GOAL = 0.6

_ROOT = Path(__file__).resolve().parent.parent
_PROJECT = (
    "dagster_sparkscale",
    "dev",
    "pyproject.toml",
    "pyspark_kinesis_direct.py",
    "README.md",
    "LICENSE",
)
_PYTHON: str = getattr(sys, "_base_executable", sys.executable)
_IMPORT = ("-c", "import dagster, dagster_webserver, pyspark")


class _SetUp:
    """One set-up of a fresh environment, and what came of it."""

    def __init__(self, way: str) -> None:
        self.installer = "pip"
        with tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as name:
            self._folder = Path(name)
            for part in _PROJECT:
                self._copy(part)
            # What the one before has left to be written is not this one's to wait for.
            os.sync()
            cpu, begun = _cpu(), time.perf_counter()
            getattr(self, way)()
            installed = time.perf_counter()
            self._run(".venv/bin/python", *_IMPORT)
            self.seconds = time.perf_counter() - begun
            self.importing = time.perf_counter() - installed
            self.cpu = _cpu() - cpu
            site = next(self._folder.glob(".venv/lib/python*/site-packages"))
            self.packages = {(each.name, each.version) for each in distributions(path=[str(site)])}

    def ours(self) -> None:
        said = self._run(_PYTHON, "-m", "dev.setup_venv", ".venv")
        if with_uv := re.search(r"with (uv \S+?);", said):
            self.installer = with_uv[1]

    def theirs(self) -> None:
        self._run(_PYTHON, "-m", "venv", ".venv")
        pip = (".venv/bin/python", "-m", "pip", "install", "--quiet")
        self._run(*pip, "--disable-pip-version-check", "-e", ".[dev]")

    def _copy(self, part: str) -> None:
        if (_ROOT / part).is_dir():
            shutil.copytree(_ROOT / part, self._folder / part)
        else:
            shutil.copy(_ROOT / part, self._folder)

    def _run(self, *command: str) -> str:
        env = {**os.environ, "PIP_NO_CACHE_DIR": "1"}
        env["UV_CACHE_DIR"] = str(self._folder / ".cache" / "uv")
        # A session without byte code is not what a person has.
        for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV"):
            env.pop(name, None)
        what = " ".join(command[1:])
        try:
            return call(what, command, cwd=self._folder, env=env, told=slice(-10, None))
        except InstallFailed as error:
            sys.exit(
                "setup_seconds installs everything from the package index, which may be out of "
                f"reach: {error}"
            )


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure() -> list[Figure]:
    ours: list[_SetUp] = []
    theirs: list[_SetUp] = []
    for repetition in range(REPETITIONS):
        # Who is second finds what is between here and the index warmed up.
        ways = [("ours", ours), ("theirs", theirs)]
        for way, done in ways if repetition % 2 == 0 else reversed(ways):
            done.append(_SetUp(way))
    return [
        paired_ratio(
            "setup_seconds",
            [each.seconds for each in ours],
            [each.seconds for each in theirs],
            goal=GOAL,
            detail={
                "ours": "dev.setup_venv, then the first import",
                "theirs": "python -m venv, pip install, then the first import",
                "installers": [each.installer for each in ours],
                "importing_seconds": {
                    "ours": [round(each.importing, 1) for each in ours],
                    "theirs": [round(each.importing, 1) for each in theirs],
                },
                "cpu_seconds": {
                    "ours": [round(each.cpu, 1) for each in ours],
                    "theirs": [round(each.cpu, 1) for each in theirs],
                },
                "packages": len(ours[-1].packages),
                "packages_of_one_only": sorted(
                    f"{name} {version}" for name, version in ours[-1].packages ^ theirs[-1].packages
                ),
            },
        )
    ]
