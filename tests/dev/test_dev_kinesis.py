"""That both Kinesis emulators come up, and that none of them stays behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from dev import kinesis
from dev.installing import InstallFailed
from dev.kinesis import EmulatorFailed, create_stream, install, start
from tests.dev.processes import gone
from tests.ports import kept_port
from tests.waiting import HANGS, wait_for

ROOT = Path(__file__).parents[2]
KINDS = ["kinesis-mock", "kinesalite"]

pytestmark = pytest.mark.clusters


@pytest.mark.parametrize("kind", KINDS)
def test_an_emulator_serves_streams_on_the_loopback_interface_until_its_end(kind, tmp_path):
    with start(kind, tmp_path / "logs" / "emulator.log") as emulator:
        client = emulator.client()
        create_stream(client, "many", 60, seconds=HANGS)
        assert len(client.list_shards(StreamName="many")["Shards"]) == 60
        put = client.put_record(StreamName="many", PartitionKey="a", Data=b"\x00\xff")
        assert put["SequenceNumber"].isdecimal()
        listening = {
            each.laddr.ip
            for each in psutil.Process(emulator.pid).net_connections("inet")
            if each.status == psutil.CONN_LISTEN
        }
        assert listening == {"127.0.0.1"}
    assert gone(emulator.pid)
    emulator.end()
    with start(kind, tmp_path / "again.log") as emulator:
        assert emulator.client().list_streams()["StreamNames"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_it_outlives_a_client_that_breaks_off_in_the_middle_of_a_call(kind, tmp_path):
    with start(kind, tmp_path / "emulator.log") as emulator:
        host, port = emulator.url.removeprefix("http://").split(":")
        for _ in range(3):
            with socket.create_connection((host, int(port))) as client:
                client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        assert emulator.client().list_streams()["StreamNames"] == []
        assert psutil.Process(emulator.pid).status() != psutil.STATUS_ZOMBIE


def test_a_port_that_is_taken_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EmulatorFailed, match=f"kinesalite: port {port} .* is taken"):
            start("kinesalite", tmp_path / "log", port)


def test_an_emulator_that_does_not_come_up_leaves_its_last_words(tmp_path, monkeypatch):
    words = "console.error('no more '.repeat(2)); process.exit(3)"
    broken = {"kinesalite": lambda _modules, _port: (["-e", words], tmp_path, {})}
    monkeypatch.setattr(kinesis, "_COMMANDS", broken)
    with pytest.raises(EmulatorFailed, match="kinesalite ended with 3:\nno more no more"):
        start("kinesalite", tmp_path / "log")


def test_a_stream_that_does_not_become_active_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(kinesis, "_CHANGE", "1h")
    with (
        start("kinesis-mock", tmp_path / "log") as emulator,
        pytest.raises(TimeoutError, match=r"'slow' is CREATING after 0\.2 s, not ACTIVE"),
    ):
        create_stream(emulator.client(), "slow", 1, seconds=0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_an_emulator_ends_when_who_started_it_is_killed(kind, tmp_path):
    code = (
        "import sys, time, pathlib; from dev.kinesis import start; "
        "running = start(sys.argv[1], pathlib.Path(sys.argv[2])); "
        "print(running.pid, flush=True); time.sleep(900)"
    )
    command = [sys.executable, "-c", code, kind, str(tmp_path / "log")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        pid = int(starter.stdout.readline())
        assert not gone(pid)
        starter.kill()
    wait_for("the emulator to end", lambda: gone(pid))


def foreground(tmp_path, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "dev.kinesis", "--log", str(tmp_path / "log"), *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def node_of(process):
    return next(p for p in psutil.Process(process.pid).children() if "node" in p.exe())


@pytest.mark.parametrize(
    ("kind", "number"), [("kinesis-mock", signal.SIGTERM), ("kinesalite", signal.SIGINT)]
)
def test_it_runs_in_the_foreground_until_it_is_told_to_end(kind, number, tmp_path):
    with (
        kept_port() as port,
        foreground(tmp_path, "--kind", kind, "--port", str(port)) as process,
    ):
        assert process.stdout.readline() == f"http://127.0.0.1:{port}\n"
        assert kinesis.client(f"http://127.0.0.1:{port}").list_streams()["StreamNames"] == []
        node = node_of(process).pid
        process.send_signal(number)
        assert process.wait(HANGS) == 0
        assert process.stderr.read() == ""
    assert gone(node)


def test_in_the_foreground_it_does_not_outlive_its_emulator(tmp_path):
    with foreground(tmp_path, "--kind", "kinesalite") as process:
        process.stdout.readline()
        node_of(process).kill()
        assert process.wait(HANGS) == 1
        assert "kinesalite ended with -9" in process.stderr.read()


# Installing.


def test_versions_are_fixed_and_no_registry_is_named():
    source = ROOT / "dev" / "emulators"
    wanted = json.loads((source / "package.json").read_text())["dependencies"]
    lock = (source / "package-lock.json").read_text()
    packages = json.loads(lock)["packages"]
    assert "resolved" not in lock
    for name, version in wanted.items():
        assert packages[f"node_modules/{name}"]["version"] == version
    for name, package in packages.items():
        assert not name or package["integrity"].startswith("sha512-"), name


def test_npm_installs_both_and_compiles_nothing(tmp_path):
    folder = install(tmp_path / "emulators")
    modules = folder / "node_modules"
    assert (modules / "kinesis-local" / "main.js").is_file()
    assert (modules / "kinesalite" / "cli.js").is_file()
    assert not (modules / "leveldown").exists()
    assert not list(folder.rglob("*.node"))


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A folder to install from that may be changed."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "package.json").write_text('{"name": "none", "version": "1.0.0"}')
    (folder / "package-lock.json").write_text(
        '{"name": "none", "version": "1.0.0", "lockfileVersion": 3, "packages": {}}'
    )
    monkeypatch.setattr(kinesis, "_SOURCE", folder)
    return folder


def test_it_is_installed_once_and_again_when_the_lock_file_changes(source, tmp_path, monkeypatch):
    installed = []
    monkeypatch.setattr(kinesis, "_npm_ci", installed.append)
    target = tmp_path / "deep" / "emulators"
    at_once = [threading.Thread(target=install, args=(target,)) for _ in range(8)]
    for thread in at_once:
        thread.start()
    for thread in at_once:
        thread.join()
    assert installed == [target]
    (source / "package-lock.json").write_text('{"lockfileVersion": 3}')
    install(target)
    install(target)
    assert installed == [target, target]
    assert (target / "package-lock.json").read_text() == '{"lockfileVersion": 3}'


def test_what_npm_says_is_passed_on_and_the_next_one_tries_again(source, tmp_path):
    sound = (source / "package.json").read_text()
    (source / "package.json").write_text(
        '{"name": "none", "version": "1.0.0", "dependencies": {"kinesalite": "3.3.3"}}'
    )
    for _ in range(2):
        with pytest.raises(InstallFailed, match=r"(?s)npm ci in .* ended with \d+:\n.*kinesalite"):
            install(tmp_path / "emulators")
    (source / "package.json").write_text(sound)
    install(tmp_path / "emulators")


def test_an_installation_that_was_broken_off_is_done_again(source, tmp_path, monkeypatch):
    def broken_off(_folder):
        raise KeyboardInterrupt

    target = tmp_path / "emulators"
    install(target)
    assert os.listdir(target)
    (source / "package-lock.json").write_text('{"lockfileVersion": 3}')
    with monkeypatch.context() as patched:
        patched.setattr(kinesis, "_npm_ci", broken_off)
        with pytest.raises(KeyboardInterrupt):
            install(target)
    installed = []
    monkeypatch.setattr(kinesis, "_npm_ci", installed.append)
    install(target)
    assert installed == [target]
