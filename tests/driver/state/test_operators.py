"""A query whose partitions were changed goes on as its twin does, of which they never were."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale.driver.state.tasks import OURS
from tests.driver.running import environment
from tests.driver.state.operators import VARIANTS
from tests.driver.state.twins import NO_DATA_BATCHES
from tests.releases import CHANGES_STATE
from tests.waiting import patience

pytestmark = [pytest.mark.spark, pytest.mark.clusters, CHANGES_STATE]


def twins(
    folder: Path,
    numbers: str,
    *operators: str,
    key_groups: int = 16,
    settings: Mapping[str, str] | None = None,
    how: str = "",
    seconds: float = 240.0,
) -> list[Any]:
    """What `tests.driver.state.twins` tells of each operator, or `twins_in_place` or
    `twins_beside` does.

    Args:
        seconds: for each operator.
    """
    module = f"tests.driver.state.twins{how}"
    command = [sys.executable, "-m", module]
    log, given = folder / "twins.log", json.dumps(dict(settings or {}))
    with log.open("wb") as errors:
        done = subprocess.run(
            [*command, str(folder), str(key_groups), numbers, given, *operators],
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(),
            timeout=patience(seconds * len(operators)),
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


def test_results_are_the_same_after_a_change_up_and_one_down(tmp_path):
    """With the second format of the offset log. All operators and formats: `soak_operators`."""
    (told,) = twins(tmp_path, "16,2", "left_join", settings=VARIANTS["offset-log-2"])
    check(told, [16, 2])


def test_results_are_the_same_after_changes_while_the_query_runs(tmp_path):
    (told,) = twins(tmp_path, "5,2", "left_join", how="_in_place")
    check(told, [5, 2])
    assert {each["way"] for each in told["changes"]} == {"in place"}


def check_beside(told: Any, numbers: list[int]) -> None:
    """As `check`, with each change made beside the stream."""
    check(told, numbers)
    for each in told["changes"]:
        assert (each["way"], each["beside"]) == ("beside the stream", None), each
        assert {"catching up", "replaying", "moving in"} <= set(each["seconds"])
    pools = told["pools"]
    assert (pools["rewriting beside"], pools["ending"]) == (OURS, None)


def test_results_are_the_same_after_changes_beside_the_stream(tmp_path):
    """With changelogs, so that nothing is read whole while the query stands still; without batches
    that have no data, so that the last one moves the watermark on; of two sources, which have
    batches of their own: one that is replayed moves the watermark later than it did."""
    settings = {**VARIANTS["changelogs"], NO_DATA_BATCHES: "false"}
    (told,) = twins(tmp_path, "16,2", "windowed", settings=settings, how="_beside")
    check_beside(told, [16, 2])
    for each in told["changes"]:
        assert {"comparing changes", "accepting"} <= set(each["seconds"])
        assert not {"measuring", "verifying"} & set(each["seconds"])
