"""The load of the demo: when it is how high, and that no record is lost to rounding."""

import pytest

from demo.shape import PHASES, Pacer, Phase, Shape

UP_AND_DOWN = Shape(
    [
        Phase("low", level=0.2, ramp=0, hold=10),
        Phase("up", level=1.0, ramp=20, hold=30),
        Phase("down", level=0.0, ramp=10, hold=5),
    ]
)


@pytest.mark.parametrize(
    ("seconds", "level"),
    [(0, 0.2), (9.9, 0.2), (20, 0.6), (30, 1.0), (59, 1.0), (65, 0.5), (70, 0.0), (74, 0.0)],
)
def test_the_level_moves_in_straight_lines(seconds, level):
    assert UP_AND_DOWN.level(seconds) == pytest.approx(level)


@pytest.mark.parametrize(
    ("seconds", "phase"),
    [(0, "low"), (10, "up"), (59.9, "up"), (60, "down"), (74, "down"), (75, "low"), (160, "up")],
)
def test_phases_follow_each_other_and_begin_again(seconds, phase):
    assert UP_AND_DOWN.phase(seconds) == phase


def test_after_a_period_the_load_is_the_same_again():
    assert UP_AND_DOWN.period == 75
    assert UP_AND_DOWN.level(20 + 3 * 75) == pytest.approx(0.6)


def test_the_demo_rises_to_what_needs_three_times_as_much_and_falls_below_the_calm_load():
    levels = {phase.name: phase.level for phase in PHASES}
    assert levels["high"] >= 3 * levels["calm"]
    assert levels["quiet"] < levels["calm"]
    # Scaling up and down must fit into the few minutes somebody watches.
    assert Shape().period <= 240


@pytest.mark.parametrize(
    "phases",
    [[], [Phase("none", level=1, ramp=0, hold=0)], [Phase("back", level=1, ramp=-1, hold=5)]],
)
def test_a_shape_that_makes_no_sense_is_refused(phases):
    with pytest.raises(ValueError, match="phases"):
        Shape(phases)


def test_a_pacer_owes_nothing_in_the_long_run():
    pacer = Pacer()
    assert sum(pacer.due(rate=3.3, seconds=0.1) for _ in range(1000)) == 330


def test_a_pacer_sends_nothing_before_a_whole_record_is_due():
    pacer = Pacer()
    assert [pacer.due(rate=1, seconds=0.4) for _ in range(5)] == [0, 0, 1, 0, 1]
