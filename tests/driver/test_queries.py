"""Events of Structured Streaming queries, as Spark 4.3 posts them, and what is made of them."""

from dataclasses import replace
from types import SimpleNamespace

from dagster_sparkscale.driver.batches.queries import ENDED_KEPT, MOST_DOING
from dagster_sparkscale.driver.spark.jvm import Lifetime
from dagster_sparkscale.driver.wire import Batch
from tests.driver.told import SECOND, T0, Told, stamp


def test_a_batch_says_when_it_completed_and_what_it_took() -> None:
    told = Told()
    told.started()
    told.batch(3, 1.5, number=4, rows=60)
    assert told.batches == [
        Batch("q", T0 / 1000 + 4.5, 1500, scheduling_ms=0, records=60, batch_id=4, cold=True)
    ]


def test_spark_3_5_tells_how_long_a_batch_took_in_one_place_only() -> None:
    told = Told()
    told.started()
    progress = {
        "runId": "run",
        "timestamp": stamp(3),
        "batchId": 4,
        "numInputRows": 60,
        "sources": [],
    }
    told.queries.progressed({"progress": {**progress, "durationMs": {"triggerExecution": 1500}}})
    assert [batch.processing_ms for batch in told.batches] == [1500]
    # Where it is not told at all, it is not known: no batch that took no time.
    told.queries.progressed({"progress": {**progress, "durationMs": {}}})
    assert len(told.batches) == 1


def test_the_first_batch_with_data_is_told_apart() -> None:
    told = Told()
    told.started()
    told.idle(0.1)
    told.batch(3, 0.2, rows=0)
    assert told.queries.listed({})[0].cold
    told.batch(6, 2)
    told.batch(9, 1)
    assert [batch.cold for batch in told.batches if batch.records] == [True, False]
    assert not told.queries.listed({})[0].cold
    # Stopped and started again by the program, it finds its code there.
    told.died(20, None)
    assert not told.queries.listed({})[0].cold
    told.started(30, run="run")
    assert not told.queries.listed({})[0].cold


def test_the_batch_after_one_that_overran_was_scheduled_late() -> None:
    told = Told()
    told.started()
    told.batch(0, 5)
    told.batch(5, 1)
    told.batch(6, 1)
    assert [batch.scheduling_ms for batch in told.batches] == [0, 2000, 0]


def test_an_idle_query_has_one_event_for_several_triggers() -> None:
    told = Told()
    told.started(0)
    told.batch(0, 1)
    told.idle(12)  # at 3, 6, 9 and 12 there was nothing
    assert told.empty_triggers == 4
    told.idle(24)  # 15, 18, 21, 24
    assert told.empty_triggers == 8
    assert told.batches[-1] == Batch("q", T0 / 1000 + 24, 0, 0, 0, triggers=4)


def test_the_first_trigger_may_find_nothing() -> None:
    told = Told()
    told.started(0)
    told.idle(0.1)
    assert told.empty_triggers == 1


def test_empty_triggers_between_batches_are_counted_though_spark_does_not_tell() -> None:
    told = Told()
    told.started(0)
    told.batch(0, 2.9, number=0)
    told.batch(9, 2.9, number=1)  # 3 and 6 found nothing; R is 0.32 and not 0.97
    assert told.empty_triggers == 2
    told.batch(12, 2.9, number=2)
    assert told.empty_triggers == 2


def test_no_empty_trigger_is_made_up_while_a_query_is_behind() -> None:
    told = Told()
    told.started(0)
    for number in range(5):
        told.batch(7 * number, 7, number=number)
    assert told.empty_triggers == 0


def test_the_triggers_own_interval_goes_before_the_declared_one() -> None:
    told = Told(interval_ms=60 * SECOND)
    told.started()
    told.queries.note("run", kind="processing time", interval_ms=1 * SECOND)
    told.batch(0, 0.5)
    told.idle(10)
    assert told.empty_triggers == 10
    [query] = told.queries.listed({})
    assert (query.interval_ms, query.trigger) == (1000, "processing time")


def test_a_query_that_dies_reports_its_batch_as_failed() -> None:
    told = Told()
    told.started()
    told.batch(0, 1, number=8)
    told.died(5, "org.apache.spark.SparkException: Job aborted\n\tat Some.frame(Some.scala:1)")
    [query] = told.queries.listed({"run": None})
    assert (query.active, query.error) == (
        False,
        "org.apache.spark.SparkException: Job aborted",
    )
    assert query.running_ms is None
    failed = told.batches[-1]
    assert (failed.failed, failed.batch_id, failed.records) == (True, 9, None)
    assert failed.processing_ms == 2000  # the trigger at 3 is the one it died in


def test_a_query_that_is_stopped_has_no_error() -> None:
    told = Told()
    told.started()
    told.batch(0, 1)
    told.died(5, None)
    [query] = told.queries.listed({})
    assert (query.active, query.error, len(told.batches)) == (False, None, 1)


def test_a_query_that_is_started_again_is_listed_once() -> None:
    told = Told()
    told.started()
    told.died(1, "Boom")
    told.started(2, run="another")
    [query] = told.queries.listed({})
    assert (query.active, query.error) == (True, None)


def test_two_active_queries_of_one_name_are_told_apart() -> None:
    told = Told()
    told.started(run="one")
    told.started(run="two")
    assert [query.name for query in told.queries.listed({})] == ["q", "q id-of-tw"]


def test_a_query_without_a_name_goes_by_its_id() -> None:
    told = Told()
    told.started(name=None)
    assert told.queries.listed({})[0].name == "id-of-run"


