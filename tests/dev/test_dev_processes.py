"""That the demo ends what it started, and nothing else."""

import os
import signal
import socket
import sys

import pytest

from dev.processes import (
    Children,
    end_groups,
    port_to_use,
    read_notes,
    still_running,
)
from tests.dev.processes import gone
from tests.ports import kept_port
from tests.waiting import HANGS, wait_for

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('up', flush=True); time.sleep(600)"
)
WITH_A_CHILD = (
    "import subprocess, sys, time; "
    "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid, "
    "flush=True); time.sleep(600)"
)


@pytest.fixture
def children(tmp_path):
    children = Children(tmp_path / "processes.json", tmp_path / "logs")
    yield children
    children.end(*list(children._started))


def start(children, tmp_path, code, name="child"):
    children.start(name, [sys.executable, "-c", code], os.environ, tmp_path)
    return children._started[name]


def test_a_process_is_ended_with_all_it_has_started(children, tmp_path):
    process = start(children, tmp_path, WITH_A_CHILD)
    grandchild = int(wait_for("the grandchild", lambda: children.log_tail("child")))
    assert not gone(process.pid) and not gone(grandchild)
    children.end("child")
    assert gone(process.pid) and gone(grandchild)


def test_a_process_that_will_not_go_is_killed(children, tmp_path):
    process = start(children, tmp_path, STUBBORN)
    wait_for("its word", lambda: children.log_tail("child") == "up")
    end_groups([process.pid], patience=0.5)
    assert process.wait(timeout=HANGS) == -signal.SIGKILL


def test_a_process_that_ends_by_itself_is_noticed(children, tmp_path):
    process = start(children, tmp_path, "print('no more'); raise SystemExit(3)")
    process.wait(timeout=HANGS)
    assert children.ended() == ("child", 3)
    assert children.log_tail("child") == "no more"


def test_notes_tell_a_process_from_one_that_has_its_number_now(children, tmp_path):
    children.note("demo", os.getpid())
    pid, born = read_notes(tmp_path / "processes.json")["demo"]
    assert still_running(pid, born)
    assert not still_running(pid, born - 100)


def test_notes_that_are_missing_or_broken_are_no_notes(tmp_path):
    assert read_notes(tmp_path / "none.json") == {}
    (tmp_path / "broken.json").write_text('{"demo": [')
    assert read_notes(tmp_path / "broken.json") == {}


def test_a_taken_port_is_replaced_by_a_free_one():
    with kept_port() as number:
        assert port_to_use(number) == number
        with socket.create_server(("127.0.0.1", number)):
            assert port_to_use(number) != number
