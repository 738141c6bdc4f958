"""Kafka in the agent: how far each query is behind its topics."""

from dagster_sparkscale.driver.batches.tracked import Lag
from dagster_sparkscale.driver.part import Part

from .lag import KafkaLag


class KafkaPart(Part):
    """Measures how far queries are behind Kafka, by the offsets that Spark tells."""

    def lag(self) -> Lag:
        return KafkaLag()
