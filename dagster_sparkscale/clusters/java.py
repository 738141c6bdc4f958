"""Finds a Java that Spark 4.3 runs on, and Spark itself, without starting or importing either.

    python -m dagster_sparkscale.clusters.java     prints the JAVA_HOME found, or says what to do

What must not change: pyspark is never imported (a tracked run would pay for it).
"""

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from dagster_sparkscale.clusters.errors import ClusterError

_LEAST = 17
_PREFERRED = (17, 21)
"""What Spark 4.3 is tested on by its makers; newer ones are taken only if there is nothing else."""
_MODULE = "jdk.incubator.vector"
_SYSTEM_PLACES = (
    ("/usr/lib/jvm", ""),
    ("/opt", ""),
    ("/Library/Java/JavaVirtualMachines", "Contents/Home"),
)
_USER_PLACES = (
    (".jdk", ""),  # where install-jdk puts them
    (".jre", ""),
    (".sdkman/candidates/java", ""),
    ("Library/Java/JavaVirtualMachines", "Contents/Home"),
)
_ADVICE = (
    "Spark 4.3 needs Java 17 or 21 with the module jdk.incubator.vector. Install one: "
    "`apt-get install openjdk-17-jre-headless`; or without root "
    "`pip install install-jdk && python -c \"import jdk; jdk.install('17')\"`; "
    "then, if it is in an unusual place, set JAVA_HOME."
)


def java_home(given: str | None = None) -> Path:
    """The home of a usable Java: `given` if not None, else JAVA_HOME, the one on the PATH, or one
    in a usual place.

    Raises:
        ClusterError: there is none; says what was looked at and what to install.
    """
    return Path(
        _java_home(given, os.environ.get("JAVA_HOME"), os.environ.get("PATH"), str(Path.home()))
    )


def java_version(home: Path) -> int | None:
    """The major version of the Java in `home`; None: its file `release` does not say."""
    return _release(home)[0]


@functools.cache
def _java_home(given: str | None, from_env: str | None, path: str | None, user_home: str) -> str:
    if given:
        fault = _fault(Path(given).expanduser())
        if fault:
            raise ClusterError(f"java_home = {given!r}: {fault}. {_ADVICE}")
        return str(Path(given).expanduser().absolute())
    faults = []
    newer = None
    for home in _candidates(from_env, path, Path(user_home)):
        fault = _fault(home)
        if fault:
            faults.append(f"{home}: {fault}")
        elif (version := _release(home)[0]) in _PREFERRED:
            return str(home)
        else:
            newer = newer or (version, home)
    if newer:
        return str(newer[1])
    looked = "; ".join(dict.fromkeys(faults)) or "no Java was found"
    raise ClusterError(f"No usable Java ({looked}). {_ADVICE}")


def _candidates(from_env: str | None, path: str | None, user_home: Path) -> Iterator[Path]:
    if from_env:
        yield Path(from_env)
    on_path = shutil.which("java", path=path)
    if on_path:
        yield Path(on_path).resolve().parent.parent
    places = [(Path(parent), inside) for parent, inside in _SYSTEM_PLACES]
    places += [(user_home / parent, inside) for parent, inside in _USER_PLACES]
    for parent, inside in places:
        try:
            children = sorted(parent.iterdir())
        except OSError:
            continue
        for child in children:
            for home in (child / inside, child / "Contents/Home"):
                if (home / "bin/java").is_file():
                    yield home


def _fault(home: Path) -> str | None:
    """Why the Java in `home` won't do; None if it will."""
    if not (home / "bin/java").is_file():
        return "has no bin/java"
    version, modules = _release(home)
    if version is None or modules is None:
        version, modules = _asked(home)
    if version is None:
        return "does not start"
    if version < _LEAST:
        return f"is Java {version}"
    if _MODULE not in (modules or ""):
        return f"lacks the module {_MODULE}"
    return None


def _release(home: Path) -> tuple[int | None, str | None]:
    """Version and modules by the file `release` that nearly every Java has: far cheaper than
    starting it."""
    try:
        text = (home / "release").read_text()
    except (OSError, UnicodeDecodeError):
        return None, None
    modules = re.search(r'^MODULES="(.*)"', text, re.MULTILINE)
    return _major(text), modules.group(1) if modules else None


def _asked(home: Path) -> tuple[int | None, str | None]:
    try:
        answers = [
            subprocess.run(
                [str(home / "bin/java"), *options],
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            for options in (["-XshowSettings:properties", "-version"], ["--list-modules"])
        ]
    except (OSError, subprocess.SubprocessError):
        return _release(home)[0], None
    version = re.search(r"java\.specification\.version = (\d+)", answers[0].stderr)
    return int(version.group(1)) if version else None, answers[1].stdout


def _major(release: str) -> int | None:
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
    return int(found.group(1)) if found else None


def spark_home() -> Path:
    """The Spark of the installed pyspark package.

    Raises:
        ClusterError: pyspark is not installed.
    """
    spec = find_spec("pyspark")
    places = spec.submodule_search_locations if spec else None
    for place in places or ():
        if (Path(place) / "bin/spark-class").is_file():
            return Path(place)
    raise ClusterError(
        "Spark was not found: the package pyspark is not installed for "
        f"{sys.executable}. Install it: `pip install 'dagster-sparkscale[spark]'`"
    )


def main() -> int:
    try:
        print(java_home())
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
