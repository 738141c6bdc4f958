"""The archive of class data: its name, whom it is taken from, who makes it, and that it is used."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from dagster_sparkscale.clusters.class_data import archives
from dagster_sparkscale.clusters.java import java_home, spark_home
from dagster_sparkscale.clusters.launch import class_data_options
from dagster_sparkscale.clusters.local import LocalCluster
from dagster_sparkscale.clusters.standalone.cluster import StandaloneCluster
from dagster_sparkscale.declare.declaration import DeclarationError
from dev.runs import MARK
from tests.clusters.class_data import made
from tests.clusters.running import stream, submit, wait_running
from tests.waiting import HANGS, wait_for


def test_its_name_tells_spark_and_java(java: Path, spark: Path, folder: Path) -> None:
    path = archives.archive_path(java, spark, folder)
    assert path.parent == folder
    assert path.name.startswith("spark-4.3.0-java-17.0.15-") and path.suffix == ".jsa"
    assert path == archives.archive_path(java, spark, folder)


@pytest.mark.parametrize(
    "changed", ["java/lib/server/libjvm.so", "spark/jars/spark-core_2.13-4.3.0.jar"]
)
def test_another_build_of_java_or_a_new_jar_has_another_archive(
    java: Path, spark: Path, folder: Path, tmp_path: Path, changed: str
) -> None:
    before = archives.archive_path(java, spark, folder)
    os.utime(tmp_path / changed, (1, 1))
    touched = archives.archive_path(java, spark, folder)
    (spark / "jars/more.jar").write_text("more")
    assert len({before, touched, archives.archive_path(java, spark, folder)}) == 3


@pytest.mark.parametrize("value", ["", "relative/cache"])
def test_a_cache_folder_that_is_no_folder_is_the_default_one(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    default = Path("~/.cache/dagster-sparkscale/class-data").expanduser()
    assert archives.user_folder() == default


@pytest.mark.parametrize(("part", "mode"), [("", 0o770), ("", 0o1777), ("..", 0o707)])
def test_a_folder_that_others_can_write_is_refused(
    java: Path, spark: Path, tmp_path: Path, quick: list[Path], part: str, mode: int
) -> None:
    folder = tmp_path / "outer" / "kept"
    folder.mkdir(parents=True, mode=0o700)
    (folder / part).resolve().chmod(mode)
    assert "can be written by other users" in str(archives.fault(folder))
    assert made(java, spark, folder) is None
    assert not quick and not list(folder.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(folder: Path) -> None:
    os.chown(folder, 12345, -1)
    assert "belongs to another user" in str(archives.fault(folder))


def test_the_command_says_why_there_is_none(tmp_path: Path) -> None:
    java = tmp_path / "old"
    (java / "bin").mkdir(parents=True)
    (java / "bin/java").touch()
    (java / "release").write_text('JAVA_VERSION="11.0.2"\nMODULES="java.base"\n')
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    for argument, reason in (
        (f"--folder={tmp_path}/open", "can be written by other users"),
        (f"--spark={tmp_path}", f"--spark {tmp_path}: has no jars"),
        (f"--java={tmp_path}", f"'{tmp_path}': has no bin/java. Spark"),
        (f"--java={java}", f"'{java}': is Java 11. Spark"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", archives.__package__, argument],
            capture_output=True,
            text=True,
            timeout=HANGS,
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert reason in done.stderr.splitlines()[-1]


def test_a_file_that_a_jvm_cannot_use_is_passed_over_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)  # which would be told of
    (tmp_path / "garbage").write_bytes(os.urandom(100_000))
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    for name in ("missing", "garbage", "empty", "folder"):
        options = class_data_options.options(tmp_path / name)
        command = [str(java_home() / "bin/java"), *options, "--version"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS)
        assert (done.returncode, done.stderr) == (0, ""), name
        assert done.stdout.startswith("openjdk "), f"{name}: {done.stdout}"


@pytest.mark.clusters
@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="shows it by /proc")
def test_every_jvm_of_a_local_cluster_maps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = made(java_home(), spark_home(), archives.user_folder())
    assert archive is not None
    # By what the cluster tells them, not by what tests tell every JVM.
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    cluster = LocalCluster(
        state_dir=str(tmp_path / "state"), workers=1, cores_per_worker=3, pass_environment=[MARK]
    )
    try:
        submit(cluster, stream("sharing", "rate.py"))
        wait_running(cluster, "sharing", executors=1)
        for word in ("master.Master", "worker.Worker", "SparkSubmit", "Backend"):
            found = wait_for(word, lambda word=word: maps(word, cluster.state_dir))
            assert all(str(archive) in each for each in found), word
    finally:
        cluster.shutdown(force=True)


def maps(word: str, folder: str) -> list[str]:
    """The files that the JVMs with that word in their command have mapped, of those of the cluster
    with that state folder. One that is starting another program is there twice for a moment."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if "/bin/java" in line and word in line:
            with contextlib.suppress(psutil.Error, OSError):
                if folder in line or process.cwd().startswith(folder):
                    found.append(Path(f"/proc/{process.pid}/maps").read_text())
    return [each for each in found if each]  # it has none any more when it has ended


