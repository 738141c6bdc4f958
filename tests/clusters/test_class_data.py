"""The archive of class data: its name, whom it is taken from, who makes it, and that it is used."""

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from pydantic import ValidationError

from dagster_sparkscale.clusters import class_data, processes
from dagster_sparkscale.clusters.class_data_maker import MARKER
from dagster_sparkscale.clusters.java import java_home, spark_home
from dagster_sparkscale.clusters.local import LocalCluster
from dagster_sparkscale.clusters.standalone import StandaloneCluster
from tests.clusters.running import stream, submit, wait_running
from tests.waiting import HANGS, wait_for


@pytest.fixture
def java(tmp_path: Path) -> Path:
    home = tmp_path / "java"
    (home / "lib/server").mkdir(parents=True)
    (home / "lib/server/libjvm.so").write_text("17")
    (home / "release").write_text('JAVA_VERSION="17.0.15"\n')
    return home


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars/spark-core_2.13-4.3.0.jar").write_text("core")
    return home


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "kept"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Archives that take a moment to make instead of minutes; what has been made."""
    made: list[Path] = []

    def make_archive(java: Path, spark: Path, archive: Path) -> None:
        made.append(archive)
        time.sleep(0.2)
        archive.write_text("classes")
        archive.chmod(0o444)

    monkeypatch.setattr(class_data, "make_archive", make_archive)
    return made


def test_its_name_tells_spark_and_java(java: Path, spark: Path, folder: Path) -> None:
    path = class_data.archive_path(java, spark, folder)
    assert path.parent == folder
    assert path.name.startswith("spark-4.3.0-java-17.0.15-") and path.suffix == ".jsa"
    assert path == class_data.archive_path(java, spark, folder)


@pytest.mark.parametrize(
    "changed", ["java/lib/server/libjvm.so", "spark/jars/spark-core_2.13-4.3.0.jar"]
)
def test_another_build_of_java_or_a_new_jar_has_another_archive(
    java: Path, spark: Path, folder: Path, tmp_path: Path, changed: str
) -> None:
    before = class_data.archive_path(java, spark, folder)
    os.utime(tmp_path / changed, (1, 1))
    touched = class_data.archive_path(java, spark, folder)
    (spark / "jars/more.jar").write_text("more")
    assert len({before, touched, class_data.archive_path(java, spark, folder)}) == 3


@pytest.mark.parametrize("value", ["", "relative/cache"])
def test_a_cache_folder_that_is_no_folder_is_the_default_one(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    default = Path("~/.cache/dagster-sparkscale/class-data").expanduser()
    assert class_data.user_folder() == default


@pytest.mark.parametrize(("part", "mode"), [("", 0o770), ("", 0o1777), ("..", 0o707)])
def test_a_folder_that_others_can_write_is_refused(
    java: Path, spark: Path, tmp_path: Path, quick: list[Path], part: str, mode: int
) -> None:
    folder = tmp_path / "outer" / "kept"
    folder.mkdir(parents=True, mode=0o700)
    (folder / part).resolve().chmod(mode)
    assert "can be written by other users" in str(class_data.fault(folder))
    assert class_data.make(java, spark, folder) is None
    assert not quick and not list(folder.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(folder: Path) -> None:
    os.chown(folder, 12345, -1)
    assert "belongs to another user" in str(class_data.fault(folder))


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
            [sys.executable, "-m", class_data.__name__, argument],
            capture_output=True,
            text=True,
            timeout=HANGS,
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert reason in done.stderr.splitlines()[-1]


def test_makers_at_once_make_one(java: Path, spark: Path, folder: Path, quick: list[Path]) -> None:
    found: list[Path | None] = []
    makers = [
        threading.Thread(target=lambda: found.append(class_data.make(java, spark, folder)))
        for _ in range(4)
    ]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert len(quick) == 1
    assert found == quick * 4
    assert class_data.is_whole(quick[0])


@pytest.mark.parametrize("spoil", ["shorter", "other", "gone", "open"])
def test_what_is_not_as_it_was_made_is_made_again(
    java: Path, spark: Path, folder: Path, quick: list[Path], spoil: str
) -> None:
    archive = class_data.make(java, spark, folder)
    assert archive is not None
    archive.chmod(0o600)
    if spoil == "shorter":
        archive.write_text("clas")
    elif spoil == "other":
        archive.write_text("sselacs")
    elif spoil == "gone":
        archive.unlink()
    else:
        archive.chmod(0o666)
    assert not class_data.is_whole(archive)
    assert class_data.make(java, spark, folder) == archive
    assert len(quick) == 2


def test_what_could_not_be_made_is_not_tried_again_at_every_start(
    java: Path, spark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (spark / "conf").mkdir()
    (spark / "conf/spark-env.sh").write_text("")
    assert class_data.make(java, spark, class_data.user_folder()) is None
    assert "conf holds files" in class_data.describe(java, spark, class_data.user_folder())
    assert class_data.see_to(java, spark, "a test") is None
    assert not marked("a test")


@pytest.mark.parametrize("own", [True, False])
def test_old_ones_are_removed_from_the_users_own_folder(
    java: Path,
    spark: Path,
    tmp_path: Path,
    quick: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    own: bool,
) -> None:
    """One that somebody has chosen may be named by other clusters."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = class_data.user_folder() if own else tmp_path / "chosen"
    for number in range(5):
        jar = spark / "jars/spark-core_2.13-4.3.0.jar"
        os.utime(jar, (number, number))
        archive = class_data.make(java, spark, folder)
        assert archive is not None
        os.utime(archive, (number, number))
    assert set(folder.glob("*.jsa")) == set(quick[-3:] if own else quick)


