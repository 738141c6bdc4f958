"""Limits are retuned from the command line."""

import dagster as dg
import pytest

from dagster_sparkscale.lifecycle import trial
from tests.backpressure.retuning import JOB, KNOB, SETTING, past
from tests.cli.terminal import Terminal, tagged
from tests.observe.stored import store


@pytest.fixture
def reading(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A stream that runs with a limit which is far too high for its history."""
    monkeypatch.setattr(trial, "_POLL", 0)
    terminal.declare('read_once(name="words")')
    terminal.world.on_submit = lambda kept: setattr(kept, "batch_seconds", 1.0)
    assert terminal.ask("start", "words").exit_code == 0
    with dg.DagsterInstance.get() as instance:
        store(instance, dg.AssetKey("words"), past())
    return terminal


def told(terminal: Terminal) -> dict:
    (config,) = terminal.runs()[0].run_config["ops"].values()
    return config["config"]


@pytest.mark.parametrize("flags", [(), ("--dry-run",)])
def test_it_only_says_what_it_would_change(reading: Terminal, flags: tuple[str, ...]) -> None:
    done = reading.ask("retune", "words", *flags)
    assert done.exit_code == 0, done.output
    assert f"would change {KNOB} from 62,000 to 9,000, by a restart; nothing was" in done.stdout
    assert f"{KNOB}: 62,000 -> 9,000: an executor does 500 records/s or more" in done.stdout
    assert reading.kept("words").driver.epoch == 1
    assert told(reading)["dry_run"] is True


def test_it_is_a_tracked_run_that_applies_it_and_puts_it_back(reading: Terminal) -> None:
    done = reading.ask("retune", "words", "--apply", "--reason", "it grew")
    assert done.exit_code == 0, done.output
    assert f"changed {KNOB} from 62,000 to 9,000: restarted" in done.stdout
    assert reading.kept("words").settings == {SETTING: "9000"}
    assert tagged(reading.runs()[0]) == (JOB, "words")
    assert told(reading) == {"stream": "words", "reason": "it grew"}
    done = reading.ask("retune", "words", "--put-back")
    assert f"put back {KNOB} from 9,000 to 62,000: restarted" in done.stdout
    assert reading.kept("words").settings == {}


def test_limits_are_set(reading: Terminal) -> None:
    done = reading.ask("retune", "words", "--set", f"{KNOB}=20000")
    assert done.exit_code == 0, done.output
    assert reading.kept("words").settings == {SETTING: "20000"}
    done = reading.ask("retune", "words", "--dry-run", "--set", f"{KNOB} = 30000")
    assert f"would change {KNOB} from 20,000 to 30,000" in done.stdout
    done = reading.ask("retune", "words", "--set", "wrods.x=1")
    assert done.exit_code == 1
    assert "Error: wrods.x: 'words' has no such limit; it has clicks.max" in done.stderr


@pytest.mark.parametrize("given", ["20000", f"{KNOB}=", f"{KNOB}=many", "=5"])
def test_what_is_no_value_is_not_understood(reading: Terminal, given: str) -> None:
    done = reading.ask("retune", "words", "--set", given)
    assert done.exit_code == 2
    assert "must be NAME=NUMBER, such as clicks.maxOffsetsPerTrigger=20000" in done.stderr


@pytest.mark.parametrize(
    "flags",
    [
        ("--apply", "--put-back"),
        ("--apply", "--set", f"{KNOB}=5"),
        ("--dry-run", "--apply"),
        ("--dry-run", "--put-back"),
    ],
)
def test_what_contradicts_itself_is_not_understood(
    reading: Terminal, flags: tuple[str, ...]
) -> None:
    done = reading.ask("retune", "words", *flags)
    assert done.exit_code == 2
    assert "give one of them" in done.stderr
    assert len(reading.runs()) == 1, "the start"
