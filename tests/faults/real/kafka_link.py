"""A damaged connection between a stream and its Kafka broker, for driver and executors alike.

While it lasts, records are written, and the sensor goes on. Afterwards all records have been read,
each once; no minute told a lag that was not; and if the driver has died of it, a tracked run, and
nothing else, has brought the stream back.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dagster_sparkscale import LocalCluster
from dev.kafka import client
from dev.kafka.broker import Broker
from dev.processes import port_to_use
from dev.toxiproxy.proxy import Link, Toxiproxy
from tests.e2e.deployment import Deployment, deployed, told
from tests.faults.real.links import Damage
from tests.faults.real.watched import Record, lasts, recovers, restarts, ticked
from tests.kafka.following import Following
from tests.waiting import wait_for

_LASTS = 45.0
"""Seconds: longer than Kafka's clients wait for an answer (30 s)."""
_FETCHED = 20_000
"""Bytes: about what Spark is answered at once here."""


@dataclass(frozen=True)
class Linked:
    broker: Broker
    link: Link


@contextmanager
def linked(folder: Path, toxiproxy: Toxiproxy) -> Iterator[Linked]:
    behind = port_to_use(0)
    link = toxiproxy.link("kafka", f"127.0.0.1:{behind}")
    port = int(link.address.rpartition(":")[2])
    with Broker(folder / "broker", (behind, port)) as broker:
        yield Linked(broker, link)


def play(
    linked: Linked, damage: Damage, cluster: LocalCluster, folder: Path, record: Record
) -> None:
    name = f"kafka_{damage.name.lower()}"
    client.create_topic(linked.broker.address, name, 2)
    records = client.Records(linked.broker.address)
    following = Following(cluster, folder, linked.link.address, name, name=name)
    with deployed(cluster, following.stream, folder) as d:
        told(d.materialize())
        records.put(name, (f"before {number}" for number in range(20)))
        wait_for("what there is", lambda: len(following.values()) == 20, about=following.log)
        with linked.link.damaged(damage.toxics(_FETCHED)):
            records.put(name, (f"meanwhile {number}" for number in range(2000)))
            lasts(_LASTS, lambda: _watched(d))
        records.put(name, (f"after {number}" for number in range(20)))
        recovers(record, "all to be read", lambda: _watched(d) and len(following.values()) >= 2040)
        values = following.values()
        assert len(values) == len(set(values)) == 2040
        record("seen", restarts(d))


def _watched(d: Deployment) -> bool:
    """Evaluate the stream, of which no lag may be told that is not known."""
    ticked(d)
    status = d.status()
    for query in status.queries if status else ():
        assert query.lag_unknown is None or query.backlog_records is None
    return True
