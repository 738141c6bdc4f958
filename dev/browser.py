"""Sees to a Chromium for the tests of what people see, and prints where it is.

    python -m dev.browser

Chrome or Chromium is used where there is one. Else Debian's packages are installed, or, for who is
not root, unpacked in .cache. If that can't be done, says what to do and exits with 1.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dev.installing import Way, ensure, install_with_apt, run, say

UNPACKED = Path(__file__).resolve().parent.parent / ".cache" / "chromium"
"""Where Debian's packages are unpacked without being installed."""
CHROMIUM = "Chromium"
_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
_OF_MACOS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)

HELP = """\
A Chromium or Chrome is needed to look at Dagster's pages, and it could not be installed from here.
Do one of these and run the command again:

    Debian:          sudo apt-get install chromium
    Fedora, RHEL:    sudo dnf install chromium
    macOS:           brew install --cask google-chrome
    elsewhere:       put a program named chromium or google-chrome on the PATH"""


@dataclass(frozen=True)
class Browser:
    program: str
    environment: Mapping[str, str] = field(default_factory=dict)
    """What it needs of it besides what there is."""


def find() -> Browser | None:
    """A Chromium or Chrome that starts."""
    on_path = [found for name in _NAMES if (found := shutil.which(name))]
    candidates = [Browser(program) for program in (*on_path, *_OF_MACOS)]
    folders = [path.parent for path in UNPACKED.glob("usr/lib/*/libgtk-3.so.0")]
    # PulseAudio's have a folder of their own, which only an installation would name.
    libraries = [str(each) for path in folders for each in (path, path / "pulseaudio")]
    unpacked = str(UNPACKED / "usr/lib/chromium/chromium")
    candidates.append(Browser(unpacked, {"LD_LIBRARY_PATH": ":".join(libraries)}))
    return next((each for each in candidates if _starts(each)), None)


def _starts(browser: Browser) -> bool:
    # On some systems a program of that name only says how to install it.
    env = {**os.environ, **browser.environment}
    try:
        done = subprocess.run(
            [browser.program, "--version"], env=env, capture_output=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and b"Chrom" in done.stdout


def unpack() -> bool:
    """Download Debian's packages, those that are not installed, and unpack them."""
    wanted = ["apt-get", "install", "--simulate", "--no-install-recommends", "chromium"]
    told = subprocess.run(wanted, capture_output=True, text=True, check=False)
    if told.returncode:
        say(told.stderr.strip())
        return False
    packages = [line.split()[1] for line in told.stdout.splitlines() if line.startswith("Inst ")]
    shutil.rmtree(UNPACKED, ignore_errors=True)
    UNPACKED.mkdir(parents=True)
    if not run("apt-get", "download", "-qq", *packages, cwd=str(UNPACKED)):
        return False
    for package in UNPACKED.glob("*.deb"):
        if not run("dpkg", "-x", str(package), str(UNPACKED)):
            return False
        package.unlink()
    return True


def ways(*, root: bool, apt: bool) -> list[Way]:
    """The ways to install Chromium that this machine allows."""
    with_apt = Way("installing chromium with apt-get", lambda: install_with_apt("chromium"))
    unpacked = Way(f"unpacking Debian's chromium in {UNPACKED}", unpack)
    return [*([with_apt] if root else []), unpacked] if apt else []


def browser() -> Browser | None:
    """A Chromium, installed where there is none; None where that can't be done."""
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    return ensure(CHROMIUM, find, ways(root=root, apt=shutil.which("apt-get") is not None))


def main() -> int:
    found = browser()
    if found is None:
        say(HELP)
        return 1
    print(found.program)
    return 0


if __name__ == "__main__":
    sys.exit(main())
