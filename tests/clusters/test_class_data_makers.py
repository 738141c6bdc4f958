"""Who makes the archive of class data, when, how often, and what is left where it fails."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.class_data import archives
from dagster_sparkscale.clusters.class_data.maker import MARKER
from dagster_sparkscale.clusters.host.processes import carrying
from dagster_sparkscale.clusters.java import java_home, spark_home
from tests.clusters.class_data import made
from tests.waiting import HANGS, wait_for


def test_makers_at_once_make_one(java: Path, spark: Path, folder: Path, quick: list[Path]) -> None:
    found: list[Path | None] = []
    makers = [
        threading.Thread(target=lambda: found.append(made(java, spark, folder))) for _ in range(4)
    ]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert len(quick) == 1
    assert found == quick * 4
    assert archives.is_whole(quick[0])


@pytest.mark.parametrize("spoil", ["shorter", "other", "gone", "open"])
def test_what_is_not_as_it_was_made_is_made_again(
    java: Path, spark: Path, folder: Path, quick: list[Path], spoil: str
) -> None:
    archive = made(java, spark, folder)
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
    assert not archives.is_whole(archive)
    assert made(java, spark, folder) == archive
    assert len(quick) == 2
    # Of the folder, whatever a declaration says of using it.
    assert archives.describe(java, spark, folder) == f"there is one: {archive}"


def test_what_could_not_be_made_is_not_tried_again_at_every_start(
    java: Path, spark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (spark / "conf").mkdir()
    (spark / "conf/spark-env.sh").write_text("")
    assert made(java, spark, archives.user_folder()) is None
    assert "conf holds files" in archives.describe(java, spark, archives.user_folder())
    assert archives.see_to(java, spark, "a test") is None
    assert not carrying(MARKER, "a test".__eq__)


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
    folder = archives.user_folder() if own else tmp_path / "chosen"
    for number in range(5):
        jar = spark / "jars/spark-core_2.13-4.3.0.jar"
        os.utime(jar, (number, number))
        archive = made(java, spark, folder)
        assert archive is not None
        os.utime(archive, (number, number))
    assert set(folder.glob("*.jsa")) == set(quick[-3:] if own else quick)


def test_where_nothing_can_be_kept_nothing_fails(
    java: Path, spark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert archives.see_to(java, spark, "a test") is None
    assert made(java, spark, archives.user_folder()) is None
    assert "none" in archives.describe(java, tmp_path / "nothing", tmp_path)


def test_the_background_maker_is_one_and_ends_when_it_should(
    java: Path, spark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    mark = str(tmp_path)
    # Not named before it is there: without it a JVM would do without Java's own archive as well.
    assert archives.see_to(java, spark, mark) is None
    try:
        archive = archives.archive_path(java, spark, archives.user_folder())
        waiting = archive.with_suffix(".waiting.lock")
        wait_for("the maker to wait", lambda: archives._is_held(waiting))
        [maker] = carrying(MARKER, mark.__eq__)
        assert archives.see_to(java, spark, mark) is None
        assert carrying(MARKER, mark.__eq__) == [maker]
    finally:
        archives.end_making(mark)
    assert not carrying(MARKER, mark.__eq__)


@pytest.mark.spark
@pytest.mark.parametrize("on_purpose", [True, pytest.param(False, marks=pytest.mark.clusters)])
def test_one_that_was_not_finished_is_tried_again_if_that_was_on_purpose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_purpose: bool
) -> None:
    """Its cluster was stopped meanwhile, or, as where memory is short, it was killed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    java, spark, mark = java_home(), spark_home(), str(tmp_path)
    archive = archives.archive_path(java, spark, archives.user_folder())

    def told() -> str:
        return archives.describe(java, spark, archives.user_folder())

    # The real one, without the minute that it waits in the background.
    maker = subprocess.Popen(
        [sys.executable, "-m", archives.__package__], env={**os.environ, MARKER: mark}
    )
    try:
        wait_for("the JVM that makes it", lambda: len(carrying(MARKER, mark.__eq__)) >= 3)
        assert told() == "none (it is being made)"
        if on_purpose:
            archives.end_making(mark)
            assert not carrying(MARKER, mark.__eq__)
        else:
            maker.kill()
        assert maker.wait(HANGS) == (143 if on_purpose else -signal.SIGKILL)
        wait_for("the end of what it has started", lambda: not carrying(MARKER, mark.__eq__))
        assert told() == f"none ({'not made yet' if on_purpose else 'its maker was killed'})"
        assert archive.with_suffix(".making").exists() is not on_purpose
        assert archives.see_to(java, spark, mark) is None
        if on_purpose:
            # Of a process that was started just now the environment can't be read for a moment.
            wait_for("another maker", lambda: carrying(MARKER, mark.__eq__))
        else:
            assert not carrying(MARKER, mark.__eq__)
    finally:
        archives.end_making(mark)
        maker.wait(HANGS)


def test_one_that_failed_after_now_is_tried_again(
    java: Path, spark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock was set back."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = archives.archive_path(java, spark, archives.user_folder())
    archive.parent.mkdir(parents=True, mode=0o700)
    archive.parent.parent.chmod(0o700)
    archives.write_json(
        archive.with_suffix(".json"), {"failed_at": time.time() + 1e6, "reason": "no"}
    )
    try:
        archives.see_to(java, spark, str(tmp_path))
        wait_for("its maker", lambda: carrying(MARKER, str(tmp_path).__eq__))
    finally:
        archives.end_making(str(tmp_path))
