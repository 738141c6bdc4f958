"""A query that writes files goes on writing them after a change of its state."""

import json
import uuid
from pathlib import Path

import pytest

from dagster_sparkscale.driver.state import layout, output
from dagster_sparkscale.driver.state.plans import Plan
from dagster_sparkscale.driver.wire import KEY_GROUPS, PLAN
from tests.conftest import PROGRAMS
from tests.driver.running import Cluster, Driver
from tests.waiting import HANGS, wait_for

KEYS = 20
GROUPS = 16


@pytest.mark.parametrize(
    ("names", "last"),
    [([], None), ([".0.crc"], None), (["0", "1"], 1), (["8", "9.compact", "10", ".x.tmp"], 10)],
)
def test_the_last_batch_in_the_log(names, last):
    assert output.latest(names) == last


class Filing:
    """Feeds the program `filing.py`, and reads the log of what it writes."""

    def __init__(self, folder: Path) -> None:
        self.place, self._log, self._fed = folder, folder / "out" / output.LOG, 0

    def feed(self) -> None:
        """Lines of one second, 10 s after those before: which are written then."""
        (self.place / "in").mkdir(parents=True, exist_ok=True)
        at = f"2026-01-01 00:{self._fed // 6:02d}:{self._fed % 6 * 10:02d}"
        draft = self.place / "draft"
        draft.write_text("".join(f"{at},key{i}\n" for i in range(KEYS)))
        draft.rename(self.place / "in" / f"{uuid.uuid4().hex}.csv")
        self._fed += 1

    def batches(self) -> list[int]:
        """Those in the log."""
        names = (each.name.removesuffix(".compact") for each in self._log.glob("*"))
        return sorted(int(name) for name in names if name.isdecimal())

    def written(self) -> set[str]:
        """Files that the log names."""
        told = "\n".join(each.read_text() for each in self._log.glob("[0-9]*")).splitlines()
        return {json.loads(line)["path"] for line in told if line.startswith("{")}


def batches_more(driver: Driver, filing: Filing, number: int) -> None:
    """Have it go on for so many batches at least."""
    last = max(filing.batches(), default=-1)
    while max(filing.batches(), default=-1) < last + number:
        before = max(filing.batches(), default=-1)
        filing.feed()
        wait_for(
            "a batch to be written",
            lambda before=before: max(filing.batches(), default=-1) > before,
            about=lambda: driver.log()[-6000:],
        )


@pytest.mark.spark
@pytest.mark.parametrize("table", [False, True])
def test_the_log_of_a_file_sink_has_no_gap(cluster: Cluster, tmp_path: Path, table: bool):
    filing = Filing(tmp_path / "data")
    settings = {
        KEY_GROUPS: str(GROUPS),
        layout.PARTITIONS: "4",
        layout.PROVIDER: layout.ROCKSDB,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.fileSink.log.compactInterval": "3",
    }
    arguments = (str(filing.place), *(["filed"] if table else []))
    for number, plan in enumerate((None, Plan("up", 8, GROUPS), Plan("down", 2, GROUPS))):
        given = {**settings, **({PLAN: plan.to_json()} if plan else {})}
        with cluster.driver(
            tmp_path / str(number), PROGRAMS / "filing.py", *arguments, settings=given
        ) as driver:
            batches_more(driver, filing, 4)
            if plan:
                (report,) = driver.status().reconfigurations
                assert report.outcome == "changed", report
            driver.stop()
            driver.exit_code(HANGS)
    batches = filing.batches()
    assert batches == list(range(batches[-1] + 1)), "none is missing"
    assert filing.written()
