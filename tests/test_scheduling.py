"""What shares a fixture stays together, what takes long begins first, and a small machine is not
asked for too much."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.scheduling import (
    LATE,
    UNTIL,
    fail_what_lacks_its_rig,
    in_order,
    leave_out_if_late,
    processes,
    scope_of,
    tier,
)

GIB = 1 << 30


@pytest.mark.parametrize(
    ("test", "scope"),
    [
        ("tests/a/test_b.py::test_c", "tests/a/test_b.py"),
        ("tests/a/test_b.py::test_c[x::y-1]", "tests/a/test_b.py"),
        ("tests/a/test_b.py::TestC::test_d[1]", "tests/a/test_b.py::TestC"),
        ("tests/clusters/kubernetes/test_a.py::TestB::test_c", "kubernetes"),
        ("tests/kafka/test_a.py::test_b", "kafka"),
        ("tests/sources/kinesis/test_dstream.py::test_a", "kinesis"),
        ("tests/sources/kinesis/test_planner.py::test_a", "tests/sources/kinesis/test_planner.py"),
        ("tests/e2e/test_faults.py::test_c", "tests/e2e/test_faults.py::test_c"),
    ],
)
def test_a_test_runs_with_its_class_or_its_module_unless_it_stands_alone(
    test: str, scope: str
) -> None:
    assert scope_of(test) == scope


@pytest.mark.parametrize(
    ("arguments", "cores", "memory", "expected"),
    [
        (["tests"], 2, 24 * GIB, 3),
        (["tests"], 1, 24 * GIB, 2),
        (["tests/watch", "tests/cli"], 16, 24 * GIB, 6),
        (["tests"], 2, GIB, 1),
        (["tests/test_b.py"], 2, 24 * GIB, 0),
        (["tests/test_b.py::test_1"], 2, 24 * GIB, 0),
        (["tests/test_b.py", "tests/test_a.py"], 2, 24 * GIB, 3),
    ],
)
def test_it_is_as_many_processes_as_cores_and_memory_allow_and_none_for_one_module(
    arguments: list[str], cores: int, memory: int, expected: int
) -> None:
    assert processes(arguments, cores, memory) == expected


def item(nodeid: str, *markers: str) -> Any:
    marked = list(markers)
    return SimpleNamespace(
        nodeid=nodeid,
        get_closest_marker=lambda name: name in marked or None,
        add_marker=marked.append,
    )


def test_what_is_quick_comes_first_as_it_stands_and_then_what_takes_longest() -> None:
    quick = [item("tests/test_b.py::test_1"), item("tests/test_a.py::test_1")]
    some = item("tests/driver/test_sources.py::test_1", "spark")
    seen = item("tests/ui/test_pages.py::test_1", "browser")
    long = item("tests/e2e/test_faults.py::test_1", "spark")
    given = [some, quick[0], seen, long, quick[1]]
    assert in_order(given) == [*quick, long, seen, some]


def test_stories_that_are_told_again_come_after_those_of_cluster_managers() -> None:
    again = item("tests/e2e/test_demo.py::test_1", "spark", "clusters")
    yarn = item("tests/a/test_b.py::test_1", "yarn", "clusters")
    standalone = item("tests/clusters/test_standalone.py::test_1", "spark", "clusters")
    quick = item("tests/test_b.py::test_1", "clusters")
    assert in_order([again, yarn, quick, standalone]) == [quick, standalone, yarn, again]


@pytest.mark.parametrize("until", ["", "0", "1e12"])
def test_only_they_are_left_out_and_only_once_it_is_late(
    until: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(UNTIL, until)
    leave_out_if_late(item("tests/a/test_b.py::test_1", "yarn", "clusters"))
    leave_out_if_late(item("tests/clusters/test_standalone.py::test_1", "spark", "clusters"))
    leave_out_if_late(item("tests/e2e/test_faults.py::test_1", "spark"))
    left_out = False
    try:
        leave_out_if_late(item("tests/e2e/test_demo.py::test_1", "spark", "clusters"))
    except pytest.skip.Exception:
        left_out = True
    assert left_out is (until == "0")


def test_what_was_left_out_lacks_nothing() -> None:
    why = ("test_b.py", 7, f"Skipped: {LATE}")
    report = pytest.TestReport("test_b", ("", 7, ""), {}, "skipped", why, "setup")
    fail_what_lacks_its_rig(item("tests/kafka/test_b.py::test_1", "kafka"), report)
    assert report.outcome == "skipped"


def test_a_quick_test_waits_for_those_that_need_spark_and_share_its_module() -> None:
    shared = [item("tests/driver/test_sources.py::test_1")]
    shared.append(item("tests/driver/test_sources.py::test_2", "spark"))
    quick = item("tests/test_b.py::test_1")
    assert in_order([*shared, quick]) == [quick, *shared]


@pytest.mark.parametrize(
    ("markers", "of_clusters"),
    [
        ((), False),
        (("spark",), False),
        (("spark", "kafka"), False),
        (("kubernetes",), True),
        (("spark", "yarn"), True),
        (("spark", "hdfs"), True),
    ],
)
def test_what_is_long_to_bring_up_is_of_the_second_tier(
    markers: tuple[str, ...], of_clusters: bool
) -> None:
    of_it = item("tests/test_b.py::test_1", *markers)
    tier(of_it)
    assert bool(of_it.get_closest_marker("clusters")) is of_clusters


@pytest.mark.parametrize(
    ("outcome", "marker", "expected"),
    [
        ("skipped", "kubernetes", "failed"),
        ("skipped", "browser", "failed"),
        ("skipped", "spark", "skipped"),
        ("passed", "kubernetes", "passed"),
    ],
)
def test_where_all_must_run_a_test_that_lacks_its_rig_has_failed(
    outcome: Any, marker: str, expected: str
) -> None:
    why = ("test_b.py", 7, "Skipped: only root may do that")
    report = pytest.TestReport("test_b", ("", 7, ""), {}, outcome, why, "setup")
    fail_what_lacks_its_rig(item("tests/test_b.py::test_1", marker), report)
    assert report.outcome == expected
    assert (report.longrepr == why) is (outcome == expected)
    assert "only root may do that" in str(report.longrepr)
