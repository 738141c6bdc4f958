"""Finds a Java that Spark runs on, and Spark itself, without starting or importing either.

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
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.driver.spark.releases import LEAST, TooOld, minor, need, release_at


@dataclass(frozen=True)
class Needs:
    """What a release of Spark needs of Java."""

    spark: str
    tested: tuple[int, ...]
    """Major versions that its makers test; others are taken only if there is nothing else."""
    least: int = 17
    most: int | None = None
    module: str | None = "jdk.incubator.vector"

    @property
    def advice(self) -> str:
        versions = ", ".join(map(str, self.tested[:-1])) + f" or {self.tested[-1]}"
        module = f" with the module {self.module}" if self.module else ""
        return (
            f"Spark {self.spark} needs Java {versions}{module}. Install one: "
            "`apt-get install openjdk-17-jre-headless`; or without root "
            "`pip install install-jdk && python -c \"import jdk; jdk.install('17')\"`; "
            "then, if it is in an unusual place, set JAVA_HOME."
        )


# From Java 23 on `Subject.getSubject` fails, by which Spark and Hadoop found their user before 4.1.
_BEFORE_USERS = 22


def needs_of(version: str | None) -> Needs:
    """
    Args:
        version: of Spark; None where it is not known, which is then like the newest.
    """
    release = minor(version) if version else "4.3"
    if release.startswith("3."):
        return Needs(release, (8, 11, 17), least=8, most=_BEFORE_USERS, module=None)
    return Needs(release, (17, 21), most=_BEFORE_USERS if release == "4.0" else None)


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


def java_home(declared: str | None = None, spark: Path | None = None) -> Path:
    """The home of a Java that Spark runs on: `declared` if not None, else JAVA_HOME, the one on the
    PATH, or one in a usual place.

    Args:
        spark: the home of that Spark; None: that of the installed pyspark package.

    Raises:
        ClusterError: no Java will do; says where it was searched for and what to install.
    """
    home = spark or _installed()
    needs = needs_of(release_at(home) if home else None)
    environ = os.environ
    return Path(
        _java_home(needs, declared, environ.get("JAVA_HOME"), environ.get("PATH"), str(Path.home()))
    )


def java_version(home: Path) -> int | None:
    """The major version of the Java in `home`; None: its file `release` does not say."""
    return _release(home)[0]


@functools.cache
def _java_home(
    needs: Needs, declared: str | None, from_env: str | None, path: str | None, user_home: str
) -> str:
    if declared:
        fault = _fault(Path(declared).expanduser(), needs)
        if fault:
            raise ClusterError(f"java_home = {declared!r}: {fault}. {needs.advice}")
        return str(Path(declared).expanduser().absolute())
    faults = []
    untested = None
    for home in _candidates(from_env, path, Path(user_home)):
        fault = _fault(home, needs)
        if fault:
            faults.append(f"{home}: {fault}")
        elif _release(home)[0] in needs.tested:
            return str(home)
        else:
            untested = untested or home
    if untested:
        return str(untested)
    looked = "; ".join(dict.fromkeys(faults)) or "no Java was found"
    raise ClusterError(f"No usable Java ({looked}). {needs.advice}")


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


def _fault(home: Path, needs: Needs) -> str | None:
    """Why the Java in `home` won't do; None if it will."""
    if not (home / "bin/java").is_file():
        return "has no bin/java"
    version, modules = _release(home)
    if version is None or (needs.module and modules is None):
        version, modules = _asked(home)
    if version is None:
        return "does not start"
    if version < needs.least or (needs.most and version > needs.most):
        return f"is Java {version}"
    if needs.module and needs.module not in (modules or ""):
        return f"lacks the module {needs.module}"
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
        ClusterError: pyspark is not installed, or is too old.
    """
    home = _installed()
    if home is None:
        raise ClusterError(
            "Spark was not found: the package pyspark is not installed for "
            f"{sys.executable}. Install it: `pip install 'dagster-sparkscale[spark]'`"
        )
    refuse_if_too_old(home)
    return home


def refuse_if_too_old(spark: Path) -> None:
    """
    Raises:
        ClusterError: no stream runs on the Spark in `spark`.
    """
    try:
        need("a stream", LEAST, release_at(spark) or "")
    except TooOld as error:
        cure = "Install a newer one: `pip install 'dagster-sparkscale[spark]'`"
        raise ClusterError(f"{error}, in {spark}. {cure}") from None


def _installed() -> Path | None:
    spec = find_spec("pyspark")
    places = spec.submodule_search_locations if spec else None
    for place in places or ():
        if (Path(place) / "bin/spark-class").is_file():
            return Path(place)
    return None


def main() -> int:
    try:
        print(java_home())
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
