import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.records.starts import ATTEMPT
from dagster_sparkscale.clusters.records.store import Submission
from dagster_sparkscale.declare.decisions import Hold
from dagster_sparkscale.declare.policies import RecoveryPolicy
from dagster_sparkscale.lifecycle.recovery import Restart, recover
from tests.fakes import driver

POLICY = RecoveryPolicy(first_delay=10, longest_delay=60, limit=4, within=3600)


def failed(at: float = 1000.0, epoch: int = 1, **fields) -> Driver:
    return driver(
        DriverState.FAILED, epoch, **{"ended_at": at, "exit_reason": "exit code 1"} | fields
    )


def waits(outcome) -> bool:
    return isinstance(outcome, Hold) and not gives_up(outcome)


def gives_up(outcome) -> bool:
    return isinstance(outcome, Hold) and outcome.gave_up


def restarts(*at: float) -> list[Submission]:
    """A start by hand long ago, and restarts after failures at these times."""
    return [
        Submission(1, 0.0, "manual"),
        *(Submission(number + 2, time, "recovery") for number, time in enumerate(at)),
    ]


def test_the_first_restart_is_due_after_the_first_delay():
    assert recover(POLICY, failed(), restarts(), now=1009.9) == Hold(
        "driver 1 failed (exit code 1); restart 1 of 4 at 00:16:50 UTC"
    )
    assert recover(POLICY, failed(), restarts(), now=1010.0) == Restart(
        1, "driver 1 failed (exit code 1); restart 1 of 4"
    )


@pytest.mark.parametrize(("restarted", "pause"), [(0, 10), (1, 20), (2, 40), (3, 60)])
def test_pauses_double_up_to_the_longest(restarted, pause):
    history = restarts(*(900.0 + n for n in range(restarted)))
    early = recover(POLICY, failed(), history, now=1000 + pause - 1)
    due = recover(POLICY, failed(), history, now=1000 + pause)
    assert waits(early)
    assert due == Restart(restarted + 1, due.reason)


def test_after_the_limit_the_stream_is_left_for_a_person():
    history = restarts(900, 920, 940, 960)
    outcome = recover(POLICY, failed(), history, now=1e6 - 1e6 + 4000)
    assert gives_up(outcome)
    assert outcome.reason == (
        "driver 1 failed (exit code 1) after 4 restarts within 3600 s: giving up; "
        "mend it and materialize the stream to start it again"
    )


def test_restarts_of_long_ago_do_not_count():
    history = restarts(100, 200, 300, 900)
    # At 4200 only that of 900 is less than an hour old.
    assert recover(POLICY, failed(4180), history, now=4200).attempt == 2
    assert gives_up(recover(POLICY, failed(3690), history, now=3699))
    assert recover(POLICY, failed(3710), history, now=3770).attempt == 4


def test_once_given_up_it_stays_given_up():
    history = restarts(900, 920, 940, 960)
    for days in range(60):
        assert gives_up(recover(POLICY, failed(), history, now=1000 + days * 86_400.0))


def test_who_ran_well_for_long_after_its_restarts_is_restarted_again():
    history = restarts(900, 920, 940)
    assert recover(POLICY, failed(30 * 86_400.0), history, now=31 * 86_400.0).attempt == 1


def attempts(*at: float) -> list[Submission]:
    """Restarts that were begun at these times and never came to a launch."""
    return [Submission(1, 0.0, "manual"), *(Submission(1, time, ATTEMPT) for time in at)]


def test_a_restart_that_never_comes_to_a_launch_counts_and_makes_the_next_wait():
    assert recover(POLICY, failed(), attempts(1010), now=1029) == Hold(
        "driver 1 failed (exit code 1); restart 2 of 4 at 00:17:10 UTC"
    )
    assert recover(POLICY, failed(), attempts(1010), now=1030).attempt == 2
    assert gives_up(recover(POLICY, failed(), attempts(1010, 1030, 1070, 1130), now=1e9))


