"""The whole chain: Kafka, Spark, Dagster. A stream is scaled up as far as its partitions make
sense, but not for a lag that an option of its source makes; partitions that are added are read."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest

from dagster_sparkscale import RatioPolicy
from dagster_sparkscale.clusters.local import LocalCluster
from dev.kafka import client
from dev.kafka.broker import Kept
from tests.e2e.deployment import Deployment, deployed, told, wait_for_request
from tests.kafka.conftest import Topic
from tests.kafka.following import Following
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.clusters]


BY_LAG = RatioPolicy(
    interval=10, max_executors=6, max_lag="3s", scale_up_ratio=1000, scale_down_ratio=0.001
)
"""R alone neither adds nor removes an executor, however busy the machine is."""


@contextmanager
def one_a_second(records: client.Records, topic: str) -> Iterator[None]:
    """Records arrive all the while, at any partition."""
    over = threading.Event()

    def put() -> None:
        while not over.wait(1.0):
            records.put(topic, ["one more"])

    thread = threading.Thread(target=put)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_stream_is_scaled_up_as_far_as_its_partitions_make_sense(
    follow: Callable[..., Following],
    topic: Topic,
    records: client.Records,
    local_cluster: LocalCluster,
    tmp_path: Path,
) -> None:
    t = topic(2)
    slow = follow(t, autoscale=RatioPolicy(interval=10, max_executors=6), batch_interval="2s")
    slow.pace(8.0)
    with one_a_second(records, t), deployed(local_cluster, slow.stream, tmp_path) as d:
        told(d.materialize())
        [request] = wait_for_request(d, "rescale").run_requests or []
        story = told(d.requested(request))
        assert story["ending"] == "reached", story
        assert (story["executors_before"], story["executors_after"]) == (1, 2)
        assert "is at or above 0.9" in story["reason"] or "batch in progress" in story["reason"]

        # It is as slow as before, and a third executor would have no partition to read.
        def pinned() -> bool:
            said = str(d.tick().skip_message)
            return "2 shards are read by 2 tasks" in said

        wait_for("a reason", pinned, 120, every=1.0, about=slow.log)
        seen = slow.assessed().evaluation
        assert seen is not None and seen.shards == 2


def stands_at_the_limit_of_its_option(held_back: Following) -> None:
    """Wait until the input is at the limit of which the driver learns from Spark itself: 4 records
    for 2 s, or 3, for Spark shares them out by what waits in each partition and rounds down."""

    def limited() -> tuple[str | None, str | None, float | None]:
        seen = held_back.assessed().evaluation
        assert seen is not None
        return seen.throttled, seen.throttled_by, seen.throttled_limit

    at_limit = [("following", "source", rate) for rate in (2.0, 1.5)]
    wait_for(
        "its limit",
        lambda: limited() in at_limit,
        60,
        about=lambda: f"{limited()}, {held_back.status()}\n{held_back.log()}",
    )


def overview_says_how_far_behind(d: Deployment, held_back: Following) -> None:
    """Wait until the asset's Overview has what waits, in records and seconds."""

    def shown() -> dict[str, dg.MetadataValue] | None:
        d.tick()
        event = d.instance.get_latest_materialization_event(dg.AssetKey(held_back.stream.name))
        found = event.asset_materialization.metadata if event else {}  # type: ignore[union-attr]
        # It may be of when what waits was just there, and no second old.
        behind = "kafka" in found and found["2. lag (s)"].value
        return dict(found) if behind else None

    metadata = wait_for("Overview", shown, 120, every=1.0)
    assert metadata is not None
    assert "records behind" in str(metadata["kafka"].value)
    lag = metadata["2. lag (s)"].value
    assert isinstance(lag, int | float) and lag > 0


def test_a_stream_that_its_option_holds_back_gets_no_executors_for_being_late(
    follow: Callable[..., Following],
    topic: Topic,
    records: client.Records,
    kafka: Kept,
    local_cluster: LocalCluster,
    tmp_path: Path,
) -> None:
    t = topic(2)
    pattern = f".*{t[1:]}".replace(".", "[.]").replace("[.]*", ".*", 1)
    held_back = follow(
        pattern,
        by="subscribePattern",
        options={"maxOffsetsPerTrigger": 4},
        autoscale=BY_LAG,
        batch_interval="2s",
    )
    held_back.pace(0.5)
    records.put(t, ["first"])
    with deployed(local_cluster, held_back.stream, tmp_path) as d:
        told(d.materialize())
        held_back.wait("its start", lambda query: query.behind_ms == 0)
        records.put(t, (str(number) for number in range(4000)))

        # One is asked for while the window still has batches that were not at the limit.
        def held() -> bool:
            tick = d.tick()
            said = "more executors would not read more" in str(tick.skip_message)
            return said and not tick.run_requests

        wait_for("a reason", held, 180, every=1.0, about=held_back.log)

        stands_at_the_limit_of_its_option(held_back)
        overview_says_how_far_behind(d, held_back)

        # With more partitions, in this topic and in another one, more executors make sense.
        def useful() -> int | None:
            seen = held_back.assessed().evaluation
            assert seen is not None
            return held_back.stream.bounds_for(seen.shards).useful

        assert useful() == 2
        client.add_partitions(kafka.address, t, 3)
        other = topic()
        records.put(t, "b", partition=2)
        records.put(other, "c")
        query = held_back.wait("all partitions", lambda query: query.source_shards == 4)
        assert set(query.partitions_behind or ()) == {*(f"{t}-{n}" for n in range(3)), f"{other}-0"}
        assert useful() == 4

        def of_added() -> list[str]:
            read = held_back.read()
            return [value for of, number, _, value in read if of == other or number == 2]

        wait_for("what is in them", lambda: len(of_added()) >= 2, 120, about=held_back.log)
        assert of_added() == ["b", "c"]