def test_a_mode_that_lets_the_group_write_is_not_that_of_its_folders(
    java: Path, spark: Path, tmp_path: Path, quick: list[Path]
) -> None:
    before = os.umask(0o002)
    try:
        assert made(java, spark, tmp_path / "a" / "b" / "c") is not None
    finally:
        os.umask(before)


@pytest.mark.parametrize("name", ["o'brien", "10:20:30", 'say "x"', "back\\slash", "tab\t"])
def test_a_path_that_options_cannot_have_is_not_used(
    java: Path, spark: Path, tmp_path: Path, quick: list[Path], name: str
) -> None:
    assert made(java, spark, tmp_path / name) is None
    with pytest.raises(DeclarationError, match="options of a JVM can't have others"):
        StandaloneCluster(master="spark://h:7077", class_data_archive=str(tmp_path / name / "a"))


@pytest.mark.parametrize(
    ("variable", "value", "decides"),
    [
        ("JAVA_TOOL_OPTIONS", "-XX:ArchiveClassesAtExit=/x", True),
        ("JDK_JAVA_OPTIONS", "-Xmx1g @/etc/java.args", True),
        ("_JAVA_OPTIONS", "-XX:+RecordDynamicDumpInfo", True),
        ("JDK_JAVA_OPTIONS", "-Xmx1g\n@/etc/java.args", True),
        ("JDK_JAVA_OPTIONS", "-Xmx1g\t@/etc/java.args", True),
        ("JAVA_TOOL_OPTIONS", "-XX:AOTCache=/x", True),
        ("JAVA_TOOL_OPTIONS", "-XX:+AOTClassLinking", True),
        ("JDK_JAVA_OPTIONS", "-Xmx1g -Duser=a@b", False),
        ("JDK_JAVA_OPTIONS", "-XX:+UseDynamicNumberOfGCThreads", False),
        ("OTHER", "-Xshare:off", False),
    ],
)
def test_what_an_environment_says_of_sharing_is_left_to_it(
    variable: str, value: str, decides: bool
) -> None:
    assert class_data_options.decided_by({variable: value}) is decides


def test_a_link_to_a_path_that_options_cannot_have_is_not_used(
    java: Path, spark: Path, tmp_path: Path, quick: list[Path]
) -> None:
    (tmp_path / "o'brien").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "o'brien")
    assert made(java, spark, tmp_path / "link") is None
    assert not quick


def test_a_user_without_a_home_may_name_a_folder(
    java: Path, spark: Path, tmp_path: Path, quick: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(archives, "user_folder", none)
    assert made(java, spark, tmp_path) in quick


@pytest.mark.spark
def test_a_truncated_archive_is_named_to_no_jvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java 17 dies of one, so this is ours to see."""
    archive = made(java_home(), spark_home(), archives.user_folder())
    assert archive is not None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = archives.user_folder()
    folder.mkdir(parents=True, mode=0o700)
    for path in (archive, archive.with_suffix(".json")):
        shutil.copy2(path, folder)
    own = folder / archive.name
    try:
        assert archives.see_to(java_home(), spark_home(), str(tmp_path)) == own
        assert own.exists()
        own.chmod(0o600)
        os.truncate(own, own.stat().st_size // 2)
        assert archives.see_to(java_home(), spark_home(), str(tmp_path)) is None
    finally:
        archives.end_making(str(tmp_path))
