"""Finding a Java: every place it may be, and what is said when there is none."""

import subprocess
import sys
from pathlib import Path

import pytest

from dagster_sparkscale.clusters import java
from dagster_sparkscale.clusters.errors import ClusterError
from tests.waiting import HANGS

_GOOD = "java.base jdk.incubator.vector java.se"


def install(home: Path, version: str | None = "17.0.15", modules: str | None = _GOOD) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin/java").write_text("#!/bin/sh\nexit 1\n")
    (home / "bin/java").chmod(0o755)
    lines = []
    if version:
        lines.append(f'JAVA_VERSION="{version}"')
    if modules:
        lines.append(f'MODULES="{modules}"')
    if lines:
        (home / "release").write_text("\n".join(lines) + "\n")
    return home


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no Java in sight."""
    monkeypatch.setattr(java, "_SYSTEM_PLACES", ((str(tmp_path / "jvm"), ""),))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    java._java_home.cache_clear()
    return tmp_path


def test_the_environment_wins(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(machine / "jvm/a")
    monkeypatch.setenv("JAVA_HOME", str(install(machine / "mine", "21.0.1")))
    assert java.java_home() == machine / "mine"


def test_an_unusable_one_in_the_environment_is_passed_over(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(machine / "jvm/a")
    monkeypatch.setenv("JAVA_HOME", str(install(machine / "old", "1.8.0_392")))
    assert java.java_home() == machine / "jvm/a"


def test_the_one_on_the_path_is_followed_to_its_home(machine: Path) -> None:
    install(machine / "somewhere")
    (machine / "bin").mkdir()
    (machine / "bin/java").symlink_to(machine / "somewhere/bin/java")
    assert java.java_home() == machine / "somewhere"


def test_the_one_that_install_jdk_fetched_is_found(machine: Path) -> None:
    install(machine / "home/.jdk/jdk-17.0.15+6")
    assert java.java_home() == machine / "home/.jdk/jdk-17.0.15+6"


def test_a_tested_version_goes_before_a_newer_one(machine: Path) -> None:
    install(machine / "jvm/a", "25.0.3")
    install(machine / "jvm/b", "21")
    assert java.java_home() == machine / "jvm/b"


def test_a_newer_one_is_better_than_none(machine: Path) -> None:
    install(machine / "jvm/a", "25.0.3")
    assert java.java_home() == machine / "jvm/a"


def test_without_a_usable_one_the_error_says_what_was_seen_and_what_to_do(machine: Path) -> None:
    install(machine / "jvm/a", "11.0.2")
    install(machine / "jvm/b", "17.0.1", "java.base java.se")
    install(machine / "jvm/c", None, None)
    with pytest.raises(ClusterError) as caught:
        java.java_home()
    text = str(caught.value)
    for part in ("is Java 11", "lacks the module jdk.incubator.vector", "does not start"):
        assert part in text
    assert "apt-get install openjdk-17-jre-headless" in text
    assert "pip install install-jdk" in text


def test_the_declared_one_must_do(machine: Path) -> None:
    with pytest.raises(ClusterError, match="java_home = '/nowhere': has no bin/java"):
        java.java_home("/nowhere")
    assert java.java_home(str(install(machine / "x"))) == machine / "x"


def test_a_java_without_a_release_file_is_asked() -> None:
    home = java.java_home()
    version, modules = java._asked(home)
    assert version == java._release(home)[0]
    assert modules is not None and "jdk.incubator.vector" in modules


def test_the_command_prints_it() -> None:
    command = [sys.executable, "-m", "dagster_sparkscale.clusters.java"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0
    assert (Path(done.stdout.strip()) / "bin/java").exists()


def test_spark_is_found_without_importing_it() -> None:
    program = (
        "import sys; from dagster_sparkscale.clusters.java import spark_home;"
        "assert (spark_home() / 'bin/spark-class').exists(); assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=HANGS)


def test_without_pyspark_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(ClusterError, match=r"pip install 'dagster-sparkscale\[spark\]'"):
        java.spark_home()


class TestReleases:
    """Which Java each release of Spark takes."""

    def spark(self, folder: Path, version: str) -> Path:
        jars = folder / f"spark-{version}/jars"
        jars.mkdir(parents=True)
        (jars / f"spark-core_2.13-{version}.jar").touch()
        return jars.parent

    @pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "17.0.1"])
    def test_3_5_takes_older_ones_and_asks_for_no_module(self, version: str, machine: Path) -> None:
        home = install(machine / "jvm/a", version, "java.base")
        assert java.java_home(spark=self.spark(machine, "3.5.9")) == home

    def test_3_5_takes_a_tested_one_before_another(self, machine: Path) -> None:
        install(machine / "jvm/a", "21.0.1")
        assert java.java_home(spark=self.spark(machine, "3.5.9")) == machine / "jvm/a"
        install(machine / "jvm/b", "11.0.2")
        java._java_home.cache_clear()
        assert java.java_home(spark=self.spark(machine, "3.5.8")) == machine / "jvm/b"

    @pytest.mark.parametrize(
        ("version", "needed"),
        [
            ("3.5.9", "Spark 3.5 needs Java 8, 11 or 17. Install"),
            (
                "4.0.5",
                "Spark 4.0 needs Java 17 or 21 with the module jdk.incubator.vector. Install",
            ),
        ],
    )
    def test_those_before_4_1_take_none_after_22(
        self, version: str, needed: str, machine: Path
    ) -> None:
        install(machine / "jvm/a", "25.0.3")
        with pytest.raises(ClusterError) as caught:
            java.java_home(spark=self.spark(machine, version))
        assert "is Java 25" in str(caught.value) and needed in str(caught.value)
        install(machine / "jvm/b", "22.0.1")
        java._java_home.cache_clear()
        assert java.java_home(spark=self.spark(machine / "again", version)) == machine / "jvm/b"

    @pytest.mark.parametrize("version", ["4.1.4", "4.3.0", "5.0.0"])
    def test_later_ones_take_a_newer_java_but_none_before_17(
        self, version: str, machine: Path
    ) -> None:
        install(machine / "jvm/a", "11.0.2")
        install(machine / "jvm/b", "25.0.3")
        assert java.java_home(spark=self.spark(machine, version)) == machine / "jvm/b"

    def test_a_spark_that_is_too_old_is_refused(
        self, machine: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old = self.spark(machine, "3.4.1")
        with pytest.raises(ClusterError) as caught:
            java.refuse_if_too_old(old)
        assert str(caught.value) == (
            f"a stream needs Spark 3.5 or newer; this is Spark 3.4.1, in {old}. Install a newer "
            "one: `pip install 'dagster-sparkscale[spark]'`"
        )
        monkeypatch.setattr(java, "_installed", lambda: old)
        with pytest.raises(ClusterError, match=r"this is Spark 3\.4\.1"):
            java.spark_home()
        java.refuse_if_too_old(machine)  # what can't be told may be new enough
