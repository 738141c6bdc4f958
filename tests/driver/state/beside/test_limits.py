"""Whether a change is made beside the stream: each case in which it is not, and why."""

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.state.beside import limits
from dagster_sparkscale.driver.state.beside.limits import FILES, KAFKA, BadLimits, Limits, Source

ASKED = Limits(rows=500_000, replay=False, within=900.0)


def test_a_request_is_read_as_it_was_asked():
    asked = {"rows": 500_000, "replay": False, "within": 900}
    assert limits.limits_of(asked) == ASKED
    assert limits.limits_of(None) is None
    assert limits.limits_of({**asked, "busiest": 2}) == Limits(500_000, False, 900.0, 2.0)
    more = {**asked, "executors": 3}
    assert limits.limits_of(more) == Limits(500_000, False, 900.0, executors=3)
    assert limits.limits_of(asdict(Limits(1, True, 2.0, 3.0))) == Limits(1, True, 2.0, 3.0)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        *[({"rows": each}, "rows") for each in (None, -1, 1.5, True, "1")],
        *[({"replay": each}, "replay") for each in (None, 1, "yes")],
        *[
            ({"within": each}, "within")
            for each in (None, 0, float("inf"), float("nan"), True, 10**400)
        ],
        *[({"busiest": each}, "busiest") for each in (0, "1", float("inf"), 10**400)],
        *[({"executors": each}, "executors") for each in (0, -1, 1.5, True, "2", 10_001)],
        *[({"had": each}, "had") for each in (-1, 1.5, True, "2", 10_001)],
    ],
)
def test_what_is_none_is_refused_by_its_field(more, field):
    asked = {"rows": 1, "replay": False, "within": 900.0, **more}
    with pytest.raises(BadLimits, match=rf"^beside\.{field} = "):
        limits.limits_of(asked)


@pytest.mark.parametrize("kind", [FILES, KAFKA])
def test_files_and_kafka_are_read_again(kind):
    assert limits.why_not_read_again([Source(kind), Source(FILES)]) is None


@pytest.mark.parametrize("kind", ["socket", "rate", "rate-micro-batch", "kinesis", "delta"])
def test_other_sources_are_not(kind):
    why = limits.why_not_read_again([Source(FILES), Source(kind)])
    assert why == (
        f"it reads from '{kind}', of which it is not known that a batch can be read again; of "
        "files and Kafka it is"
    )


def test_nor_files_that_are_gone_once_they_are_read():
    why = limits.why_not_read_again([Source(FILES, cleans=True)])
    assert why == "its source deletes or moves files once they are read (cleanSource)"
    assert limits.why_not_read_again([]) == "its sources are not known"


@pytest.mark.parametrize(
    "operators",
    [
        ("stateStoreSave",),
        ("stateStoreSave", "dedupe"),
        ("symmetricHashJoin",),
        ("dedupeWithinWatermark", "sessionWindowStateStoreSaveExec"),
    ],
)
def test_operators_of_spark_alone_are_replayed(operators):
    assert limits.why_not_replayed(operators, replay=False) is None


@pytest.mark.parametrize(
    "own",
    ["applyInPandasWithState", "transformWithStateInPandasExec", "transformWithStateInPySparkExec"],
)
def test_functions_of_the_program_are_called_again_only_where_that_is_declared(own):
    why = limits.why_not_replayed(["stateStoreSave", own], replay=False)
    assert why == (
        f"its program's own state functions ({own}) would be called a second time with the same "
        "rows: State(replay=True) allows that"
    )
    assert limits.why_not_replayed(["stateStoreSave", own], replay=True) is None


@pytest.mark.parametrize("replay", [True, False])
def test_what_was_not_tried_is_not_replayed(replay):
    why = limits.why_not_replayed(["flatMapGroupsWithState"], replay)
    assert why == "it was not tried for operators such as flatMapGroupsWithState"


@pytest.mark.parametrize(
    ("format", "retained", "why"),
    [
        ("2", 100, "kept in format 2 of state stores, which gives versions ids"),
        ("1", 9, "only 9 batches are retained (spark.sql.streaming.minBatchesToRetain)"),
    ],
)
def test_what_can_t_be_copied(format, retained, why):
    assert why in (limits.why_not_stored(format, retained) or "")
    assert limits.why_not_stored("1", 10) is None


