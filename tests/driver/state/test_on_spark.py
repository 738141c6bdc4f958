"""What Spark itself does to the state of queries, and what is made of it."""

import json
import subprocess
import sys
from typing import Any

import pytest

from dagster_sparkscale.driver.state import layout
from tests.driver.running import environment
from tests.releases import CHANGES_STATE
from tests.waiting import patience

pytestmark = [pytest.mark.spark, pytest.mark.clusters, CHANGES_STATE]


@pytest.fixture(scope="module")
def told_by(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `tests.driver.state.on_spark` has found, by its parts."""
    folder = tmp_path_factory.mktemp("on_spark")
    log = folder / "log"
    with log.open("wb") as errors:
        done = subprocess.run(
            [sys.executable, "-m", "tests.driver.state.on_spark", str(folder)],
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(),
            timeout=patience(360),
            check=False,
        )
    assert done.returncode == 0, log.read_text()[-4000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_a_state_without_keys_is_left_where_its_operator_looks_for_it(told_by):
    """Spark's own repartitioning puts it where the hash of no key is, and the count begins anew."""
    for before, outcome, reason, counted in told_by["keyless"]:
        assert outcome == "refused", before
        assert "one state of all rows, which has no keys" in reason
        assert counted == [40, 80]


def test_a_limit_of_a_stream_is_left(told_by):
    for outcome, reason, written in told_by["limited"]:
        assert outcome == "refused"
        assert reason.startswith("operator 0 is a limit() of the stream: it keeps one count of all")
        assert written == 50


def test_a_query_without_state_is_known_by_its_checkpoint(told_by):
    assert "commits" in told_by["stateless"] and layout.STATE not in told_by["stateless"]


def test_a_checkpoint_whose_path_spark_mistakes_is_left(told_by):
    outcome, reason, there = told_by["escaped"]
    assert outcome == "refused" and "Spark would look for its state in " in reason
    assert "/my%20checkpoint" in reason
    assert there == ["in", "my checkpoint"]


def test_what_failed_is_put_back_once_none_of_its_tasks_writes_any_more(told_by):
    """Where one task fails, the others go on with what they commit."""
    outcome, reason, at_once, later = told_by["failing"]
    assert outcome == "undone" and "Spark could not change it" in reason
    assert at_once == later == []


def test_tasks_of_an_attempt_that_spark_has_given_up_count_for_as_long_as_they_run(told_by):
    """What they write comes later, too."""
    assert told_by["outlived"] == 0


def test_jobs_that_nobody_needs_any_more_are_ended(told_by):
    assert told_by["unwanted"] == [True, 0, 7]


def test_what_batches_have_changed_is_the_same_whatever_the_partitions(told_by):
    assert told_by["changed"] == [
        5,  # of which three are gone
        {"two": True, "four": True}
        | dict.fromkeys(("another_value", "another_null", "none_gone"), False),
    ]


def test_a_change_counts_no_rows_and_the_next_batch_counts_them_all(told_by):
    assert told_by["recounted"] == [2 * [["changed", [-1], [50]]], "true"]
