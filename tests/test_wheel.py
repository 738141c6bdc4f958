"""What `pip install` of a clone installs: a wheel of it, built from what git knows."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def of_git(*paths: str) -> set[str]:
    """The files at these paths that are, or may be, committed."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *paths],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in a wheel that is built from a copy, as building leaves things behind."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in of_git("."):
        if not name.startswith(("tests/", "docs/", "benchmarks/report")):
            (folder / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "copy" / name)
    made = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])",
            str(folder),
        ],
        cwd=folder / "copy",
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    [built] = folder.glob("*.whl")
    return set(zipfile.ZipFile(built).namelist())


def test_it_has_the_package_and_nothing_else(wheel: set[str]) -> None:
    """Data files too: the marker of types, and whatever the package may read at run time. The quick
    start, which is copied into it, is looked at in tests/dev/test_wheel.py."""
    apart = (".dist-info/", "dagster_sparkscale/quick_start/")
    installed = {name for name in wheel if not any(each in name for each in apart)}
    assert installed == of_git("dagster_sparkscale", "pyspark_kinesis_direct.py")
    assert "dagster_sparkscale/py.typed" in installed


def test_it_has_its_licence_and_its_command(wheel: set[str]) -> None:
    inside = {name.partition(".dist-info/")[2] for name in wheel if ".dist-info/" in name}
    assert {"licenses/LICENSE", "entry_points.txt", "METADATA"} <= inside
