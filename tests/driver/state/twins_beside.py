"""Runs queries and their twins, of which one has its partitions changed beside the stream: chunks
come while the copy catches up, and another just before the query is ended. In every other change
the copy's last version counts as not written whole at first.

    python -m tests.driver.state.twins_beside FOLDER KEY_GROUPS NUMBERS SETTINGS OPERATOR...

As `tests.driver.state.twins_in_place`.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dagster_sparkscale.driver.state.beside import copying, limits, state_copy
from dagster_sparkscale.driver.state.beside.limits import Limits
from dagster_sparkscale.driver.state.reporting import InPlace
from dagster_sparkscale.driver.state.tasks import POOL
from tests.driver.state.operators import CHUNKS, ENDLESS
from tests.driver.state.twins import NO_DATA_BATCHES, session
from tests.driver.state.twins_in_place import Driver, Running

AT = ("catching up", "ending")
"""The steps at which a chunk comes."""
LONG = 3600.0
"""Seconds. No copy is given up for the time it takes: machines differ, and stores."""
ASKED = Limits(rows=0, replay=True, within=LONG, busiest=1e9)


def at_steps(do: Callable[[], None], look: Callable[[str], object] = str) -> None:
    """Have something done as each of `AT` begins, and each step looked at."""
    step = InPlace.step

    def stepping(report: InPlace, name: str) -> None:
        step(report, name)
        look(name)
        if name in AT:
            do()

    InPlace.step = stepping  # type: ignore[method-assign]


def once_not_whole() -> None:
    """Have the next copy run the last batch once more, without rows."""
    is_whole = copying.is_whole

    def looked(*given: Any) -> bool:
        copying.is_whole = is_whole
        return False

    copying.is_whole = looked


def without_haste() -> None:
    state_copy._LAST_SECONDS = limits._QUICK = LONG
    limits.MOST_REPLAYS = 1000


def main(place: str, key_groups: str, numbers: str, settings: str, *operators: str) -> None:
    spark = session(json.loads(settings))
    without_haste()
    driver, to = Driver(spark, int(key_groups)), [int(number) for number in numbers.split(",")]
    no_data = spark.conf.get(NO_DATA_BATCHES, "true") == "true"
    feeds: list[Callable[[], None]] = []
    pools: dict[str, str | None] = {}

    def look(step: str) -> None:
        pools[step] = spark.sparkContext.getLocalProperty(POOL)

    at_steps(lambda: feeds[-1](), look)
    for operator in operators:
        spark.conf.set(NO_DATA_BATCHES, no_data and operator not in ENDLESS)
        names = [f"{operator}_{each}" for each in ("kept", "changed")]
        kept, changed = (Running(spark, Path(place) / name, operator, name) for name in names)
        chunks: list[Any] = []
        changes = []

        def feed(kept: Running = kept, changed: Running = changed, to: list[Any] = chunks) -> None:
            to.append((kept.run(len(to)), changed.run(len(to))))

        feeds.append(feed)
        for number, partitions in enumerate(to):
            feed()
            if number % 2 == 0:
                once_not_whole()
            changes.append(driver.change(names[1], partitions, number, ASKED))
        while len(chunks) < CHUNKS:
            feed()
        feed()
        for each in (kept, changed):
            assert each.handle.isActive
            each.handle.stop()
        told = {"operator": operator, "chunks": chunks, "changes": changes, "pools": pools}
        print(json.dumps(told), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
