"""Jars from a Maven repository, of what tests start: Hadoop's daemons, a Kafka broker.

A lock file names each with its SHA-256; the Ivy that Spark brings fetches them: from Maven Central,
or, where `~/.m2/settings.xml` has a mirror of it, from there.
"""

import hashlib
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dagster_sparkscale.clusters.java import java_home, spark_home
from dev.installing import InstallFailed, cache, call, once

CACHE = cache()
_SECONDS = 900.0
_CENTRAL = ("*", "central", "external:*")


@dataclass(frozen=True)
class Jar:
    sha256: str
    organisation: str
    name: str
    revision: str

    @property
    def file(self) -> str:
        return f"{self.organisation}__{self.name}-{self.revision}.jar"


def wanted(lock: Path) -> list[Jar]:
    """The jars that a lock file names, a line each: SHA-256, organisation, name, revision."""
    return [Jar(*line.split()) for line in lock.read_text().splitlines() if line]


def install(lock: Path, folder: Path) -> Path:
    """The folder, with all jars that a lock file names, after fetching them where they are not
    there yet.

    Raises:
        InstallFailed: one can't be had, or has another content than the lock file says.
    """

    def fill() -> None:
        jars = wanted(lock)
        _fetch(jars, folder)
        for jar in jars:
            _check(jar, folder / jar.file, lock)
        shutil.rmtree(folder / "ivy", ignore_errors=True)  # a copy of them

    return once(folder, [lock], fill)


def listed(lock: Path, folder: Path) -> str:
    """The jars that a lock file names as the setting `spark.jars` takes them, installed in `folder`
    first where need be.

    Raises:
        InstallFailed: one can't be had.
    """
    there = install(lock, folder)
    return ",".join(str(there / jar.file) for jar in wanted(lock))


def _fetch(jars: list[Jar], folder: Path) -> None:
    module, settings = folder / "ivy.xml", folder / "ivysettings.xml"
    module.write_text("\n".join(_module(jars)))
    settings.write_text(_settings(mirror(Path.home() / ".m2" / "settings.xml")))
    ivy = next((spark_home() / "jars").glob("ivy-*.jar"))
    command = [str(java_home() / "bin" / "java"), "-Djava.net.useSystemProxies=true"]
    command += [f"-Divy.home={folder / 'ivy'}", "-jar", str(ivy), "-warn"]
    command += ["-settings", str(settings), "-ivy", str(module)]
    command += ["-retrieve", f"{folder}/[organisation]__[artifact]-[revision].[ext]"]
    call("Ivy", command, _SECONDS)


def _check(jar: Jar, path: Path, lock: Path) -> None:
    if not path.is_file():
        raise InstallFailed(f"{jar.file}: Ivy has not brought it")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != jar.sha256:
        path.unlink()
        raise InstallFailed(f"{jar.file}: its SHA-256 is {found}, and {lock} has {jar.sha256}")


def _module(jars: list[Jar]) -> Iterator[str]:
    yield '<ivy-module version="2.0"><info organisation="dev" module="jars"/><dependencies>'
    for jar in jars:
        yield (
            f'<dependency org="{jar.organisation}" name="{jar.name}" rev="{jar.revision}" '
            'transitive="false"/>'
        )
    yield "</dependencies></ivy-module>"


def _settings(root: str | None) -> str:
    """Jars alone: what they need is in the lock file, so nobody has to read their poms. Without a
    root the repository is Maven Central."""
    where = f' root="{root}"' if root else ""
    return (
        '<ivysettings><settings defaultResolver="maven"/><resolvers><ibiblio name="maven" '
        f'm2compatible="true" usepoms="false"{where}/></resolvers></ivysettings>'
    )


def mirror(settings: Path) -> str | None:
    """The mirror of Maven Central that Maven's settings name; None if there is none."""
    try:
        root = ET.parse(settings).getroot()
    except (OSError, ET.ParseError):
        return None
    for each in root.iter():
        if not each.tag.endswith("mirror"):
            continue
        told = {part.tag.rpartition("}")[2]: (part.text or "").strip() for part in each}
        of = [one.strip() for one in told.get("mirrorOf", "").split(",")]
        if any(one in of for one in _CENTRAL) and "!central" not in of:
            return told.get("url")
    return None
