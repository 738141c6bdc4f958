"""What is an error and what a warning, and that each finding can be read."""

import pytest

from dagster_sparkscale.declare.decisions import Hold
from dagster_sparkscale.observe.findings import Health
from dagster_sparkscale.observe.status import Query
from tests.fakes import QUERY, batch
from tests.watch.test_health import findings

WARNINGS = set(Health) - {Health.RUNNING, Health.BATCHES_COMPLETING}
BEHIND = (Query(QUERY, active=True, behind_ms=5000, source_lost=2),)
AT_THE_TIP = (Query(QUERY, active=True, behind_ms=0, source_lost=0),)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"max_lag": 1.0},
        {"batches": (batch(12),)},
        {"batches": (batch(12),), "decision": Hold("at the maximum", pinned=True)},
        {"queries": BEHIND, "batches": (batch(5),), "max_lag": 1.0},
        {"queries": AT_THE_TIP, "batches": (batch(5),), "max_lag": 1.0},
        {"queries": BEHIND, "started_at": 1990.0, "max_lag": 1.0},
        {"queries": (), "started_at": 1990.0},
    ],
)
def test_only_a_driver_or_a_query_that_does_not_work_is_an_error(said):
    found = findings(**said)
    assert {check for check, finding in found.items() if finding.urgent is False} == WARNINGS
    assert all(finding.text for finding in found.values())


def test_a_stream_whose_batches_do_not_complete_says_why_it_has_no_ratio():
    found = findings()[Health.BATCHES_COMPLETING]
    assert (found.passed, found.text) == (None, "no batch completed in the last 60 s")
