"""What a query tells of its sources for Kafka, and how far it is behind by that."""

from typing import Any

from dagster_sparkscale.driver.kafka.lag import KafkaLag

Offsets = dict[str, int]


def kafka(end: Offsets | None, latest: Offsets | None, topic: str = "t") -> dict[str, Any]:
    """A source's part of a progress, as Spark 4.3 tells it."""
    return {
        "description": f"KafkaV2[Subscribe[{topic}]]",
        "startOffset": None,
        "endOffset": end and {topic: end},
        "latestOffset": latest and {topic: latest},
        "metrics": {"avgOffsetsBehindLatest": "5.0"},
    }


OTHER = {"description": "FileStreamSource[file:/in]", "endOffset": {"logOffset": 3}}


class Looked:
    """Progress of one query, by seconds."""

    def __init__(self) -> None:
        self.lag = KafkaLag()

    def at(self, second: float, *sources: dict[str, Any], asked: Any = 0) -> Any:
        """What the query's sources tell by a trigger of that second; of one source alone, that."""
        progress = {"sources": list(sources), "durationMs": {"latestOffset": asked}}
        reports = self.lag.see(int(second * 1000), progress)
        return reports[0] if len(sources) == 1 else reports

    def behind(self, second: float, *sources: dict[str, Any], asked: Any = 0) -> float | None:
        report = self.at(second, *sources, asked=asked)
        return None if report.behind_ms is None else report.behind_ms / 1000