def test_little_state_is_changed_in_place():
    why = limits.why_not_worth(499_999, ASKED)
    assert why == "its 499,999 rows are fewer than 500,000: in place takes less in all"
    assert limits.why_not_worth(500_000, ASKED) is None


@pytest.mark.parametrize(
    ("processing", "interval", "why"),
    [
        ([1.0], 0.0, "its batches follow each other without a pause, and the copy would never"),
        ([], 10.0, "how long its batches take is not known yet"),
        ([7.0, 7.2], 10.0, "its batches take 0.71 of their interval: above 0.7 there is nothing"),
    ],
)
def test_a_stream_with_nothing_to_spare_has_no_copy_beside_it(processing, interval, why):
    assert (limits.why_too_busy(processing, interval) or "").startswith(why)


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(0.1, 100))
def test_it_has_something_to_spare_by_the_mean_of_its_batches(processing, interval):
    busy = sum(processing) / len(processing) / interval > 0.7
    assert (limits.why_too_busy(processing, interval) is not None) == busy


@pytest.mark.parametrize(
    ("operators", "watermarked", "any_number"),
    [
        (("stateStoreSave",), False, True),
        (("stateStoreSave", "dedupe"), False, True),
        (("stateStoreSave",), True, False),
        (("symmetricHashJoin",), False, False),
        (("dedupeWithinWatermark",), False, False),
        (("applyInPandasWithState",), False, False),
    ],
)
def test_batches_are_replayed_as_one_where_that_comes_to_the_same(
    operators, watermarked, any_number
):
    assert limits.takes_any_number(operators, watermarked) == any_number


def test_a_copy_that_does_not_catch_up_is_given_up():
    assert limits.why_never([*range(34, 4, -1)], 899.0, 900.0) is None
    assert limits.why_never([*range(45, 4, -1)], 1.0, 900.0) == (
        "its copy has not caught up by 40 replays: 5 batches are left"
    )
    assert limits.why_never([5], 901.0, 900.0) == (
        "its copy has not caught up in 900 s: 5 batches are left"
    )


@pytest.mark.parametrize(
    ("left", "why"),
    [
        ([9, *[8] * 9], None),  # nine replays do not tell
        ([9, *[8] * 10], "too slowly: 8 batches are left, and 9 were 10 replays ago"),
        ([5] * 11, "too slowly: 5 batches are left, and 5 were 10 replays ago"),
        ([5, *[6] * 10], "too slowly: 6 batches are left, and 5 were 10 replays ago"),
        ([9, 9, 9, 8, 8, 8, 7, 7, 7, 7, 6], None),  # 5 more take 17 replays, and there are 30
        ([2, *[1] * 10], None),
        ([20, 20, *range(20, 10, -1)], None),
        ([*[5] * 24, 4, 3], None),  # 2 more take 10 replays, and there are 15
    ],
)
def test_one_that_would_not_have_by_the_last_replay_is_given_up_at_once(left, why):
    assert (limits.why_never(left, 1.0, 900.0) or "None").endswith(str(why))


@pytest.mark.parametrize(
    ("copying", "rewriting", "shorter"),
    [(29.0, 1.0, True), (60.0, 60.0, True), (61.0, 60.0, False), (31.0, 5.0, False)],
)
def test_copying_is_worth_it_where_it_takes_no_longer_than_rewriting(copying, rewriting, shorter):
    why = limits.why_no_shorter(copying, rewriting)
    assert (why is None) == shorter
    assert shorter or f"take {copying:.0f} s, and to rewrite them took {rewriting:.0f} s" in (
        why or ""
    )


@pytest.mark.parametrize(
    ("free", "times", "room"),
    [(None, 3, True), (5, 3, False), (6, 3, True), (4, 2, True), (0, 1, False), (0, 0, True)],
)
def test_room_is_asked_for_as_often_as_it_is_taken(free, times, room):
    assert (limits.why_no_room(2, free, times) is None) == room
