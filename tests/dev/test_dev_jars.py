"""Jars from a Maven repository: which, and from where."""

from pathlib import Path

import pytest

from dev import jars

LOCKS = sorted(Path(jars.__file__).parent.rglob("*.lock"))
MIRRORS = """\
<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors>
  <mirror><mirrorOf>snapshots</mirrorOf><url>http://127.0.0.1/other</url></mirror>
  <mirror><mirrorOf>{of}</mirrorOf><url> http://127.0.0.1/maven </url></mirror>
</mirrors></settings>
"""


@pytest.mark.parametrize(
    ("of", "url"),
    [
        ("*", "http://127.0.0.1/maven"),
        ("central", "http://127.0.0.1/maven"),
        ("repo1, central", "http://127.0.0.1/maven"),
        ("*,!central", None),
        ("repo1", None),
    ],
)
def test_a_mirror_of_maven_central_is_heeded(tmp_path: Path, of: str, url: str | None) -> None:
    path = tmp_path / "settings.xml"
    path.write_text(MIRRORS.format(of=of))
    assert jars.mirror(path) == url


def test_without_settings_there_is_no_mirror(tmp_path: Path) -> None:
    assert jars.mirror(tmp_path / "settings.xml") is None


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_jar_is_locked_once(lock: Path) -> None:
    locked = jars.wanted(lock)
    assert len({(jar.organisation, jar.name) for jar in locked}) == len(locked) > 0
    assert all(len(jar.sha256) == 64 for jar in locked)