def test_where_nothing_can_be_kept_nothing_fails(
    java: Path, spark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert class_data.see_to(java, spark, "a test") is None
    assert class_data.make(java, spark, class_data.user_folder()) is None
    assert "none" in class_data.describe(java, tmp_path / "nothing", tmp_path)


def marked(mark: str) -> list[psutil.Process]:
    return processes.carrying(MARKER, lambda value: value == mark)


def test_the_background_maker_is_one_and_ends_when_it_should(
    java: Path, spark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    mark = str(tmp_path)
    # Not named before it is there: without it a JVM would do without Java's own archive as well.
    assert class_data.see_to(java, spark, mark) is None
    try:
        archive = class_data.archive_path(java, spark, class_data.user_folder())
        waiting = archive.with_suffix(".waiting.lock")
        wait_for("the maker to wait", lambda: held(waiting))
        [maker] = marked(mark)
        assert class_data.see_to(java, spark, mark) is None
        assert marked(mark) == [maker]
    finally:
        class_data.end_making(mark)
    assert not marked(mark)


def held(path: Path) -> bool:
    lock = class_data.FileLock(path)
    try:
        lock.acquire(timeout=0)
    except class_data.Timeout:
        return True
    lock.release()
    return False


def test_a_file_that_a_jvm_cannot_use_is_passed_over_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)  # which would be told of
    (tmp_path / "garbage").write_bytes(os.urandom(100_000))
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    for name in ("missing", "garbage", "empty", "folder"):
        options = class_data.options(tmp_path / name)
        command = [str(java_home() / "bin/java"), *options, "--version"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS)
        assert (done.returncode, done.stderr) == (0, ""), name
        assert done.stdout.startswith("openjdk "), f"{name}: {done.stdout}"


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="shows it by /proc")
def test_every_jvm_of_a_local_cluster_maps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = class_data.make(java_home(), spark_home(), class_data.user_folder())
    assert archive is not None
    # By what the cluster tells them, not by what tests tell every JVM.
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    cluster = LocalCluster(state_dir=str(tmp_path / "state"), workers=1, cores_per_worker=3)
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
        assert class_data.make(java, spark, tmp_path / "a" / "b" / "c") is not None
    finally:
        os.umask(before)


