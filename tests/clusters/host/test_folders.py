"""The state folder: private, whole, and never taken for empty when it is broken."""

import dataclasses
import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host.folder_store import FolderStore
from dagster_sparkscale.clusters.host.folders import HISTORY, StreamFolder
from dagster_sparkscale.clusters.records import leases
from dagster_sparkscale.clusters.records.store import Process, Record, Submission


@pytest.fixture
def folder(tmp_path: Path) -> StreamFolder:
    folder = StreamFolder(tmp_path / "state", "clicks")
    folder.create()
    return folder


def started(folder: StreamFolder, epoch: int = 1) -> Record:
    record = dataclasses.replace(
        Record.new("0123"),
        revision=1,
        epoch=epoch,
        desired="running",
        desired_since=5.0,
        host="h",
        submitter=Process("h", 7, "b"),
        history=(Submission(epoch, 1.5, "manual"),),
    )
    folder.swap(record)
    return record


def test_a_stream_that_was_never_started_has_no_record(folder: StreamFolder) -> None:
    assert folder.read() is None


def test_a_record_comes_back_as_it_was_written(folder: StreamFolder) -> None:
    record = started(folder)
    assert folder.read() == record
    assert record.submitted_at == 1.5


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_record_that_a_person_has_repaired_is_read(folder: StreamFolder, encoding: str) -> None:
    record = started(folder)
    path = folder.path / "record" / "1"
    content = json.loads(path.read_text())
    del content["submitter"]
    path.write_text(json.dumps(content, indent=2), encoding=encoding)
    assert folder.read() == dataclasses.replace(record, submitter=Process())


def test_an_older_record_that_a_person_put_under_the_newest_name_goes_on_from_there(
    folder: StreamFolder,
) -> None:
    store = FolderStore(folder.path.parent.parent)
    for epoch in (1, 2, 3):
        with leases.hold(store, "clicks", "test", 0.0) as lease:
            lease.write(dataclasses.replace(lease.record, epoch=epoch))
    records = folder.path / "record"
    newest = max(records.iterdir(), key=lambda path: int(path.name))
    shutil.copy(records / str(int(newest.name) - 3), newest)
    with leases.hold(store, "clicks", "test", 0.0) as lease:
        assert lease.record.epoch == 2


def test_nobody_else_can_read_the_state(folder: StreamFolder) -> None:
    started(folder)
    submission = folder.submission(1)
    submission.create()
    submission.write_private(submission.token, "t")
    for path in [folder.path.parent.parent, *folder.path.parent.parent.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_folder_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(state, 54321, -1)
        theirs, ours = "user 54321", "user root"
    else:
        theirs, ours = f"user {state.owner()}", "user 54321"
        monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(ClusterError) as caught:
        StreamFolder(state, "clicks").create()
    text = str(caught.value)
    assert text.startswith(f"{state}: belongs to {theirs}, and this is {ours}: ")
    assert f"chown -R {os.geteuid()} {state}" in text and "state_dir" in text
    assert list(state.iterdir()) == []


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(mode)
    with pytest.raises(ClusterError) as caught:
        StreamFolder(state, "clicks").create()
    text = str(caught.value)
    assert text.startswith(f"{state}: users other than its owner, user {state.owner()}, may write")
    assert f"(mode {mode:04o})" in text and f"chmod go-w {state}" in text
    assert list(state.iterdir()) == []


def test_a_folder_that_others_may_read_and_one_below_a_common_one_are_accepted(
    tmp_path: Path,
) -> None:
    common = tmp_path / "common"
    common.mkdir()
    common.chmod(0o1777)
    (common / "state").mkdir()
    (common / "state").chmod(0o755)
    StreamFolder(common / "state", "clicks").create()
    StreamFolder(common / "another", "clicks").create()


def test_an_epoch_never_goes_back(folder: StreamFolder) -> None:
    record = started(folder, epoch=4)
    with pytest.raises(ClusterError, match="epoch 3 would go back behind 4"):
        folder.swap(dataclasses.replace(record, epoch=3, revision=2))
    assert folder.read() == record


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "it is not JSON"),
        ('{"id": "x", "epo', "it is not JSON"),
        ("[1]", "it must be a JSON object"),
        ("\xff\x00", "it is not JSON"),
        ("{}", "id: missing"),
        ('{"id": "x", "epoch": "1"}', "epoch = '1': must be int"),
        ('{"id": "x", "epoch": true}', "epoch = True: must be int"),
        (
            '{"id": "x", "epoch": 1, "desired": "maybe"}',
            "desired = 'maybe': must be 'running', 'stopped' or 'restarting'",
        ),
        (
            '{"id": "x", "epoch": 1, "desired": "running", "desired_since": 1, "host": "h",'
            ' "history": [3]}',
            "history: must be a list of objects",
        ),
    ],
)
def test_a_broken_record_is_an_error_that_names_it(
    folder: StreamFolder, content: str, fault: str
) -> None:
    path = folder.path / "record" / "3"
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding="latin-1")
    with pytest.raises(ClusterError) as caught:
        folder.read()
    assert str(path) in str(caught.value)
    assert fault in str(caught.value)
    repair = "if a newer release has written it, use that one; else restore the file from a copy"
    assert repair in str(caught.value) and "delete the folder" in str(caught.value)


