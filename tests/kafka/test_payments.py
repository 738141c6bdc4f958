"""The program of the demo's stream of payments, and what puts them there."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_sparkscale import StructuredStream
from dagster_sparkscale.clusters.local import LocalCluster
from demo.load import PAYMENT_PARTITIONS, PAYMENTS, PaymentPutter
from dev.kafka.broker import Kept
from dev.kafka.connector import connector
from tests.clusters.running import newest, see_ended, status, submit
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
PROGRAM = Path(__file__).parents[2] / "jobs" / "payments.py"


@pytest.fixture
def checked(kafka: Kept, local_cluster: LocalCluster, tmp_path: Path) -> Iterator[Path]:
    """Where a stream as that of `definitions.py` puts the payments that it has checked."""
    output = tmp_path / "checked"
    arguments = ("--servers", kafka.address, "--topic", PAYMENTS, "--output", str(output))
    stream = StructuredStream(
        name="payments",
        program=str(PROGRAM),
        arguments=(*arguments, "--wait-ms", "1"),
        batch_interval="1s",
        executor_memory="512m",
        driver_memory="512m",
        spark_conf={"spark.jars": connector(), "spark.cores.max": "1"},
        checkpoint_location=str(tmp_path / "checkpoint"),
    )
    submit(local_cluster, stream)
    yield output
    see_ended(local_cluster, stream.name)


def test_payments_are_put_to_all_partitions_and_each_is_checked_once(
    request: pytest.FixtureRequest, kafka: Kept, local_cluster: LocalCluster
) -> None:
    payments = PaymentPutter(kafka.address)  # it makes the topic
    payments.send(60)
    output: Path = request.getfixturevalue("checked")

    def caught_up() -> bool:
        told = status(local_cluster, "payments")
        return told is not None and any(query.behind_ms == 0 for query in told.queries)

    def log() -> str:
        return local_cluster.logs(newest(local_cluster, "payments"), 60)

    wait_for("all payments to be read", caught_up, 240, about=log)
    told = status(local_cluster, "payments")
    assert told is not None and told.source_shards == PAYMENT_PARTITIONS
    assert set(told.queries[0].partitions_behind or ()) == {"payments-0", "payments-1"}
    rows = [
        json.loads(line) for path in output.glob("*.json") for line in path.read_text().splitlines()
    ]
    assert sorted(row["order"] for row in rows) == list(range(60)) == list(range(payments.sent))
    assert all(row["fraud"] in (True, False) and row["cents"] >= 100 for row in rows)
