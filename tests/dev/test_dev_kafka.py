"""The broker of tests: what it keeps, and that nothing of it outlives who wanted it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer

from dev.kafka import client
from dev.kafka.broker import tethered
from dev.kafka.settings import server
from tests.waiting import HANGS, wait_for

ROOT = Path(__file__).parents[2]
KEEPER = """\
import sys, time
from pathlib import Path
from dev.kafka.broker import tethered
with tethered(Path(sys.argv[1])) as broker:
    print(broker.address, flush=True)
    time.sleep(900)
"""


def test_settings_name_its_ports_and_its_folder(tmp_path: Path) -> None:
    lines = server(tmp_path, 1234, 1235).splitlines()
    assert f"log.dirs={tmp_path}/data" in lines
    assert "listeners=PLAINTEXT://127.0.0.1:1234,CONTROLLER://127.0.0.1:1235" in lines
    assert "controller.quorum.voters=1@127.0.0.1:1235" in lines
    assert "transaction.state.log.min.isr=1" in lines


def those_of(folder: Path) -> list[psutil.Process]:
    """Processes that were told of a folder: the broker's, and its keeper's."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(str(folder) in part for part in process.info["cmdline"] or ()):
            found.append(process)
    return [each for each in found if each.pid != os.getpid()]


@pytest.mark.clusters
@pytest.mark.kafka
@pytest.mark.spark
def test_what_is_in_topics_outlives_a_stop(tmp_path: Path) -> None:
    with tethered(tmp_path / "broker") as broker:
        client.create_topic(broker.address, "clicks", 2)
        client.Records(broker.address).put("clicks", ["one", "two"], partition=1)
        client.add_partitions(broker.address, "clicks", 3)
        broker.stop()
        assert not client.answers(broker.address)
        broker.start()
        assert client.partitions_of(broker.address, "clicks") == 3
        client.Records(broker.address).put("clicks", ["three"], partition=1)
        settings = {"bootstrap.servers": broker.address, "group.id": "g"}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
        consumer.subscribe(["clicks"])
        seen = [message.value() for message in consumer.consume(3, timeout=HANGS)]
        consumer.close()
        assert seen == [b"one", b"two", b"three"]
        client.delete_topic(broker.address, "clicks")
        assert client.partitions_of(broker.address, "clicks") == 0
    assert not those_of(tmp_path / "broker")


@pytest.mark.clusters
@pytest.mark.kafka
@pytest.mark.spark
def test_nothing_outlives_who_wanted_it(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    wanting = subprocess.Popen(
        [sys.executable, "-c", KEEPER, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert wanting.stdout is not None
    assert wanting.stdout.readline().startswith("127.0.0.1:")
    assert len(those_of(folder)) == 3
    wanting.send_signal(signal.SIGKILL)
    wanting.wait(HANGS)
    wait_for("all of it to end", lambda: not those_of(folder))