def test_a_lost_record_is_not_a_stream_that_was_never_started(folder: StreamFolder) -> None:
    started(folder)
    folder.submission(1).create()
    shutil.rmtree(folder.path / "record")
    with pytest.raises(ClusterError, match="has been started"):
        folder.read()


def test_a_record_that_cannot_be_written_says_so_and_stays(
    folder: StreamFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = started(folder)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ClusterError, match=r"record: can't write it: No space left"):
        folder.swap(dataclasses.replace(record, epoch=2, revision=2))
    monkeypatch.undo()
    assert folder.read() == record
    assert [path.name for path in (folder.path / "record").iterdir()] == ["1"]


def test_history_is_bounded_and_keeps_the_newest(folder: StreamFolder) -> None:
    lines = tuple(Submission(epoch, float(epoch), "manual") for epoch in range(1, HISTORY + 11))
    folder.swap(dataclasses.replace(started(folder), epoch=HISTORY + 10, history=lines, revision=2))
    read = folder.read()
    assert read is not None and read.history == lines[-HISTORY:]


def test_old_submissions_are_deleted(folder: StreamFolder) -> None:
    for epoch in range(1, 12):
        folder.submission(epoch).create()
    folder.prune(keep=5)
    left = sorted(int(path.name) for path in (folder.path / "submissions").iterdir())
    assert left == [7, 8, 9, 10, 11]


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "1a", "a" * 64])
def test_only_a_streams_name_may_become_a_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ClusterError, match="must be letters"):
        StreamFolder(tmp_path, name)


def test_the_end_of_a_log_survives_its_rotation(folder: StreamFolder) -> None:
    submission = folder.submission(1)
    submission.create()
    assert submission.tail(5) == ""
    submission.log.with_name("driver.log.1").write_text("a\nb\nc\n")
    submission.log.write_bytes(b"d\n\xff\n")
    assert submission.tail(3).split("\n") == ["c", "d", "�"]
    assert submission.tail(0) == ""


def test_a_line_that_the_rotation_of_a_log_cut_in_two_comes_back_whole(
    folder: StreamFolder,
) -> None:
    submission = folder.submission(1)
    submission.create()
    submission.log.with_name("driver.log.1").write_text("a\nTraceb")
    submission.log.write_text("ack\nb\n")
    assert submission.tail(2).split("\n") == ["Traceback", "b"]


def test_the_folder_of_a_submission_is_made_once(folder: StreamFolder) -> None:
    """An older copy of the record, put back, would give the same epoch again."""
    submission = folder.submission(1)
    submission.create()
    submission.write_private(submission.token, "t")
    with pytest.raises(ClusterError, match=r"submissions/1: is there already"):
        folder.submission(1).create()
    assert submission.read_token() == "t"


def test_a_driver_that_was_refused_after_its_word_has_not_taken_its_checkpoint(
    folder: StreamFolder,
) -> None:
    """Between its word and its mark another came: that one's mark is no earlier driver's."""
    submission = folder.submission(1)
    submission.create()
    assert not submission.has_taken_its_checkpoint()
    submission.took.touch()
    assert submission.has_taken_its_checkpoint()
    submission.fenced.touch()
    assert not submission.has_taken_its_checkpoint()


def test_known_streams_are_those_with_a_folder(tmp_path: Path) -> None:
    assert FolderStore(tmp_path).streams() == []
    for name in ("b", "a"):
        StreamFolder(tmp_path, name).create()
    (tmp_path / "streams" / "not a stream").mkdir()
    assert FolderStore(tmp_path).streams() == ["a", "b"]


def test_a_missing_token_says_what_that_means(folder: StreamFolder) -> None:
    with pytest.raises(ClusterError, match="token: missing"):
        folder.submission(1).read_token()
