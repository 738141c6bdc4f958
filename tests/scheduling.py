"""Which tests run in one process, in how many processes, and which of them begin first."""

import pytest

_SPARK_PER_CORE = 2
_MEMORY_PER_PROCESS = 4 << 30
"""Bytes: a process of tests with a cluster, a driver and some executors."""

_LONGEST_FIRST = (
    "tests/e2e/test_demo.py",
    "tests/sources/kinesis/test_exactly_once.py",
    "tests/e2e/test_faults.py",
    "tests/sources/kinesis/test_structured.py",
    "tests/clusters/test_local.py",
    "tests/clusters/test_standalone.py",
    "tests/sources/kinesis/test_dstream_killed.py",
    "tests/sources/kinesis/test_service_faults.py",
    "tests/sources/kinesis/test_dstream.py",
    "tests/sources/kinesis/test_data_lost.py",
    "tests/driver/test_structured.py",
    "tests/driver/test_dstreams.py",
    "tests/e2e/test_restart.py",
)
"""Of the modules that need Spark. An order that is out of date costs time at the end of a run,
when one process still works and the others have nothing left; nothing else."""


def processes(cores: int, memory: int) -> int:
    """How many processes run tests: more than cores, as they mostly wait.

    Args:
        memory: of the machine, in bytes.
    """
    return max(1, min(_SPARK_PER_CORE * cores, memory // _MEMORY_PER_PROCESS))


def share_out(items: list[pytest.Item]) -> None:
    """Keep in one process what shares a fixture; a test that shares nothing goes anywhere."""
    for item in items:
        if (group := _group(item)) is not None:
            item.add_marker(pytest.mark.xdist_group(group))


def _group(item: pytest.Item) -> str | None:
    info = getattr(item, "_fixtureinfo", None)
    scopes = {
        definition.scope
        for definitions in (info.name2fixturedefs.values() if info else ())
        for definition in definitions
    }
    if "module" in scopes:
        return item.nodeid.split("::")[0]
    if "class" in scopes:
        return item.nodeid.rsplit("::", 1)[0]
    return None


def by_length(item: pytest.Item) -> tuple[int, int]:
    """Sorts what takes long to the front, the rest as it stands; the many quick tests fill the
    gaps at the end."""
    module = item.nodeid.split("::")[0]
    place = _LONGEST_FIRST.index(module) if module in _LONGEST_FIRST else len(_LONGEST_FIRST)
    return (0 if item.get_closest_marker("spark") else 1, place)
