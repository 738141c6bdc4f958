"""The load generator: whole files, orders for whoever is connected, visits on all shards."""

import json
import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from demo.load import VISIT_SHARDS, VISITS, ClickFiles, OrderServer, VisitPutter
from dev import kinesis
from tests.dev.processes import gone
from tests.waiting import HANGS, wait_for

ROOT = Path(__file__).parents[2]


@pytest.fixture
def server():
    server = OrderServer()
    yield server
    server.close()


def connect(server):
    client = socket.create_connection(("127.0.0.1", server.port), timeout=HANGS)
    wait_until_connected(server, server.connected + 1)
    return client


def wait_until_connected(server, count):
    def connected():
        server.accept()
        return server.connected == count

    wait_for(f"{count} to be connected", connected, every=0.01)


def lines(client, count):
    with client.makefile() as text:
        return [json.loads(text.readline()) for _ in range(count)]


def test_clicks_appear_as_whole_files_of_one_click_a_line(tmp_path):
    clicks = ClickFiles(tmp_path / "clicks")
    clicks.send(5)
    clicks.send(0)
    files = list((tmp_path / "clicks").iterdir())
    assert len(files) == 1
    written = [json.loads(line) for line in files[0].read_text().splitlines()]
    assert len(written) == 5 == clicks.sent
    assert all(set(click) == {"page", "at"} for click in written)
    assert not files[0].name.startswith(".")


def test_orders_go_to_all_who_are_connected_in_turn(server):
    with connect(server) as one, connect(server) as other:
        server.send(6)
        ids = [order["id"] for order in lines(one, 3)], [order["id"] for order in lines(other, 3)]
    assert sorted(ids[0] + ids[1]) == [1, 2, 3, 4, 5, 6]


def test_orders_nobody_is_there_for_are_dropped_and_counted(server):
    server.send(3)
    assert (server.sent, server.dropped) == (0, 3)


def test_who_has_left_is_let_go_and_who_comes_back_is_served(server):
    connect(server).close()
    wait_until_connected(server, 0)
    with connect(server) as again:
        server.send(1)
        assert len(lines(again, 1)) == 1


@pytest.fixture(scope="module")
def emulator(tmp_path_factory):
    with kinesis.start("kinesis-mock", tmp_path_factory.mktemp("kinesis") / "log") as running:
        yield running


def visits_by_shard(emulator):
    client = emulator.client()
    found = []
    for shard in client.list_shards(StreamName=VISITS)["Shards"]:
        iterator = client.get_shard_iterator(
            StreamName=VISITS, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        records = client.get_records(ShardIterator=iterator)["Records"]
        found.append([json.loads(record["Data"]) for record in records])
    return found


@pytest.fixture
def patient(monkeypatch):
    """An emulator that takes its time for an answer is not given up."""
    client, create_stream = kinesis.client, kinesis.create_stream
    monkeypatch.setattr(
        kinesis, "client", lambda url, **how: client(url, **how | {"timeout": HANGS})
    )
    monkeypatch.setattr(kinesis, "create_stream", partial(create_stream, seconds=HANGS))


@pytest.mark.usefixtures("patient")
def test_visits_are_put_to_all_shards_of_a_stream_of_their_own(emulator):
    visits = VisitPutter(emulator.url)
    visits.send(100)
    visits.send(0)
    shards = visits_by_shard(emulator)
    assert len(shards) == VISIT_SHARDS
    assert all(shards)
    assert sum(map(len, shards)) == 100 == visits.sent
    assert all(set(visit) == {"visitor", "page"} for shard in shards for visit in shard)
    emulator.client().delete_stream(StreamName=VISITS)
    visits.send(3)
    visits.close()
    assert (visits.sent, visits.dropped) == (100, 3)


def start(tmp_path, *arguments):
    command = [sys.executable, "-m", "demo.load", "--clicks", str(tmp_path / "clicks")]
    command += ["--report", str(tmp_path / "load.json"), *arguments]
    return subprocess.Popen(command, cwd=ROOT)


def test_it_stops_by_itself_after_its_cycles(tmp_path):
    process = start(tmp_path, "--cycles", "0.01")
    assert process.wait(timeout=HANGS) == 0
    report = json.loads((tmp_path / "load.json").read_text())
    assert report["phase"] == "calm"
    assert report["clicks_sent"] > 0


def test_it_only_trickles_until_it_is_told_to_start(tmp_path):
    process = start(tmp_path, "--cycles", "0.01", "--start-when", str(tmp_path / "go"))
    wait_for("a report", (tmp_path / "load.json").exists)
    assert json.loads((tmp_path / "load.json").read_text())["phase"] == "waiting"
    assert process.poll() is None
    (tmp_path / "go").touch()
    assert process.wait(timeout=HANGS) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a parent that can die")
def test_it_does_not_outlive_who_started_it(tmp_path):
    parent = subprocess.run(
        [
            sys.executable,
            "-c",
            "import subprocess, sys, time, pathlib\n"
            "p = subprocess.Popen([sys.executable, '-m', 'demo.load', '--clicks', sys.argv[1],"
            " '--report', sys.argv[2]])\n"
            "while not pathlib.Path(sys.argv[2]).exists(): time.sleep(0.05)\n"
            "print(p.pid)\n",
            str(tmp_path / "clicks"),
            str(tmp_path / "load.json"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=True,
    )
    pid = int(parent.stdout)
    wait_for("its end", lambda: gone(pid))
