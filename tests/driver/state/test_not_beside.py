"""What can't be changed beside the stream is changed in place in the same try, on real Spark, and
nothing is lost or counted twice."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.driver.running import environment
from tests.releases import CHANGES_STATE
from tests.waiting import patience

pytestmark = [pytest.mark.spark, pytest.mark.clusters, CHANGES_STATE]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `tests.driver.state.not_beside` tells, by its queries."""
    folder = tmp_path_factory.mktemp("not_beside")
    log = folder / "log"
    with log.open("wb") as errors:
        done = subprocess.run(
            [sys.executable, "-m", "tests.driver.state.not_beside", str(folder)],
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(),
            timeout=patience(480),
            check=False,
        )
    assert done.returncode == 0, log.read_text()[-4000:]
    lines = [json.loads(each) for each in done.stdout.splitlines() if each.startswith(b'{"query')]
    return {each["query"]: each for each in lines}


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("random", "the copy is not the same: operator 0, store 'default': rows of key group"),
        ("cleaned", "its source deletes or moves files once they are read (cleanSource)"),
        ("filling", "its checkpoint's disk, or a quota there, has 0 MB left: for a state of 0 MB"),
        ("format_2", "its state is kept in format 2 of state stores, which gives versions ids"),
        ("few_retained", "only 5 batches are retained (spark.sql.streaming.minBatchesToRetain)"),
    ],
)
def test_it_is_changed_in_place_and_says_why(told, query, why):
    change = told[query]["change"]
    assert (change["outcome"], change["reason"], change["way"]) == ("changed", None, "in place")
    assert change["beside"].startswith(why)
    assert (change["before"], change["after"]) == (4, 16)
    assert told[query]["right"]


def test_what_differs_when_it_is_run_again_is_found_while_the_query_runs(told):
    steps = told["random"]["change"]["seconds"]
    assert "catching up" in steps and "comparing" in steps
    assert not {"replaying", "moving in", "undoing"} & set(steps)
