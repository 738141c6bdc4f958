"""What tests and the demo do at a broker: topics, partitions, records. By `confluent-kafka`,
another client than Spark's."""

import time
from collections.abc import Callable, Iterable
from typing import Any

_SECONDS = 60.0
"""How long the broker may take for anything."""


class KafkaFailed(RuntimeError):
    """The broker has not done what it was asked for."""


def answers(address: str) -> bool:
    """Whether a broker is there, and serves topics."""
    from confluent_kafka import KafkaException

    try:
        return bool(_admin(address).list_topics(timeout=1.0).brokers)
    except KafkaException:
        return False


def create_topic(address: str, topic: str, partitions: int = 1) -> None:
    """Make a topic, and wait until it can be used.

    Raises:
        KafkaFailed: it is not there in time.
    """
    from confluent_kafka.admin import NewTopic

    admin = _admin(address)
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(_SECONDS)
    _wait(f"topic {topic!r}", lambda: partitions_of(address, topic) == partitions)


def delete_topic(address: str, topic: str) -> None:
    """Delete a topic, and wait until it is gone.

    Raises:
        KafkaFailed: it is there all the same.
    """
    admin = _admin(address)
    admin.delete_topics([topic])[topic].result(_SECONDS)
    _wait(f"the end of topic {topic!r}", lambda: not partitions_of(address, topic))


def delete_records(address: str, topic: str) -> None:
    """Delete all records that a topic has now, as its retention would."""
    from confluent_kafka import OFFSET_END, TopicPartition

    admin = _admin(address)
    every = range(partitions_of(address, topic))
    of = [TopicPartition(topic, number, OFFSET_END) for number in every]
    for deleted in admin.delete_records(of).values():
        deleted.result(_SECONDS)


def add_partitions(address: str, topic: str, partitions: int) -> None:
    """Have a topic have more partitions.

    Args:
        partitions: in all.

    Raises:
        KafkaFailed: they are not there in time.
    """
    from confluent_kafka.admin import NewPartitions

    admin = _admin(address)
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(_SECONDS)
    _wait(f"the partitions of {topic!r}", lambda: partitions_of(address, topic) == partitions)


def partitions_of(address: str, topic: str) -> int:
    """How many partitions with a leader a topic has; 0: there is no such topic."""
    told = _admin(address).list_topics(topic, timeout=_SECONDS).topics[topic]
    return sum(each.leader >= 0 for each in told.partitions.values())


class Records:
    """Puts records into topics. For one thread."""

    def __init__(self, address: str) -> None:
        from confluent_kafka import Producer

        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
        self._failed: list[str] = []

    def put(self, topic: str, values: Iterable[str], partition: int = -1) -> None:
        """Put records into a topic, and wait until the broker has them.

        Args:
            partition: -1: any.

        Raises:
            KafkaFailed: the broker has not taken all of them.
        """
        self._failed.clear()
        for value in values:
            self._produce(topic, value, partition)
            self._producer.poll(0)
        left = self._producer.flush(_SECONDS)
        if left or self._failed:
            raise KafkaFailed(f"{left} records are left, and of others: {self._failed[:3]}")

    def _produce(self, topic: str, value: str, partition: int) -> None:
        from confluent_kafka import KafkaException

        how: dict[str, Any] = {"partition": partition, "on_delivery": self._delivered}
        try:
            self._producer.produce(topic, value, **how)
        except KafkaException:  # it may not have heard yet of a partition that is new
            self._producer.list_topics(topic, timeout=_SECONDS)
            self._producer.produce(topic, value, **how)

    def _delivered(self, error: Any, _record: Any) -> None:
        if error is not None:
            self._failed.append(str(error))


def _admin(address: str) -> Any:
    """A client, which gives up what it was asked for when nobody holds it any more."""
    from confluent_kafka.admin import AdminClient

    # A broker that is away is nothing to tell of: it is asked again.
    return AdminClient({"bootstrap.servers": address, "log_level": 0})


def _wait(what: str, there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not there():
        if time.monotonic() > deadline:
            raise KafkaFailed(f"waited {_SECONDS:g} s for {what}")
        time.sleep(0.05)
