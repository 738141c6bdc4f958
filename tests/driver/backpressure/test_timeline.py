"""Which limit was in force while a batch was taken."""

from dagster_sparkscale.driver.backpressure.timeline import KEPT, Timeline


def timeline(*changes, first=None):
    made = Timeline(first)
    for at, rate in changes:
        made.tell(at, rate)
    return made


def test_it_is_the_highest_of_those_that_overlap():
    made = timeline((10, 500.0), (20, 300.0), (30, 400.0), first=100.0)
    assert made.last == 400
    assert made.highest(0, 9) == 100
    assert made.highest(5, 15) == 500
    assert made.highest(21, 29) == 300
    assert made.highest(21, 30) == 400, "it may have been in force for its last moment"
    assert made.highest(20, 25) == 500, "and for its first one"
    assert made.highest(50, 60) == 400


def test_where_there_was_none_for_a_part_of_it_there_was_none():
    made = timeline((10, 500.0), (20, None), (30, 400.0))
    assert made.highest(5, 15) is None
    assert made.highest(15, 25) is None
    assert made.highest(11, 19) == 500
    assert made.highest(31, 40) == 400


def test_what_is_told_again_is_no_change():
    made = timeline((10, 500.0), (20, 500.0), first=500.0)
    assert made.highest(0, 100) == 500


def test_what_was_long_ago_is_not_known_any_more():
    made = timeline(*((float(at), float(at)) for at in range(1, KEPT + 10)))
    assert made.highest(5, 8) is None
    assert made.highest(KEPT, KEPT + 5) == KEPT + 5