def test_ended_queries_are_listed_up_to_a_bound() -> None:
    told = Told()
    for number in range(ENDED_KEPT + 20):
        told.started(run=f"r{number}", name=f"q{number}")
        told.queries.terminated({"runId": f"r{number}", "exception": None})
    assert len(told.queries.listed({})) <= ENDED_KEPT + 1


def test_an_event_of_a_query_that_is_not_known_is_passed_over() -> None:
    told = Told()
    told.batch(0, 1)
    told.idle(1)
    told.died(2, "x")
    assert told.batches == []


def test_the_age_of_the_trigger_in_progress() -> None:
    told = Told()
    told.started(0)
    told.now = 2.0
    assert told.queries.listed({})[0].running_ms is None
    assert told.queries.listed({"run": T0 + 500})[0].running_ms == 1500
    assert told.queries.listed({"run": None})[0].running_ms == 2000
    told.batch(0, 4)  # overran: the next began when it was done
    told.now = 5.0
    assert told.queries.listed({"run": None})[0].running_ms == 1000


def test_a_batch_says_what_the_driver_spent_on_it() -> None:
    told = Told()
    told.started()
    told.batch(0, 1, durationMs={"triggerExecution": 1000, "addBatch": 300})
    told.batch(3, 1)
    assert [batch.planning_ms for batch in told.batches] == [700, None]


def test_a_query_says_when_it_was_heard_of_last() -> None:
    told = Told()

    def heard() -> float:
        [query] = told.queries.listed({})
        assert query.heard_at is not None
        return query.heard_at - T0 / 1000

    told.started(1)
    assert heard() == 1
    told.batch(3, 1.5)
    assert heard() == 4.5
    told.idle(15)
    assert heard() == 15
    told.now = 99
    assert heard() == 15


def test_a_query_ends_with_its_context_alone() -> None:
    """Its last lag and shards would else count for ever."""
    told = Told()
    first, second = (SimpleNamespace(_jsc=object()) for _ in range(2))
    source = {"latestOffset": '{"behind_ms": 9000, "shards": 4, "lost": 2}'}
    told.started(lifetime=Lifetime(first))
    told.batch(0, 1, sources=[source])
    told.started(run="other", name="other", lifetime=Lifetime(second))
    told.queries.end_with_context()
    assert told.queries.active() == ["run", "other"]
    first._jsc = None  # as SparkContext.stop leaves it
    told.queries.end_with_context()
    told.batch(3, 1, number=1, sources=[source])  # the last of its events, which come late
    assert told.queries.active() == ["other"]
    [ended, _] = told.queries.listed({})
    assert (ended.name, ended.active, ended.error) == ("q", False, None)
    assert (ended.behind_ms, ended.source_shards, ended.source_lost) == (None, None, 2)


def test_one_that_is_started_again_in_a_new_context_has_its_name_back() -> None:
    told = Told()
    first, second = (SimpleNamespace(_jsc=object()) for _ in range(2))
    told.started(lifetime=Lifetime(first))
    first._jsc = None
    told.started(at=5, run="again", lifetime=Lifetime(second))
    assert [(each.name, each.active) for each in told.queries.listed({})] == [("q", True)]


def test_why_a_query_died_is_told_though_its_context_went_first() -> None:
    told = Told()
    context = SimpleNamespace(_jsc=object())
    told.started(lifetime=Lifetime(context))
    context._jsc = object()  # the program has made another one of it
    told.queries.end_with_context()
    told.died(5, "java.lang.RuntimeException: boom")
    [query] = told.queries.listed({})
    assert (query.active, query.error) == (False, "java.lang.RuntimeException: boom")


def test_a_batch_stands_at_the_limit_of_its_sources_options_once_that_is_known() -> None:
    told = Told()
    told.started()
    assert told.queries.of_unknown_limit() == []  # its sources are not there before its first batch
    told.batch(0, 1, 0, rows=100)
    assert told.queries.of_unknown_limit() == ["run"]
    told.queries.note("run", most_rows=100.0)
    assert told.queries.of_unknown_limit() == []
    told.batch(3, 1, 1, rows=100)
    assert [batch.limit for batch in told.batches] == [None, 100.0]


def test_a_limit_that_is_known_otherwise_goes_before_that_of_options() -> None:
    told = Told(completed=lambda done: replace(done.batch, limit=7.0))
    told.started()
    told.batch(0, 1, 0, rows=100)
    told.queries.note("run", most_rows=100.0)
    told.batch(3, 1, 1, rows=100)
    assert [batch.limit for batch in told.batches] == [7.0, 7.0]


def test_files_that_wait_are_those_that_spark_remembers_of_a_query_that_reads_files() -> None:
    told = Told()
    told.started()
    told.batch(0, 1, 0, sources=[{"description": "KafkaV2[Subscribe[clicks]]"}])
    assert told.queries.reading_files() == []
    told.batch(3, 1, 1, sources=[{"description": "FileStreamSource[file:/data/in]"}])
    assert told.queries.reading_files() == ["run"]
    told.queries.note("run", files_waiting=7)
    assert told.queries.listed({})[0].files_waiting == 7
    told.queries.note("run", files_waiting=None)
    assert told.queries.listed({})[0].files_waiting is None, "few, or none: not zero"
    told.queries.note("run", files_waiting=7)
    told.died(9, None)
    assert told.queries.listed({})[0].files_waiting is None
    assert told.queries.reading_files() == []


def test_it_tells_what_spark_says_that_a_query_does() -> None:
    told = Told()
    told.started()
    told.queries.note("run", doing="Getting offsets from KafkaV2[Subscribe[clicks]]" + "x" * 999)
    [query] = told.queries.listed({})
    assert query.doing is not None and query.doing.startswith("Getting offsets from KafkaV2")
    assert len(query.doing) == MOST_DOING
    told.died(3, None)
    assert told.queries.listed({})[0].doing is None
