"""Installs a program that is missing, in the first way that works."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
MINUTES = 15
"""How long an installation may take."""


def say(text: str) -> None:
    """Tell people. Not on stdout, which is for what is found."""
    print(text, file=sys.stderr, flush=True)


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
        done = subprocess.run(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            timeout=MINUTES * 60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        say(str(error))
        return False
    return done.returncode == 0


def install_with_apt(package: str) -> bool:
    """Install a package of Debian's, as root."""
    # An update fails as a whole when one of many sources does: the package may be there still.
    run("apt-get", "update", "-qq")
    return run("apt-get", "install", "-y", "-qq", package)
