"""What the demo does before it starts anything."""

import json
import os
from pathlib import Path

import psutil
import pytest

from demo import run
from dev import kinesis


def notes(state: Path, pid: int, born: float) -> None:
    state.mkdir()
    (state / "processes.json").write_text(json.dumps({"demo": [pid, born]}))


def test_the_state_of_an_earlier_demo_is_cleared_away(tmp_path):
    state = tmp_path / "state"
    notes(state, os.getpid(), born=1.0)  # its number belongs to another process now
    run.clear_away_earlier(state)
    assert not state.exists()


def test_a_second_demo_is_refused_and_told_which_one_runs(tmp_path):
    state = tmp_path / "state"
    notes(state, os.getpid(), psutil.Process().create_time())
    with pytest.raises(run.DemoFailed, match=f"process {os.getpid()}"):
        run.clear_away_earlier(state)
    assert state.exists()


def test_a_folder_that_is_none_of_a_demo_is_never_deleted(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(run.DemoFailed, match="not from a demo"):
        run.clear_away_earlier(tmp_path)
    assert (tmp_path / "thesis.txt").exists()


def test_without_a_state_there_is_nothing_to_clear_away(tmp_path):
    run.clear_away_earlier(tmp_path / "none")


def test_what_the_demo_starts_has_no_credentials_but_made_up_ones():
    environ = {
        "AWS_PROFILE": "production",
        "AWS_ACCESS_KEY_ID": "AKIAREAL",
        "AWS_SECRET_ACCESS_KEY": "real",
        "AWS_SESSION_TOKEN": "real",
        "NO_PROXY": "intranet",
        "PATH": "/bin",
    }
    kinesis.stay_away_from_aws(environ)
    assert environ == {
        "AWS_ACCESS_KEY_ID": "emulator",
        "AWS_SECRET_ACCESS_KEY": "emulator",
        "AWS_DEFAULT_REGION": "us-east-1",
        "no_proxy": "127.0.0.1",
        "NO_PROXY": "intranet,127.0.0.1",
        "PATH": "/bin",
    }
