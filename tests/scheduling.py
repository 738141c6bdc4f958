"""Which tests run in which tier, in one process, in how many processes, and which begin first."""

import os
import time

import pytest
from xdist.scheduler import LoadScopeScheduling

LONG_TO_BRING_UP = ("kubernetes", "yarn", "hdfs", "databases")
RIGS = (*LONG_TO_BRING_UP, "kafka", "browser")
"""Markers of tests that need more than Spark and Dagster."""
ALL = "SPARKSCALE_TESTS_ALL"
"""Environment variable: if it is set, a test fails where it lacks its rig. Else a machine without
root, say, would skip all of Kubernetes and call it a success."""
UNTIL = "SPARKSCALE_TESTS_UNTIL"
"""Environment variable: seconds since the epoch, after which no more of the stories begin that
`make test-clusters` tells again. So a machine that is slow today comes to an end, and says what it
has left out. Tests of cluster managers, and what `make test` runs, are never left out."""
LATE = f"it is later than {UNTIL} says"
_BESIDE_CORES = 1
_MEMORY_PER_PROCESS = 4 << 30
"""Bytes: a process of tests with a cluster, a driver and some executors."""

_APART = (
    "tests/e2e/test_demo.py",
    "tests/e2e/test_faults.py",
)
"""Modules whose tests take long and share nothing but what a process has once."""

_KINESIS_ON_SPARK = (
    "structured",
    "exactly_once",
    "service_faults",
    "dstream",
    "data_lost",
    "live_limits",
    "bounded_reads",
    "any_spark",
    "roles",
)
_TOGETHER = {
    "tests/clusters/kubernetes/": "kubernetes",
    "tests/dev/kubernetes/": "kubernetes",
    "tests/kafka/": "kafka",
    **{f"tests/sources/kinesis/test_{name}.py": "kinesis" for name in _KINESIS_ON_SPARK},
}
"""Modules that share what is long to make: a Kubernetes cluster, a broker, a SparkSession."""

_LONGEST_FIRST = (
    "tests/clusters/kubernetes/test_contract.py",
    "tests/sources/kinesis/test_structured.py",
    "tests/clusters/yarn/test_contract.py",
    "tests/clusters/test_local.py",
    "tests/clusters/test_standalone_rest.py",
    "tests/e2e/test_demo.py",
    "tests/driver/state/test_reconfigure.py",
    "tests/e2e/test_state.py",
    "tests/kafka/test_lag.py",
    "tests/clusters/test_standalone.py",
    "tests/clusters/yarn/test_client_mode.py",
    "tests/clusters/yarn/test_scenario.py",
    "tests/clusters/test_standalone_failover.py",
    "tests/driver/state/test_operators.py",
    "tests/driver/state/test_file_sink.py",
    "tests/driver/state/test_cut_off.py",
    "tests/driver/state/test_on_hdfs.py",
    "tests/e2e/test_faults.py",
    "tests/ui/test_pages.py",
    "tests/e2e/test_restart.py",
    "tests/driver/test_receivers.py",
    "tests/e2e/test_receivers.py",
    "tests/e2e/test_retune.py",
    "tests/driver/test_backpressure.py",
    "tests/driver/test_dstreams.py",
    "tests/driver/test_structured.py",
)
"""Of the modules that need Spark. An order that is out of date costs time at the end of a run,
when one process still works and the others have nothing left; nothing else."""


def processes(arguments: list[str], cores: int, memory: int) -> int:
    """How many processes run tests besides this one: one more than cores, as each waits now and
    then for what it has started. With two more, two cores only have more to switch between.

    One module runs here: another process would first import all that it needs.

    Args:
        arguments: the files and folders that pytest is given.
        memory: of the machine, in bytes.
    """
    if len(arguments) == 1 and _module_of(arguments[0]).endswith(".py"):
        return 0
    return max(1, min(cores + _BESIDE_CORES, memory // _MEMORY_PER_PROCESS))


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out what belongs together to one process, in the order in which it was collected."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(test: str) -> str:
    """What runs in one process with a test: its class or its module, as they share fixtures."""
    for folder, scope in _TOGETHER.items():
        if test.startswith(folder):
            return scope
    return test if _module_of(test) in _APART else test.split("[")[0].rsplit("::", 1)[0]


def in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """The many quick tests first, as they stand: what they find is told within two minutes. Then
    those that need Spark, the longest first.

    What runs together counts as slow if one of its tests is. Stories that are told again come last.
    """
    slow = {scope_of(item.nodeid) for item in items if _needs_more_than_python(item)}
    again = {scope_of(item.nodeid) for item in items if _is_told_again(item)}
    places = {module: place for place, module in enumerate(_LONGEST_FIRST)}

    def place(item: pytest.Item) -> tuple[bool, bool, int]:
        scope = scope_of(item.nodeid)
        if scope not in slow:
            return (False, False, 0)
        return (True, scope in again, places.get(_module_of(item.nodeid), len(places)))

    return sorted(items, key=place)


def _needs_more_than_python(item: pytest.Item) -> bool:
    return any(map(item.get_closest_marker, ("spark", *RIGS)))


def tier(item: pytest.Item) -> None:
    """Mark a test that needs a cluster manager which is long to bring up as one of
    `make test-clusters`."""
    if any(map(item.get_closest_marker, LONG_TO_BRING_UP)):
        item.add_marker("clusters")


def _is_told_again(item: pytest.Item) -> bool:
    """Whether a test is one of `make test-clusters` and of no cluster manager."""
    if item.get_closest_marker("clusters") is None or item.nodeid.startswith("tests/clusters/"):
        return False
    return not any(map(item.get_closest_marker, LONG_TO_BRING_UP))


def leave_out_if_late(item: pytest.Item) -> None:
    """Skip a test that may be left out, once it is later than `UNTIL`."""
    until = os.environ.get(UNTIL)
    if until and time.time() > float(until) and _is_told_again(item):
        pytest.skip(LATE)


def fail_what_lacks_its_rig(item: pytest.Item, report: pytest.TestReport) -> None:
    """Turn the report of a test that was skipped into a failure if its marker names a rig."""
    if report.skipped and any(map(item.get_closest_marker, RIGS)):
        assert isinstance(report.longrepr, tuple)
        if LATE in report.longrepr[2]:
            return
        report.outcome, report.longrepr = "failed", f"{ALL} is set, and: {report.longrepr[2]}"


def _module_of(test: str) -> str:
    return test.split("::")[0]
