"""What shares a fixture stays together, what takes long begins first, and a small machine is not
asked for too much."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.scheduling import by_length, processes, scope_of

GIB = 1 << 30


@pytest.mark.parametrize(
    ("test", "scope"),
    [
        ("tests/a/test_b.py::test_c", "tests/a/test_b.py"),
        ("tests/a/test_b.py::test_c[x::y-1]", "tests/a/test_b.py"),
        ("tests/a/test_b.py::TestC::test_d[1]", "tests/a/test_b.py::TestC"),
        ("tests/clusters/kubernetes/test_a.py::TestB::test_c", "kubernetes"),
        ("tests/e2e/test_faults.py::test_c", "tests/e2e/test_faults.py::test_c"),
    ],
)
def test_a_test_runs_with_its_class_or_its_module_unless_it_stands_alone(
    test: str, scope: str
) -> None:
    assert scope_of(test) == scope


@pytest.mark.parametrize(
    ("cores", "memory", "expected"),
    [(2, 24 * GIB, 3), (1, 24 * GIB, 2), (16, 24 * GIB, 6), (2, GIB, 1)],
)
def test_it_is_as_many_processes_as_cores_and_memory_allow(
    cores: int, memory: int, expected: int
) -> None:
    assert processes(cores, memory) == expected


def test_what_takes_long_comes_first_and_the_rest_as_it_stands() -> None:
    def item(nodeid: str, spark: bool) -> Any:
        return SimpleNamespace(nodeid=nodeid, get_closest_marker=lambda name: spark or None)

    quick = [item("tests/test_b.py::test_1", False), item("tests/test_a.py::test_1", False)]
    some = item("tests/driver/test_sources.py::test_1", True)
    long = item("tests/e2e/test_demo.py::test_1", True)
    assert sorted([*quick, some, long], key=by_length) == [long, some, *quick]
