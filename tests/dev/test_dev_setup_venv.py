"""The set-up itself, of a project without dependencies: no index is asked."""

import ensurepip
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dev import setup_venv

pytestmark = pytest.mark.clusters

_ROOT = Path(setup_venv.__file__).resolve().parent.parent
_PYTHON = getattr(sys, "_base_executable", sys.executable)
_PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "tiny"
version = "1"

[project.optional-dependencies]
dev = []
"""
_BACKEND = """\
import zipfile

FILES = {
    "tiny.py": "",
    "tiny-1.dist-info/METADATA": "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n"
    "Provides-Extra: dev\\n",
    "tiny-1.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    "tiny-1.dist-info/RECORD": "",
}

def build_editable(folder, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(f"{folder}/tiny-1-py3-none-any.whl", "w") as wheel:
        for name, text in FILES.items():
            wheel.writestr(name, text)
    return "tiny-1-py3-none-any.whl"
"""
_SECRET = "http://me:secret@127.0.0.1:9/simple"
"""Nobody listens there."""


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.venv = folder / ".venv"
        self.programs = folder / "programs"
        self.programs.mkdir()
        shutil.copytree(_ROOT / "dev", folder / "dev")
        (folder / "pyproject.toml").write_text(_PYPROJECT)
        (folder / "backend.py").write_text(_BACKEND)

    def set_up(self, *bound: str, **settings: str) -> subprocess.CompletedProcess[str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_", "PYTHON"))}
        env["PATH"] = f"{self.programs}:/usr/bin:/bin"
        env["HOME"] = str(self.folder)  # whose pip.conf and uv.toml are not there
        return subprocess.run(
            [_PYTHON, "-m", "dev.setup_venv", ".venv", *bound],
            cwd=self.folder,
            env={**env, "PIP_RETRIES": "0", **settings},
            capture_output=True,
            text=True,
            timeout=120,
        )

    def has_tiny(self) -> bool:
        program = [str(self.venv / "bin" / "python"), "-c", "import pip, tiny"]
        return subprocess.run(program, stderr=subprocess.DEVNULL).returncode == 0

    def uv(self, script: str, version: str = "uv 99.0.0") -> None:
        """Somebody's uv on the PATH, which does what `script` says."""
        program = self.programs / "uv"
        program.write_text(
            f'#!/bin/sh\nif [ "$1" = --version ]; then echo "{version}"; exit; fi\n{script}\n'
        )
        program.chmod(0o755)


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


@pytest.fixture(scope="session")
def wheels():
    """A folder with a wheel of pip, as every Python brings one."""
    places = [Path(ensurepip.__file__).parent / "_bundled", Path("/usr/share/python-wheels")]
    for place in places:
        if list(place.glob("pip-*.whl")):
            return str(place)
    pytest.skip("this Python brings no wheel of pip")


def test_settings_that_only_pip_follows_are_followed_and_it_is_said(project, wheels):
    done = project.set_up(PIP_NO_INDEX="1", PIP_FIND_LINKS=wheels)
    assert done.returncode == 0, done.stderr
    assert "pip alone can do what is set for it (no-index)." in done.stderr
    assert project.has_tiny()
    assert (project.venv / ".installed").exists()
    assert not (project.venv / ".unfinished").exists()


def test_a_requirement_that_binds_a_release_is_installed_with_the_rest(project, wheels):
    asked = project.folder / "asked"
    project.uv(f'echo "$@" >> {asked}')
    assert project.set_up("tiny==1.*").returncode == 0
    assert asked.read_text().splitlines()[0].endswith("pip --editable .[dev] tiny==1.*")
    (project.venv / ".installed").unlink()
    done = project.set_up("tiny==2.*", PIP_NO_INDEX="1", PIP_FIND_LINKS=wheels)
    assert done.returncode == 1 and "tiny==2.*" in done.stderr


@pytest.mark.parametrize("after_a_failure", [False, True])
def test_a_folder_that_is_no_environment_is_left_alone(project, after_a_failure):
    if after_a_failure:
        project.uv("exit 2")
        assert project.set_up(PIP_INDEX_URL=_SECRET).returncode == 1
        shutil.rmtree(project.venv)
    project.venv.mkdir()
    (project.venv / "thesis.tex").write_text("the only copy")
    done = project.set_up()
    assert done.returncode == 1
    assert done.stderr == (
        "VENV=.venv: there is such a folder or file, and it is no virtual environment; name "
        "another, or remove it\n"
    )
    assert (project.venv / "thesis.tex").exists()


def test_a_file_is_no_environment(project):
    project.venv.write_text("the only copy")
    done = project.set_up()
    assert done.returncode == 1 and "VENV=.venv: there is such a folder or file" in done.stderr
    assert project.venv.read_text() == "the only copy"


def test_a_set_up_cut_off_while_it_cleared_an_environment_begins_anew(project, wheels):
    (project.venv / "lib").mkdir(parents=True)
    (project.venv / "lib" / "half").write_text("of what was there")
    cache = project.folder / ".cache"
    cache.mkdir()
    digest = hashlib.sha256(os.fsencode(project.venv)).hexdigest()[:12]
    (cache / f"{digest}.clearing").touch()
    done = project.set_up(PIP_NO_INDEX="1", PIP_FIND_LINKS=wheels)
    assert done.returncode == 0, done.stderr
    assert project.has_tiny()
    assert not (project.venv / "lib" / "half").exists()
    assert not list(cache.glob("*.clearing"))


def test_what_is_made_after_a_set_up_was_cut_off_is_left_alone(tmp_path, monkeypatch):
    def cut_off(folder):
        raise KeyboardInterrupt

    monkeypatch.setattr(setup_venv, "CACHE", tmp_path / "cache" / "uv")
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(setup_venv, "_create", cut_off)
    with pytest.raises(KeyboardInterrupt):
        setup_venv.set_up(tmp_path / "env", {})
    thesis = tmp_path / "env" / "thesis.tex"
    thesis.parent.mkdir()
    thesis.touch()
    with pytest.raises(setup_venv.SetupFailed, match="it is no virtual environment"):
        setup_venv.set_up(tmp_path / "env", {})
    assert thesis.exists()


def test_where_uv_fails_pip_installs_and_no_password_is_shown_or_an_argument(project, wheels):
    project.uv('echo "$@" >arguments; env >environment; exit 2')
    done = project.set_up(PIP_FIND_LINKS=wheels, PIP_INDEX_URL=_SECRET)
    assert done.returncode == 0, done.stderr
    assert "uv could not (it ended with 2).\nInstalling with pip" in done.stderr
    assert project.has_tiny()
    environment = (project.folder / "environment").read_text().splitlines()
    assert f"UV_DEFAULT_INDEX={_SECRET}" in environment
    assert "UV_PYTHON_DOWNLOADS=never" in environment
    assert f"DIST_EXTRA_CONFIG={project.folder}/dev/build.cfg" in environment
    arguments = (project.folder / "arguments").read_text()
    assert f"--python {project.venv}/bin/python" in arguments
    assert "secret" not in arguments + done.stdout + done.stderr


def test_a_uv_that_is_too_old_is_not_used(project, wheels):
    project.uv("exit 2", version="uv 0.7.22")
    done = project.set_up(PIP_FIND_LINKS=wheels, PIP_INDEX_URL=_SECRET)
    assert done.returncode == 0, done.stderr
    assert "uv is not to be had: " in done.stderr
    assert "uv could not" not in done.stderr
    assert "secret" not in done.stderr
    assert project.has_tiny()


def test_a_set_up_that_failed_says_so_and_the_next_one_begins_anew(project, wheels):
    failed = project.set_up(PIP_NO_INDEX="1")
    assert failed.returncode == 1
    assert "could not be installed" in failed.stderr
    assert not (project.venv / ".installed").exists()
    half = project.venv / "half-a-package"
    half.touch()
    done = project.set_up(PIP_NO_INDEX="1", PIP_FIND_LINKS=wheels)
    assert done.returncode == 0, done.stderr
    assert project.has_tiny()
    assert not half.exists()


def test_what_is_ready_is_left_alone_until_pyproject_changes(project):
    project.venv.mkdir()
    stamp = project.venv / ".installed"
    stamp.touch()
    os.utime(project.folder / "pyproject.toml", (0, 0))
    done = project.set_up()
    assert (done.returncode, done.stderr) == (0, "")
    assert list(project.venv.iterdir()) == [stamp]


def test_a_uv_of_somebodys_own_keeps_its_cache_and_its_settings(project, tmp_path):
    env = setup_venv._uv_environment(
        setup_venv.Uv("/usr/bin/uv", "1.0", ours=False),
        {"index-url": "https://mirror"},
        {"UV_PYTHON": "3.99", "UV_DEFAULT_INDEX": "https://mine", "HOME": str(tmp_path)},
    )
    assert "UV_CACHE_DIR" not in env
    assert "UV_PYTHON" not in env
    assert env["UV_DEFAULT_INDEX"] == "https://mine"


@pytest.mark.parametrize(
    ("environ", "cache"),
    [
        ({}, str(setup_venv.CACHE)),
        ({"UV_CACHE_DIR": "/mine"}, "/mine"),
        ({"UV_NO_CACHE": "1"}, None),
    ],
)
def test_a_uv_installed_here_keeps_its_cache_here(environ, cache):
    uv = setup_venv.Uv("/x/.venv/bin/uv", "1.0", ours=True)
    assert setup_venv._uv_environment(uv, {}, environ).get("UV_CACHE_DIR") == cache


def test_byte_code_is_made_at_once_unless_somebody_has_said_otherwise():
    uv = setup_venv.Uv("uv", "1.0", ours=True)
    assert setup_venv._uv_environment(uv, {}, {})["UV_COMPILE_BYTECODE"] == "1"
    given = {"UV_COMPILE_BYTECODE": "0"}
    assert setup_venv._uv_environment(uv, {}, given)["UV_COMPILE_BYTECODE"] == "0"


@pytest.mark.parametrize(
    ("text", "theirs"),
    [
        ('index-url = "https://mine"', True),
        ('[[index]]\nurl = "https://mine"', True),
        ('[pip]\nfind-links = ["/mine"]', True),
        ("native-tls = true", False),
        ("not toml", False),
    ],
)
def test_indexes_of_a_uv_toml_are_not_overridden(tmp_path, text, theirs):
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv" / "uv.toml").write_text(text)
    env = setup_venv._uv_environment(
        setup_venv.Uv("uv", "1.0", ours=False),
        {"index-url": "https://mirror"},
        {"XDG_CONFIG_HOME": str(tmp_path)},
    )
    assert ("UV_DEFAULT_INDEX" not in env) == theirs
