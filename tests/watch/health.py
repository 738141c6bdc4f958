"""Health checks of a stream that one look has found so, and so."""

from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.capability import Situation
from dagster_sparkscale.declare.decisions import Hold
from dagster_sparkscale.observe.evaluate import evaluate
from dagster_sparkscale.watch.health import check_health
from dagster_sparkscale.watch.sighting import Sighting
from tests.fakes import driver, status, structured

HOLD = Hold("in between")
STUCK = "no batch completes: the one in progress has run for 90 s (its batch interval is 10 s)"
NOW = 2000.0


def examined(sighting, seen, *args, **options):
    """The findings, with what capabilities have found."""
    found = Situation(structured(), NOW, sighting.driver, sighting.status, seen)
    busy, faults = CAPABILITIES.busy(sighting.status), CAPABILITIES.faults(found)
    return check_health(sighting, seen, *args, busy=busy, faults=faults, **options)


def findings(decision=HOLD, sighted: dict | None = None, max_lag=None, operation=None, **fields):
    """The findings on a running driver whose agent says this."""
    report = status(**fields)
    sighting = Sighting("clicks", **{"driver": driver(), "status": report} | (sighted or {}))
    seen = evaluate(report, window=60.0, batch_interval=10.0)
    return examined(sighting, seen, decision, max_lag, now=NOW, operation=operation)


def unseen(**sighted):
    """The findings where no agent answered."""
    return examined(Sighting("clicks", **sighted), None, HOLD, now=NOW)
