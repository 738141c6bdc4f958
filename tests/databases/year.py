"""python -m tests.databases.year HOME STREAM SINCE

Reads a stream's minutes back, one after the other, and prints how many there are and by how many MB
this process has grown meanwhile, at most. In a process of its own, which has no memory to spare.
"""

import json
import sys

import dagster as dg
import psutil

from dagster_sparkscale import each_minute

DAY = 86400.0


def main(home: str, stream: str, since: float) -> None:
    process = psutil.Process()
    with dg.DagsterInstance.from_config(home) as instance:
        # A week, so that all is loaded, and pages have had their full size.
        assert sum(1 for _ in each_minute(instance, stream, since, since + 7 * DAY)) == 7 * 1440
        before = most = process.memory_info().rss
        number, last, ratios = 0, 0, 0.0
        for minute in each_minute(instance, stream, since):
            assert minute.at > last
            number, last, ratios = number + 1, minute.at, ratios + (minute.ratio or 0.0)
            if number % 1000 == 0:
                most = max(most, process.memory_info().rss)
    grown = (most - before) / 2**20
    print(json.dumps({"minutes": number, "grown": round(grown, 1), "ratio": ratios / number}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
