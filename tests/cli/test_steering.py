"""Steering a stream from the command line: runs of one job, and what they refuse."""

import json

import pytest

from tests.cli.terminal import Terminal, tagged


def entries(terminal: Terminal) -> dict[str, tuple[int | None, int | None, int | None]]:
    of = terminal.world.records["clicks"].steering
    return {key: (each.size, each.minimum, each.maximum) for key, each in of.items()}


def test_a_pin_is_a_tracked_run_and_says_how_it_is_ended(terminal: Terminal) -> None:
    done = terminal.ask("pin", "clicks", "6", "--for", "2h", "--reason", "load test")
    assert done.exit_code == 0, done.output
    run = terminal.run()
    assert run.is_success and tagged(run) == ("steer", "clicks")
    assert run.run_config["ops"]["steer"]["config"] == {
        "stream": "clicks",
        "action": "pin",
        "size": 6,
        "lasts": "2h",
        "reason": "load test",
    }
    said = f"pinned to 6 by steer run {run.run_id[:8]} until "
    assert said in done.stdout
    assert "(load test); `sparkscale resume clicks pin -f definitions.py` ends it" in done.stdout
    assert entries(terminal) == {"pin": (6, None, None)}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pause", "clicks"), "paused by "),
        (("advise", "clicks"), "advice only, set by "),
        (("freeze", "clicks", "--until", "2999-01-01T12:00"), "until 2999-01-01 12:00 UTC"),
        (("bounds", "clicks", "--min", "2", "--max", "4"), "at least 2 and at most 4 executors"),
    ],
)
def test_each_kind_has_a_command(terminal: Terminal, words: tuple[str, ...], said: str) -> None:
    done = terminal.ask(*words)
    assert done.exit_code == 0, done.output
    assert said in done.stdout
    assert list(entries(terminal)) == [words[0]]


def test_resume_ends_all_or_one_and_says_what(terminal: Terminal) -> None:
    terminal.ask("pin", "clicks", "6")
    terminal.ask("freeze", "clicks")
    done = terminal.ask("resume", "clicks", "freeze")
    assert "ended: frozen by " in done.stdout and "still in force: pinned to 6" in done.stdout
    done = terminal.ask("resume", "clicks")
    assert "ended: pinned to 6 by " in done.stdout and "still" not in done.stdout
    assert "nothing to resume" in terminal.ask("resume", "clicks").stdout


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ("pin", "clicks", "40"),
            "size = 40: must be at most 10, as many as a driver of",
        ),
        (("pin", "clicks", "0"), "size = 0: must be at least 1, the fewest that 'clicks' can"),
        (("bounds", "clicks"), "minimum and maximum: neither given; give one of them, or both"),
        (("pause", "clicks", "--for", "1h", "--until", "9:00"), "lasts and until: both given"),
    ],
)
def test_what_can_t_be_is_refused_and_changes_nothing(
    terminal: Terminal, words: tuple[str, ...], why: str
) -> None:
    done = terminal.ask(*words)
    assert done.exit_code == 1
    assert f"Error: {why}" in done.stderr
    assert entries(terminal) == {}


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--for", "ever", "must be seconds or a duration"),
        ("--for", "0", "must be above 0"),
        ("--for", "99999999999d", "at most 3650 d"),
        ("--until", "25:00", "must be a time of day"),
        ("--until", "2020-01-01", "is over; must be a time to come"),
    ],
)
def test_an_end_that_is_none_is_not_understood_and_makes_no_run(
    terminal: Terminal, option: str, value: str, why: str
) -> None:
    done = terminal.ask("pause", "clicks", option, value)
    assert done.exit_code == 2
    assert option in done.stderr and repr(value) in done.stderr and why in done.stderr
    assert terminal.runs() == [] and entries(terminal) == {}


def test_a_scale_pins_and_says_so(terminal: Terminal) -> None:
    done = terminal.ask("scale", "clicks", "5", "--reason", "newsletter at nine")
    run = terminal.run()
    assert f"pinned to 5 by rescale run {run.run_id[:8]} until " in done.stdout
    assert (
        "(newsletter at nine); `sparkscale resume clicks pin -f definitions.py` ends it"
        in done.stdout
    )
    assert entries(terminal) == {"pin": (5, None, None)}


def test_the_status_says_what_steers_a_stream(terminal: Terminal) -> None:
    terminal.ask("pin", "clicks", "2", "--reason", "load test")
    shown = terminal.ask("status", "--once").stdout
    assert "pinned to 2 by steer run" in shown
    (clicks,) = (
        row
        for row in json.loads(terminal.ask("status", "--json").stdout)
        if row["stream"] == "clicks"
    )
    (line,) = clicks["steering"]
    assert line.startswith("pinned to 2 by steer run") and line.endswith("(load test)")
