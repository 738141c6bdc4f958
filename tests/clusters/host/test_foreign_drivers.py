"""Who else works on a checkpoint on this host, and what is said of them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.errors import AlreadyRunning
from dagster_sparkscale.clusters.host.foreign_drivers import Stranger, marks, strangers_on
from dagster_sparkscale.clusters.host.processes import MARKER, marker
from dagster_sparkscale.clusters.host.supervisor import birth
from dagster_sparkscale.clusters.local import LocalCluster
from tests.clusters.host.begun import begun
from tests.fakes import structured

SUBMISSION = marker("clicks", 3, "abc")


@pytest.mark.parametrize(
    ("state_dir", "words"),
    [
        ("/here", "from this state folder, in which it has ended: end that process first"),
        (
            "/there",
            "from another state folder, /there: stop it in the deployment that started it, else "
            "its recovery brings it back",
        ),
        (
            "",
            "from another state folder, or before this one was emptied: stop it in the deployment "
            "that started it, else its recovery brings it back; when there is no such deployment, "
            "end that process",
        ),
    ],
)
def test_it_is_said_where_it_came_from_and_how_it_is_ended(state_dir: str, words: str) -> None:
    stranger = Stranger(7, SUBMISSION, state_dir)
    assert stranger.in_words(Path("/here")) == (
        f"process 7, a driver of 'clicks', epoch 3, that was started {words}"
    )


def test_a_state_folder_by_another_name_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "link").symlink_to("state")
    words = Stranger(7, SUBMISSION, str(tmp_path / "link")).in_words(tmp_path / "state")
    assert "from this state folder" in words


@contextmanager
def somebody_on(checkpoint: str, state_dir: Path, submission: str = SUBMISSION) -> Iterator[int]:
    """The pid of a process that works on `checkpoint`."""
    process = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env={**os.environ, MARKER: submission, **marks(checkpoint, state_dir)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()  # until it is itself, its environment is not to be read
        yield process.pid
        process.communicate(b"\n")


def test_those_of_other_records_on_the_checkpoint_are_found_and_their_folder(
    tmp_path: Path,
) -> None:
    checkpoint = f"file://{tmp_path}/checkpoint"
    with somebody_on(checkpoint, tmp_path / "state") as pid:
        found = [Stranger(pid, SUBMISSION, str(tmp_path / "state"))]
        assert strangers_on(checkpoint, "another") == found
        assert strangers_on(checkpoint, "abc") == []
        assert strangers_on(f"{checkpoint}2", "another") == []


def test_a_start_that_is_refused_for_one_starts_no_embedded_cluster(tmp_path: Path) -> None:
    place, there = os.path.realpath(tmp_path / "checkpoint"), tmp_path / "there"
    (program := tmp_path / "clicks.py").touch()
    cluster = LocalCluster(state_dir=str(tmp_path / "here"))
    declared = structured(program=str(program), checkpoint_location=place)
    with (
        somebody_on(f"file://{place}", there) as pid,
        cluster.lease("clicks", "start run 1") as lease,
        pytest.raises(AlreadyRunning, match=rf"by process {pid}, .* another state folder, {there}"),
    ):
        cluster.submit(declared, lease)
    assert cluster.capacity() is None
    assert not (tmp_path / "here" / "cluster").exists()


@pytest.mark.parametrize("runs", [True, False])
def test_what_a_driver_of_another_name_left_behind_keeps_a_start_away_as_that_driver_did(
    tmp_path: Path, runs: bool
) -> None:
    """Driver and supervisor were killed, and the JVM works on."""
    place = os.path.realpath(tmp_path / "checkpoint")
    cluster = LocalCluster(state_dir=str(tmp_path / "state"))
    before = begun(tmp_path / "state", "before", checkpoint=f"file://{place}")
    before.files.create()
    submission = marker("before", 1, before.record.id)
    left = r"worked on by process \d+, a driver of 'before', epoch 1, .* in which it has ended"
    why = "is that of 'before': its driver 1 is running" if runs else left
    with somebody_on(f"file://{place}", tmp_path / "state", submission) as pid:
        note = {"pid": pid, "birth": birth(pid) if runs else "gone"}
        before.files.driver.write_text(json.dumps(note))
        before.files.agent.write_text("{}")
        with (
            cluster.lease("renamed", "start run 1") as lease,
            pytest.raises(AlreadyRunning, match=why),
        ):
            cluster.make_way(lease, f"file://{place}")
