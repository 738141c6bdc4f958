"""A query whose partitions were changed goes on as its twin does, of which they never were."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.driver.running import environment
from tests.driver.state.operators import VARIANTS
from tests.waiting import patience

pytestmark = [pytest.mark.spark, pytest.mark.clusters]


def twins(
    folder: Path,
    numbers: str,
    *operators: str,
    key_groups: int = 16,
    settings: Mapping[str, str] | None = None,
) -> list[Any]:
    """What `tests.driver.state.twins` tells of each operator."""
    command = [sys.executable, "-m", "tests.driver.state.twins"]
    log, given = folder / "twins.log", json.dumps(dict(settings or {}))
    with log.open("wb") as errors:
        done = subprocess.run(
            [*command, str(folder), str(key_groups), numbers, given, *operators],
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(),
            timeout=patience(240 * len(operators)),
            check=False,
        )
    assert done.returncode == 0, log.read_text()[-4000:]
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b'{"oper')]
    assert [each["operator"] for each in told] == list(operators)
    return told


def check(told: Any, numbers: list[int], begin: int = 4) -> None:
    """Each change was made and verified, and nothing of it shows in what the query writes."""
    for before, after, report in zip([begin, *numbers], numbers, told["changes"], strict=False):
        assert (report["outcome"], report["reason"]) == ("changed", None), report
        assert (report["before"], report["after"]) == (before, after)
        assert report["rows"] == sum(report["group_rows"]) == sum(report["partition_rows_after"])
        assert len(report["partition_rows"]) == before
        assert len(report["partition_rows_after"]) == after
    assert any(kept for kept, _ in told["chunks"]), "it writes nothing"
    for number, (kept, changed) in enumerate(told["chunks"]):
        assert changed == kept, f"chunk {number}"


@pytest.mark.parametrize("operator", ["left_join", "aggregation"])
def test_results_are_the_same_after_a_change_up_and_one_down(tmp_path, operator):
    (told,) = twins(tmp_path, "16,2", operator)
    check(told, [16, 2])


def test_results_are_the_same_with_the_second_format_of_the_offset_log(tmp_path):
    (told,) = twins(tmp_path, "16,2", "aggregation", settings=VARIANTS["offset-log-2"])
    check(told, [16, 2])
