"""Installs what is missing: a program in the first way that works, a folder's content once."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

from filelock import FileLock

T = TypeVar("T")
_ROOT = Path(__file__).resolve().parent.parent
MINUTES = 15
"""How long an installation may take."""
_NEVER_ENDED = (OSError, subprocess.TimeoutExpired)


def say(text: str) -> None:
    """Tell people. Not on stdout, which is for what is found."""
    print(text, file=sys.stderr, flush=True)


def cache() -> Path:
    """What is downloaded is kept here: in the clone, or for the user where this is none."""
    if (_ROOT / "pyproject.toml").exists():
        return _ROOT / ".cache"
    kept = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(kept) / "dagster-sparkscale"


class InstallFailed(RuntimeError):
    """Something could not be installed; says why."""


@dataclass(frozen=True)
class Way:
    """One way to install a program."""

    name: str
    install: Callable[[], bool]
    """Returns whether it went well."""


def ensure(what: str, find: Callable[[], T | None], ways: Sequence[Way]) -> T | None:
    """What `find` finds, after the first way that works where it finds nothing.

    Args:
        what: is looked for, in words.
    """
    if (found := find()) is not None:
        return found
    for way in ways:
        say(f"No {what}: {way.name} ...")
        if not way.install():
            say(f"That did not work: {way.name}.")
        elif (found := find()) is not None:
            return found
        else:
            say(f"Done, but there is still no {what}: {way.name}.")
    return None


def run(*command: str, cwd: str | None = None) -> bool:
    """Run an installer, whose output is for people. Returns whether it went well."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        return _ended(command, MINUTES * 60, sys.stderr, cwd, env).returncode == 0
    except _NEVER_ENDED as error:
        say(str(error))
        return False


def install_with_apt(package: str) -> bool:
    """Install a package of Debian's, as root."""
    # An update fails as a whole when one of many sources does: the package may be there still.
    run("apt-get", "update", "-qq")
    return run("apt-get", "install", "-y", "-qq", package)


def unpack_with_apt(package: str, folder: Path) -> bool:
    """Download a package of Debian's and unpack it in a folder, by whatever user."""
    folder.mkdir(parents=True, exist_ok=True)
    download = ("apt-get", "download", "-qq", package)
    if not run(*download, cwd=str(folder)):
        run("apt-get", "update", "-qq")  # no list of packages may be there yet
        if not run(*download, cwd=str(folder)):
            return False
    return all(run("dpkg", "-x", str(each), str(folder)) for each in folder.glob("*.deb"))


def once(folder: Path, made_of: Sequence[Path], fill: Callable[[], None]) -> Path:
    """A folder, after it was filled where that was not done yet with the files as they are now.

    Args:
        made_of: files that say what belongs into it.
        fill: raises where it can't.
    """
    wanted = hashlib.sha256(b"".join(file.read_bytes() for file in made_of)).hexdigest()
    stamp = folder / "installed"
    folder.mkdir(parents=True, exist_ok=True)
    # Beside the folder: two processes must not install into it at once.
    with FileLock(f"{folder}.lock"):
        if not stamp.exists() or stamp.read_text() != wanted:
            stamp.unlink(missing_ok=True)
            fill()
            stamp.write_text(wanted)
    return folder


def call(
    what: str,
    command: Sequence[str],
    seconds: float = MINUTES * 60,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    told: slice = slice(-20, None),
) -> str:
    """Run a program whose output is for people only where it fails. Returns the output.

    Args:
        what: the program does, for people.
        told: which lines of the output tell what is wrong.

    Raises:
        InstallFailed: it can't be run, takes longer than `seconds`, or ends with another exit code
            than 0.
    """
    try:
        done = _ended(command, seconds, subprocess.PIPE, cwd, env)
    except _NEVER_ENDED as error:
        raise InstallFailed(f"{what}: {error}") from error
    if done.returncode:
        said = "\n".join(done.stdout.splitlines()[told])
        raise InstallFailed(f"{what} ended with {done.returncode}:\n{said}")
    return done.stdout


def _ended(
    command: Sequence[str],
    seconds: float,
    output: IO[str] | int,
    cwd: str | Path | None,
    env: Mapping[str, str] | None,
) -> "subprocess.CompletedProcess[str]":
    """A program once it has ended; one of `_NEVER_ENDED` where it has not."""
    return subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=seconds,
        check=False,
    )