@pytest.mark.parametrize("name", ["o'brien", "10:20:30", 'say "x"', "back\\slash", "tab\t"])
def test_a_path_that_options_cannot_have_is_not_used(
    java: Path, spark: Path, tmp_path: Path, quick: list[Path], name: str
) -> None:
    assert class_data.make(java, spark, tmp_path / name) is None
    with pytest.raises(ValidationError, match="options of a JVM can't have others"):
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
    assert class_data.decided_by({variable: value}) is decides


def test_one_whose_maker_was_ended_with_its_cluster_is_tried_again(
    java: Path, spark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    mark = str(tmp_path)
    try:
        class_data.see_to(java, spark, mark)
        wait_for("its maker", lambda: marked(mark))
        # As it has it from when it begins until the archive is there.
        archive = class_data.archive_path(java, spark, class_data.user_folder())
        class_data._note_failure(archive, class_data._KILLED)
        assert class_data.see_to(java, spark, mark) is None and len(marked(mark)) == 1
        class_data.end_making(mark)
        assert not marked(mark)
        class_data.see_to(java, spark, mark)
        wait_for("another maker", lambda: marked(mark))
        # Killed by somebody else, as where memory is short, it is not tried again at once.
        class_data._note_failure(archive, class_data._KILLED)
        for process in marked(mark):
            process.kill()
        wait_for("its end", lambda: not marked(mark))
        class_data.end_making(mark)
        class_data.see_to(java, spark, mark)
        assert not marked(mark)
    finally:
        class_data.end_making(mark)


def test_one_that_is_cut_off_is_tried_again(
    java: Path, spark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Ctrl-C."""

    def cut_off(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(class_data, "make_archive", cut_off)
    with pytest.raises(KeyboardInterrupt):
        class_data.make(java, spark, tmp_path)
    archive = class_data.archive_path(java, spark, tmp_path)
    assert class_data._note(archive) == {}


def test_what_is_being_made_is_told_from_what_failed(
    java: Path, spark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(
        class_data,
        "make_archive",
        lambda *_: told.append(class_data.describe(java, spark, tmp_path)),
    )
    assert class_data.make(java, spark, tmp_path) is None
    assert told == ["none (it is being made)"]
    archive = class_data.archive_path(java, spark, tmp_path)
    class_data._note_failure(archive, class_data._KILLED)
    assert class_data.describe(java, spark, tmp_path) == "none (its maker was killed)"


def test_a_link_to_a_path_that_options_cannot_have_is_not_used(
    java: Path, spark: Path, tmp_path: Path, quick: list[Path]
) -> None:
    (tmp_path / "o'brien").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "o'brien")
    assert class_data.make(java, spark, tmp_path / "link") is None
    assert not quick


def test_a_user_without_a_home_may_name_a_folder(
    java: Path, spark: Path, tmp_path: Path, quick: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(class_data, "user_folder", none)
    assert class_data.make(java, spark, tmp_path) in quick


def test_one_that_failed_after_now_is_tried_again(
    java: Path, spark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock was set back."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = class_data.archive_path(java, spark, class_data.user_folder())
    archive.parent.mkdir(parents=True, mode=0o700)
    archive.parent.parent.chmod(0o700)
    class_data.write_json(
        archive.with_suffix(".json"), {"failed_at": time.time() + 1e6, "reason": "no"}
    )
    try:
        class_data.see_to(java, spark, str(tmp_path))
        wait_for("its maker", lambda: marked(str(tmp_path)))
    finally:
        class_data.end_making(str(tmp_path))


@pytest.mark.spark
def test_a_truncated_archive_is_named_to_no_jvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java 17 dies of one, so this is ours to see."""
    archive = class_data.make(java_home(), spark_home(), class_data.user_folder())
    assert archive is not None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = class_data.user_folder()
    folder.mkdir(parents=True, mode=0o700)
    for path in (archive, archive.with_suffix(".json")):
        shutil.copy2(path, folder)
    own = folder / archive.name
    try:
        assert class_data.see_to(java_home(), spark_home(), str(tmp_path)) == own
        assert own.exists()
        own.chmod(0o600)
        os.truncate(own, own.stat().st_size // 2)
        assert class_data.see_to(java_home(), spark_home(), str(tmp_path)) is None
    finally:
        class_data.end_making(str(tmp_path))
