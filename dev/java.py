"""Sees to a Java runtime that Spark can run on, and prints its home.

    JAVA_HOME="$(python -m dev.java)"

The home goes to stdout, what is being done about a missing one to stderr. If there is none and none
can be installed, says what to do and exits with 1.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from dev import installing
from dev.installing import Way, ensure, run, say

FINDER = [sys.executable, "-m", "dagster_sparkscale.clusters.java"]
USER_JDKS = Path.home() / ".jdk"
"""Where the Python package install-jdk puts what it installs, and where it is looked for."""
JAVA = "Java that Spark can run on"

HELP = """\
Spark needs Java 17 or 21 (a whole JDK, or Debian's headless JRE), and it could not be installed
from here. Do one of these and run the command again:

    Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless
    Fedora, RHEL:    sudo dnf install java-21-openjdk-headless
    macOS:           brew install openjdk@17
                     export JAVA_HOME="$(brew --prefix openjdk@17)"
    elsewhere:       unpack any JDK 17 or 21 and export JAVA_HOME=<its folder>"""


_INSTALL_JDK = """\
import sys
import jdk
try:
    jdk.install("17", path=sys.argv[1])
except Exception as error:
    sys.exit(f"install-jdk: {error}")
"""


def find() -> str | None:
    """The home of a Java that Spark can run on."""
    # A process of its own each time: what was found before an installation is not asked again.
    found = subprocess.run(FINDER, capture_output=True, text=True, check=False)
    return found.stdout.strip() or None if found.returncode == 0 else None


def install_with_apt() -> bool:
    return installing.install_with_apt("openjdk-17-jre-headless")


def install_for_user() -> bool:
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    if not run(*pip, "install-jdk"):
        return False
    return run(sys.executable, "-c", _INSTALL_JDK, str(USER_JDKS))


def ways(*, root: bool, apt: bool) -> list[Way]:
    """The ways to install Java that this machine allows."""
    for_user = Way(f"installing a JDK 17 into {USER_JDKS}", install_for_user)
    with_apt = Way("installing openjdk-17-jre-headless with apt-get", install_with_apt)
    return [with_apt, for_user] if root and apt else [for_user]


def main() -> int:
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    home = ensure(JAVA, find, ways(root=root, apt=shutil.which("apt-get") is not None))
    if home is None:
        say(HELP)
        return 1
    print(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
