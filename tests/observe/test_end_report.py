"""What a driver leaves for when it can't be asked any more, and what is read of it."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.ending.end_report import (
    LONGEST,
    MARKER,
    EndReport,
    LineageEnd,
    Slots,
    Stopped,
    StoppedQuery,
    raised,
)
from dagster_sparkscale.observe.end_report import read_end_report

REPORT = EndReport(
    took=True,
    fenced="the checkpoint has been taken",
    stopped=Stopped(1.5, True, False, (StoppedQuery("orders", False, 16),), True),
    raised="ValueError: no such topic",
    slots=Slots(6, 1, 3),
    lineage=LineageEnd("FAIL", True),
)
WRITTEN = {
    "took": True,
    "fenced": "the checkpoint has been taken",
    "stopped": {
        "at": 1.5,
        "graceful": True,
        "ended_itself": False,
        "queries": [{"name": "orders", "drained": False, "batch_id": 16, "repeats": False}],
        "sigterm": True,
    },
    "raised": "ValueError: no such topic",
    "slots": {"needed": 6, "free": 1, "registered": 3, "declared": False},
    "lineage": {"kind": "FAIL", "told": True},
}


def test_they_are_written_by_names_that_never_change() -> None:
    assert json.loads(REPORT.as_json()) == WRITTEN


def test_what_was_written_is_read_as_a_file() -> None:
    assert read_end_report(REPORT.as_json() + "\n") == REPORT
    assert read_end_report(json.dumps({**WRITTEN, "of_a_later_release": [1]})) == REPORT
    assert read_end_report("{}") == EndReport()


def test_of_several_in_a_log_the_last_counts() -> None:
    first = f"{MARKER}{EndReport(took=True).as_json()}\n"
    last = f"{MARKER}{REPORT.as_json()}"
    log = f"26/11/23 WARN\n{first}a line without its end {last}\n26/11/23 INFO {{}}"
    assert read_end_report(log) == REPORT
    assert read_end_report(f"{last}and another thread's words") == REPORT


@pytest.mark.parametrize(
    "text",
    [
        *("", "26/11/23 INFO {}", "[]", "[" * 100_000, MARKER, '{"took": 1}', '{"took": true'),
        # What came before the last may not be so any more.
        f'{MARKER}{{"took": true}}\n{MARKER}{{"took": tr',
    ],
)
def test_what_can_not_be_understood_is_none(text: str) -> None:
    assert read_end_report(text) is None


texts = st.text(max_size=3000)
queries = st.builds(StoppedQuery, st.text(max_size=300), st.sampled_from([True, False, None]))


@given(
    st.builds(
        EndReport,
        took=st.booleans(),
        fenced=st.none() | texts,
        stopped=st.none()
        | st.builds(
            Stopped, st.just(1e9), st.booleans(), st.booleans(), st.lists(queries, max_size=80)
        ),
        raised=st.none() | texts,
    )
)
def test_they_are_one_short_line_that_never_tells_of_a_cleaner_end(words: EndReport) -> None:
    line = words.as_json()
    assert len(line) <= LONGEST and line.isascii() and line.isprintable()
    kept = read_end_report(f"{MARKER}{line}")
    assert kept is not None
    assert kept.took == words.took
    for name in ("fenced", "stopped", "raised"):
        assert (getattr(kept, name) is None) == (getattr(words, name) is None)
    if words.stopped is not None and kept.stopped is not None:
        assert kept.stopped.clean == words.stopped.clean


def test_a_node_keeps_them_whole_beside_sidecars() -> None:
    """It keeps the end of the file, 4096 bytes of it, and then the beginning of that: what is left
    where all containers of a pod share 12 KiB (kubelet's `getTerminationMessage` and
    `normalizeStatus`)."""
    reason = "x" * (LONGEST - len(EndReport(fenced="").as_json()))
    words = EndReport(fenced=reason)
    file = f"{words.as_json()}\n"  # as the driver writes it
    for containers in range(1, 6):
        assert read_end_report(file[-4096:][: 12 * 1024 // containers]) == words


def test_what_fits_is_kept_whole() -> None:
    reason = "x" * (LONGEST - len(EndReport(fenced="").as_json()))
    assert json.loads(EndReport(fenced=reason).as_json())["fenced"] == reason
    one_more = json.loads(EndReport(fenced=f"{reason}x").as_json())["fenced"]
    assert len(one_more) == (len(reason) + 1) // 2


def test_of_many_queries_those_go_first_that_were_drained() -> None:
    drained = [StoppedQuery(f"{'drained' * 5}{n}", True, n) for n in range(40)]
    cut = [StoppedQuery(f"{'cut' * 5}{n}", False, n) for n in range(20)]
    words = EndReport(stopped=Stopped(1.5, True, True, (*cut[:10], *drained, *cut[10:])))
    kept = json.loads(words.as_json())["stopped"]["queries"]
    assert [each["name"] for each in kept if not each["drained"]] == [each.name for each in cut]
    some = [each["name"] for each in kept if each["drained"]]
    assert some == [each.name for each in drained[: len(some)]] and some


def test_what_is_too_long_for_that_loses_half_of_each_text_and_nothing_else() -> None:
    queries = StoppedQuery("abcdef", False, 1), StoppedQuery("ghijkl", False, 2)
    stopped = Stopped(1.5, True, False, queries, True)
    words = EndReport(True, "x" * LONGEST, stopped, "y" * 201)
    kept = replace(stopped, queries=(StoppedQuery("abc", False, 1),))
    assert read_end_report(words.as_json()) == EndReport(
        True, "x" * (LONGEST // 2), kept, "y" * 100
    )


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such topic\nand more"), "ValueError: no such topic"),
        (MemoryError(), "MemoryError"),
        (Unspeakable(), "Unspeakable"),
        (KeyError("a\tb"), "KeyError: 'a\\tb'"),
        (ValueError("a\tb"), "ValueError: a b"),
        # Spark's words of a query that has failed, but for its ids.
        (
            ValueError(
                "[STREAM_FAILED] Query [id = 1-a, runId = 2-b] terminated with exception: "
                "org.apache.kafka.common.errors.TimeoutException: no answer SQLSTATE: XXKST"
            ),
            "ValueError: TimeoutException: no answer SQLSTATE: XXKST",
        ),
        # What a function of the program raised in a task: frames before it, Spark's plan behind.
        (
            ValueError(
                "[STREAM_FAILED] Query [id = 1-a, runId = 2-b] terminated with exception: "
                "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: "
                'Traceback (most recent call last):\n  File "words.py", line 20, in words\n'
                "    raise TypeError(line)\nTypeError: no such word\n SQLSTATE: 38000\n"
                "Logical Plan:\n~Project [value#0]\n+- ~Repartition 8, true\n"
                "   +- ~StreamingExecutionRelation"
            ),
            "ValueError: TypeError: no such word",
        ),
        (
            ValueError("[STREAM_FAILED] Query terminated with exception: no"),
            "ValueError: [STREAM_FAILED] Query terminated with exception: no",
        ),
        (ValueError("x" * 188), "ValueError: " + "x" * 188),
        (ValueError("x" * 189), "ValueError: " + "x" * 185 + "..."),
    ],
)
def test_what_was_raised_is_told_in_a_line(error: Exception, text: str) -> None:
    assert raised(error) == text


CALL = "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext."
FORBIDDEN = 'pods "a-1" is forbidden: User "b" cannot get resource "pods"'


@pytest.mark.parametrize(
    ("trace", "text"),
    [
        ((), CALL),
        ((": java.io.IOException: the disk is full", "\tat a.B"), "IOException: the disk is full"),
        (
            (
                ": org.apache.spark.SparkException: it can't be made",
                "\tat a.B(C.java:1)",
                "Caused by: java.lang.RuntimeException: in between",
                "Caused by: io.fabric8.kubernetes.client.KubernetesClientException: Failure "
                f"executing: GET at: https://k/api/v1/pods/a-1. Message: {FORBIDDEN}. Status: 1",
                "\t... 3 more",
            ),
            f"KubernetesClientException: {FORBIDDEN}. Status: 1",
        ),
        ((": a.B: Failure executing: GET", "Caused by: x"), "x"),
        ((": a.B: Failure executing: GET",), "B: Failure executing: GET"),
        ((": S3.denied: no",), "S3.denied: no"),
    ],
)
def test_of_what_the_jvm_has_raised_the_first_cause_is_told(
    trace: tuple[str, ...], text: str
) -> None:
    class Py4JJavaError(Exception):
        pass

    assert raised(Py4JJavaError("\n".join((CALL, *trace)))) == f"Py4JJavaError: {text}"
    # What a program says by itself is told as it is.
    assert raised(ValueError("\n".join(("no", *trace)))) == "ValueError: no"
