"""What is told of a driver, from what was found of it and what was wished for it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.fate import Fate, Observed, driver_of
from dagster_sparkscale.clusters.records.store import Desired, DurableHold, Record, Submission
from dagster_sparkscale.driver.ending.end_report import Stopped, StoppedQuery

RECORD = Record("id", 3, "running", 100.0, "here", (Submission(3, 90.0, "manual"),))
FAILED = Fate(DriverState.FAILED, ended_at=120.0, reason="exit code 1", how="exit code")
CLEAN = Stopped(119.0, True, True, (StoppedQuery("rate", True, 7),))
CUT = Stopped(119.0, True, False, (StoppedQuery("rate", False, 7),))


def wished(desired: Desired, since: float = 100.0) -> Record:
    return replace(RECORD, desired=desired, desired_since=since)


def test_what_was_found_is_told_as_it_is() -> None:
    seen = Observed(Fate(DriverState.RUNNING), "pod a", "http://a", "app-1", "http://ui")
    driver = driver_of("clicks", RECORD, seen)
    assert (driver.stream, driver.epoch, driver.state) == ("clicks", 3, DriverState.RUNNING)
    assert (driver.where, driver.agent_url, driver.app_id) == ("pod a", "http://a", "app-1")
    assert (driver.ui_url, driver.submitted_at, driver.fenced) == ("http://ui", 90.0, False)


@pytest.mark.parametrize(
    ("desired", "since", "state", "reason"),
    [
        ("running", 100.0, DriverState.FAILED, "exit code 1"),
        ("stopped", 100.0, DriverState.STOPPED, "stop requested"),
        ("stopped", 130.0, DriverState.STOPPED, "exit code 1, before it was asked to stop"),
        (
            "restarting",
            100.0,
            DriverState.FAILED,
            "exit code 1, and the restart that stopped it was not completed",
        ),
    ],
)
def test_an_end_is_told_by_what_was_wished(
    desired: Desired, since: float, state: DriverState, reason: str
) -> None:
    driver = driver_of("clicks", wished(desired, since), Observed(FAILED))
    assert (driver.state, driver.exit_reason, driver.ended_at) == (state, reason, 120.0)


def test_what_was_cut_is_told_of_a_stop() -> None:
    driver = driver_of("clicks", wished("stopped"), Observed(FAILED, stopped=CUT))
    assert driver.exit_reason == f"stop requested; {CUT.in_words()}"
    assert (driver.ending, driver.drained) == (CUT.in_words(), False)
    clean = driver_of("clicks", wished("stopped"), Observed(FAILED, stopped=CLEAN))
    assert (clean.exit_reason, clean.ending) == ("stop requested", CLEAN.in_words())
    assert clean.drained is True
    assert driver_of("clicks", wished("stopped"), Observed(FAILED)).drained is None


def test_who_obeyed_was_asked_before_it_ended_whatever_its_clock_says() -> None:
    late = wished("stopped", since=130.0)
    obeyed = driver_of("clicks", late, Observed(FAILED, stopped=CLEAN))
    assert obeyed.exit_reason == "stop requested"
    told = replace(CLEAN, sigterm=True)
    assert driver_of("clicks", late, Observed(FAILED, stopped=told)).exit_reason == (
        "ended by SIGTERM, before it was asked to stop"
    )


def test_a_sigterm_that_nobody_here_sent_is_told() -> None:
    told = replace(CLEAN, sigterm=True)
    killed = driver_of("clicks", RECORD, Observed(FAILED, stopped=told))
    assert killed.exit_reason == "ended by SIGTERM"
    who = "evicted: The node was low on resource: memory"
    evicted = Fate(DriverState.FAILED, ended_at=120.0, reason=who)
    found = driver_of("clicks", RECORD, Observed(evicted, stopped=told))
    assert found.exit_reason == f"{who}; ended by SIGTERM"


def test_a_driver_that_was_kept_from_its_checkpoint_says_why() -> None:
    driver = driver_of("clicks", RECORD, Observed(FAILED, fenced="driver 2 of 'x' has it"))
    assert (driver.fenced, driver.exit_reason) == (True, "driver 2 of 'x' has it")


def test_what_is_remembered_of_the_stream_is_told_along() -> None:
    hold = DurableHold("somebody", "a move", "finish it", 80.0)
    again = Submission(3, 90.0, "recovery")
    record = replace(RECORD, declared={"cores": "2"}, hold=hold, history=(again,))
    driver = driver_of("clicks", record, Observed(FAILED))
    assert (driver.declared, driver.hold, driver.restarted_at) == ({"cores": "2"}, hold, (90.0,))


def test_of_an_end_that_nobody_saw_it_is_told_when_it_was_last_heard_of() -> None:
    fate = Fate(DriverState.FAILED, reason="ended", heard_of_at=95.0)
    assert driver_of("clicks", RECORD, Observed(fate)).ended_at == 95.0


@given(
    st.sampled_from(["running", "stopped", "restarting"]),
    st.sampled_from([DriverState.STARTING, DriverState.RUNNING, DriverState.UNKNOWN]),
    st.sampled_from([None, CLEAN, CUT]),
    st.sampled_from([None, "lost"]),
)
def test_no_wish_and_no_old_word_makes_an_end_of_what_may_run(
    desired: Desired, state: DriverState, stopped: Stopped | None, fenced: str | None
) -> None:
    seen = Observed(Fate(state), stopped=stopped, fenced=fenced)
    driver = driver_of("clicks", wished(desired), seen)
    assert (driver.state, driver.fenced, driver.ending) == (state, False, None)
