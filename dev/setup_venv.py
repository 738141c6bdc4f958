"""`python -m dev.setup_venv .venv`: what `make venv` does once it has found a Python. Requirements
may follow that bind a release: `python -m dev.setup_venv .cache/spark-3.5 'pyspark==3.5.*'`.

uv installs the packages where it can be had, as it downloads them side by side; else pip does. Runs
before anything is installed, so it uses the standard library only. Called again after it has been
interrupted, it begins anew, but what has been downloaded is there.
"""

import fcntl
import hashlib
import os
import shutil
import ssl
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dev import pip_settings

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ("--editable", ".[dev]")
UV = "uv>=0.8"
BUILD = ROOT / "dev" / "build.cfg"
CACHE = ROOT / ".cache" / "uv"
"""Of a uv that was installed here. Somebody's own uv has its own."""

NO_VENV = """\
Python could not create {venv}. On Debian and Ubuntu the package python3-venv is missing:
    apt-get install python3-venv"""


class SetupFailed(Exception):
    """The environment could not be set up; says what to do about it."""


@dataclass(frozen=True)
class Pip:
    """A pip that installs into the environment, and what somebody has set for it."""

    command: tuple[str, ...]
    settings: Mapping[str, str]


@dataclass(frozen=True)
class Uv:
    program: str
    version: str
    ours: bool
    """Installed for this environment, not somebody's own: its cache is in .cache then."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def set_up(folder: Path, environ: Mapping[str, str], bound: Sequence[str] = ()) -> None:
    """Install the project and all it needs into a virtual environment at `folder`.

    Args:
        bound: requirements besides the project's own, such as `pyspark==3.5.*`.

    Raises:
        SetupFailed: neither uv nor pip could.
    """
    begun = time.monotonic()
    stamp, unfinished = folder / ".installed", folder / ".unfinished"
    # Not in the folder: whoever is interrupted while that is cleared must find it again.
    clearing = CACHE.parent / f"{_digest(folder)}.clearing"
    if stamp.exists() and stamp.stat().st_mtime > (ROOT / "pyproject.toml").stat().st_mtime:
        return  # by the one that was waited for
    python = folder.absolute() / "bin" / "python"
    # Half a package is one to every installer, so what was interrupted is not gone on with.
    cut_off = clearing.exists() or unfinished.exists()
    fresh = cut_off or _output([str(python), "--version"]) is None
    if fresh:
        if not clearing.exists() and _is_foreign(folder):
            raise SetupFailed(
                f"VENV={folder}: there is such a folder or file, and it is no virtual environment; "
                "name another, or remove it"
            )
        say(f"Creating {folder} with Python {sys.version.split()[0]} ...")
        clearing.touch()
        try:
            _create(folder)
        except BaseException:
            if not folder.exists():
                clearing.unlink()
            raise
    unfinished.touch()
    clearing.unlink(missing_ok=True)
    env = {"DIST_EXTRA_CONFIG": str(BUILD), **environ}
    pip = _find_pip(python, env)
    if not _by_uv(python, pip, env, bound):
        if pip is None:
            raise SetupFailed(NO_VENV.format(venv=folder))
        _by_pip(pip, env, bound, fresh=fresh)
    unfinished.unlink()
    stamp.touch()
    say(f"{folder} is ready after {time.monotonic() - begun:.0f} s.")


def _is_foreign(folder: Path) -> bool:
    """Whether it has something in it and is no virtual environment."""
    if not folder.is_dir():
        return folder.exists()
    return not (folder / "pyvenv.cfg").exists() and any(folder.iterdir())


def _digest(folder: Path) -> str:
    return hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:12]


def _create(folder: Path) -> None:
    try:
        import venv  # some distributions have it apart

        # pip is installed with the rest: bootstrapping it takes seconds.
        venv.create(folder, clear=True, symlinks=True)
    except (ImportError, OSError) as error:
        say(str(error))
        shutil.rmtree(folder, ignore_errors=True)
        raise SetupFailed(NO_VENV.format(venv=folder)) from error


def _by_uv(python: Path, pip: Pip | None, environ: Mapping[str, str], bound: Sequence[str]) -> bool:
    """Whether uv did it; where it did not, a line has said why."""
    settings = pip.settings if pip else pip_settings.of_environment(environ)
    if left := pip_settings.only_pip_can(settings):
        say(f"pip alone can do what is set for it ({', '.join(left)}).")
        return False
    uv = _find_uv(python, pip, environ)
    if uv is None:
        return False
    env = _uv_environment(uv, settings, environ)
    say(f"Installing with uv {uv.version}; Spark is 0.5 GB to download ...")
    # On a terminal uv shows what it is doing; elsewhere it would list a hundred packages.
    quiet = () if sys.stderr.isatty() else ("--quiet",)
    command = [uv.program, "pip", "install", *quiet, "--python", str(python)]
    command += ["pip", *PROJECT, *bound]
    code = subprocess.run(command, cwd=ROOT, env=env, check=False).returncode
    if code != 0:
        say(f"uv could not (it ended with {code}).")
    elif env.get("UV_CACHE_DIR") == str(CACHE):
        # What is left spares the next set-up the building of Spark's wheel.
        prune = [uv.program, "cache", "prune", "--ci", "--quiet"]
        subprocess.run(prune, env=env, check=False)
    return code == 0


def _uv_environment(
    uv: Uv, settings: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    env = {
        **environ,
        **pip_settings.for_uv(settings, environ, own_indexes=_uv_has_indexes(environ)),
        "UV_PYTHON_DOWNLOADS": "never",
    }
    for name in ("UV_PYTHON", "UV_SYSTEM_PYTHON"):  # the one to install into is named
        env.pop(name, None)
    if uv.ours and "UV_NO_CACHE" not in env:
        env.setdefault("UV_CACHE_DIR", str(CACHE))
    roots = ssl.get_default_verify_paths()
    if roots.cafile or roots.capath:
        # As pip does: an authority that a company has added to its machines counts.
        env.setdefault("UV_SYSTEM_CERTS", "1")
    # As pip does. Left to the first import, the first Python workers of Spark would all compile
    # pandas and pyarrow at once, and on a busy machine come later than the 10 s it gives them.
    env.setdefault("UV_COMPILE_BYTECODE", "1")
    return env


def _uv_has_indexes(environ: Mapping[str, str]) -> bool:
    """Whether a uv.toml of this user or this machine names indexes."""
    home = environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    files = [f"{home}/uv/uv.toml", "/etc/uv/uv.toml", environ.get("UV_CONFIG_FILE", "")]
    for file in filter(os.path.isfile, files):
        try:
            settings = tomllib.loads(Path(file).read_text())
        except (OSError, ValueError):
            continue  # uv will say so
        names = settings.keys() | settings.get("pip", {}).keys()
        if names & {"index", "index-url", "extra-index-url", "find-links", "no-index"}:
            return True
    return False


def _find_uv(python: Path, pip: Pip | None, environ: Mapping[str, str]) -> Uv | None:
    ours = str(python.parent / "uv")
    theirs = shutil.which("uv", path=environ.get("PATH"))
    for program in filter(None, (theirs, ours)):
        if version := _uv_version(program):
            return Uv(program, version, ours=program == ours)
    if pip is None:
        return None
    say("Fetching uv, which installs the rest ...")
    command = [*pip.command, "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
    command += ["--only-binary", ":all:", UV]
    done = subprocess.run(
        command, env=dict(environ), capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode == 0 and (version := _uv_version(ours)):
        return Uv(ours, version, ours=True)
    said = (done.stderr.strip() or "it does not run here").splitlines()[-1]
    say(f"uv is not to be had: {pip_settings.without_password(said)}")
    return None


def _uv_version(program: str) -> str | None:
    """The version of a uv that runs and is not too old for what is asked of it here."""
    words = (_output([program, "--version"]) or "").split()
    if len(words) < 2 or words[0] != "uv":
        return None
    wanted = UV.partition(">=")[2].split(".")
    found = words[1].split(".")
    try:
        return words[1] if [int(n) for n in found[:2]] >= [int(n) for n in wanted] else None
    except ValueError:
        return None


def _find_pip(python: Path, environ: Mapping[str, str]) -> Pip | None:
    """A pip for the environment of `python`: its own, or that of the Python this runs on."""
    own = (str(python), "-m", "pip")
    base = (sys.executable, "-m", "pip", "--python", str(python))
    for command in (own, base):
        if (listing := _output([*command, "config", "list"], environ)) is not None:
            return Pip(command, pip_settings.parse(listing))
    if _output([str(python), "-m", "ensurepip"]) is None:
        return None
    return Pip(own, pip_settings.parse(_output([*own, "config", "list"], environ) or ""))


def _by_pip(pip: Pip, environ: Mapping[str, str], bound: Sequence[str], *, fresh: bool) -> None:
    say("Installing with pip, which takes minutes ...")
    command = [*pip.command, "install", "--disable-pip-version-check"]
    if not sys.stderr.isatty():
        command.append("--quiet")
    if fresh:
        # uv may have gone as far as half a package before it failed.
        command.append("--force-reinstall")
    command += ["pip", *PROJECT, *bound]
    done = subprocess.run(command, cwd=ROOT, env=dict(environ), check=False)
    if done.returncode != 0:
        raise SetupFailed("The packages could not be installed; see above for the reason.")


def _output(command: list[str], environ: Mapping[str, str] | None = None) -> str | None:
    """What a command prints, or None if it cannot be run or fails."""
    try:
        done = subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Only one set-up of `folder` at a time: two would take each other's files away."""
    CACHE.parent.mkdir(exist_ok=True)
    with open(CACHE.parent / f"{_digest(folder)}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"Waiting for another set-up of {folder} to end ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0])
    try:
        with _alone(folder):
            set_up(folder, os.environ, arguments[1:])
    except SetupFailed as failed:
        say(str(failed))
        return 1
    except KeyboardInterrupt:
        say("Interrupted. The same command begins again, with what has been downloaded.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
