"""A damaged connection between a stream and Kinesis, for driver and executors alike: as
`kafka_link`."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dagster_sparkscale import LocalCluster, RatioPolicy, StructuredStream
from dev import kinesis
from dev.toxiproxy.proxy import Link, Toxiproxy
from tests.e2e.deployment import deployed, told
from tests.faults.real.links import Damage
from tests.faults.real.watched import RESTARTED_AT_ONCE, Record, lasts, recovers, restarts, ticked
from tests.waiting import wait_for

_PROGRAM = Path(__file__).parent / "programs" / "reading_kinesis.py"
_LASTS = 45.0
"""Seconds: longer than the source waits for an answer."""
_ANSWERED = 5_000
"""Bytes: about what a call is answered here."""


@dataclass(frozen=True)
class Linked:
    emulator: kinesis.Emulator
    link: Link


@contextmanager
def linked(folder: Path, toxiproxy: Toxiproxy) -> Iterator[Linked]:
    with kinesis.start("kinesis-mock", folder / "log") as emulator:
        to = emulator.url.removeprefix("http://")
        yield Linked(emulator, toxiproxy.link("kinesis", to))


def play(
    linked: Linked, damage: Damage, cluster: LocalCluster, folder: Path, record: Record
) -> None:
    name = f"kinesis_{damage.name.lower()}"
    client = linked.emulator.client()
    kinesis.create_stream(client, name, 2)
    stream = StructuredStream(
        name=name,
        program=str(_PROGRAM),
        arguments=(f"http://{linked.link.address}", name, str(folder)),
        batch_interval="1s",
        executor_memory="512m",
        checkpoint_location=str(folder / "checkpoint"),
        autoscale=RatioPolicy(interval=10, max_executors=2),
        recovery=RESTARTED_AT_ONCE,
    )
    with deployed(cluster, stream, folder) as d:
        told(d.materialize())
        _put(client, name, [f"before {number}" for number in range(20)])
        wait_for("what there is", lambda: len(_read(folder)) == 20)
        with linked.link.damaged(damage.toxics(_ANSWERED)):
            _put(client, name, [f"meanwhile {number}" for number in range(400)])
            lasts(_LASTS, lambda: ticked(d))
        _put(client, name, [f"after {number}" for number in range(20)])
        recovers(record, "all to be read", lambda: ticked(d) and len(_read(folder)) >= 440)
        values = _read(folder)
        assert len(values) == len(set(values)) == 440
        record("seen", restarts(d))


def _put(client: Any, name: str, values: Sequence[str]) -> None:
    """Straight to the service."""
    records = [{"Data": each.encode(), "PartitionKey": each} for each in values]
    answer = client.put_records(StreamName=name, Records=records)
    assert answer["FailedRecordCount"] == 0, answer


def _read(folder: Path) -> list[str]:
    files = (folder / "read").glob("[0-9]*.json")
    return [value for path in files for value in json.loads(path.read_text())]