def test_what_the_last_restart_was_refused_with_is_said_while_it_is_the_last():
    because = "; the last restart was refused: no master"
    history = [*attempts(1010), Submission(1, 1030, ATTEMPT, "no master")]
    outcomes = [recover(POLICY, failed(), history, now=now) for now in (1069, 1070)]
    assert [str(outcome) for outcome in outcomes] == ["hold", "restart"]
    assert all(
        outcome.reason.endswith(f"3 of 4{wait}{because}")
        for outcome, wait in zip(outcomes, (" at 00:17:50 UTC", ""), strict=True)
    )
    given_up = recover(RecoveryPolicy(limit=2), failed(), history, now=1070)
    assert gives_up(given_up) and given_up.reason.endswith(because)
    later = [*history, Submission(1, 1070, ATTEMPT)]
    assert "refused" not in recover(POLICY, failed(), later, now=1071).reason


def test_a_clock_that_is_set_back_makes_nobody_wait_for_it():
    eight_hours = 8 * 3600.0
    outcome = recover(POLICY, failed(1e6), restarts(1e6 - 50), now=1e6 - eight_hours)
    assert isinstance(outcome, Restart)


def test_a_start_by_hand_begins_anew():
    history = [*restarts(900, 920, 940, 960), Submission(6, 980, "manual")]
    assert recover(POLICY, failed(), history, now=1010) == Restart(
        1, "driver 1 failed (exit code 1); restart 1 of 4"
    )


def test_a_declaration_may_say_not_to_restart():
    outcome = recover(None, failed(), restarts(), now=1e9)
    text = "driver 1 failed (exit code 1); its declaration says not to restart it"
    assert outcome == Hold(text, gave_up=True)


def test_a_driver_that_another_keeps_from_its_checkpoint_is_left_for_a_person():
    outcome = recover(POLICY, failed(fenced=True, exit_reason="taken"), restarts(), now=1e9)
    text = "driver 1 failed (taken); materialize the stream once that is settled"
    assert outcome == Hold(text, gave_up=True)


def test_a_driver_whose_end_was_not_seen_counts_from_its_start():
    gone = failed(submitted_at=1000.0, ended_at=None, exit_reason=None)
    assert waits(recover(POLICY, gone, restarts(), now=1009))
    outcome = recover(POLICY, gone, restarts(), now=1010)
    assert isinstance(outcome, Restart)
    assert "(reason unknown)" in outcome.reason


def test_without_any_history_it_is_the_first_restart():
    assert recover(POLICY, failed(), [], now=2000).attempt == 1


delays = st.floats(0.001, 1e5)
recovery_policies = st.builds(
    lambda first, more, limit, within: RecoveryPolicy(
        first_delay=first,
        longest_delay=first + more,
        limit=limit,
        within=within + limit * (first + more),
    ),
    delays,
    delays,
    st.integers(1, 20),
    delays,
)
histories = st.lists(
    st.tuples(st.floats(0, 1e5), st.sampled_from(["manual", "recovery"])), max_size=50
).map(lambda starts: [Submission(n + 1, at, cause) for n, (at, cause) in enumerate(sorted(starts))])


@given(recovery_policies, histories, st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_restart_is_never_before_its_time_nor_after_the_longest_pause(
    policy, history, ended_at, now
):
    outcome = recover(policy, failed(ended_at), history, now)
    assert outcome.reason
    waited = now - ended_at
    if isinstance(outcome, Restart):
        assert now >= ended_at + policy.first_delay or now < ended_at
        assert 1 <= outcome.attempt <= policy.limit
    if waits(outcome):
        assert waited < policy.longest_delay + 1e-6


@given(
    policy=recovery_policies,
    lives=st.lists(st.floats(0, 1.5), min_size=1, max_size=60),
    pause=st.floats(0.1, 1),
)
def test_in_a_crash_loop_no_window_sees_more_restarts_than_the_limit(policy, lives, pause):
    history = [Submission(1, 0.0, "manual")]
    now, restarted = 0.0, []
    tick = policy.longest_delay * pause
    for life in lives:
        ended_at = now + life * policy.within
        now = ended_at
        outcome = recover(policy, failed(ended_at), history, now)
        while waits(outcome):
            now += tick
            outcome = recover(policy, failed(ended_at), history, now)
        if gives_up(outcome):
            break
        restarted.append(now)
        # A cluster manager need not remember more than twenty.
        history = [*history, Submission(len(history) + 1, now, "recovery")][-20:]
    for time in restarted:
        in_window = [t for t in restarted if time - policy.within < t <= time]
        assert len(in_window) <= policy.limit
