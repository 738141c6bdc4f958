"""What all tests share: how they run side by side, their JVMs, a real Spark cluster, and an end.

Tests run in several processes (pytest-xdist); `tests/scheduling.py` says in how many, and in which
order. What a module or a class shares stays in one process. All processes share a Spark cluster.
Whatever a run of tests has started and not ended is ended and told of in the end
(`tests/leftovers.py`).
"""

import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from dagster_sparkscale.clusters import spark_cluster
from dagster_sparkscale.clusters.local import LocalCluster
from dagster_sparkscale.clusters.standalone import daemons
from dagster_sparkscale.lifecycle import reconcile
from dagster_sparkscale.watch import learners, reads
from dev.kubernetes.running import Cluster, Reached, start
from dev.runs import MARK
from tests.given_kubernetes import given, told
from tests.in_memory.cluster import World
from tests.kubernetes import PASSED_ON, on_linux_as_root
from tests.scheduling import (
    ALL,
    Scheduler,
    fail_what_lacks_its_rig,
    in_order,
    leave_out_if_late,
    processes,
    tier,
)
from tests.short_lives import EXECUTORS, begin_archive, for_short_lives, with_archive
from tests.soaking import Soak, minutes
from tests.waiting import HANGS

pytest_plugins = ["tests.dagster_storage", "tests.leftovers", "tests.progress"]

PROGRAMS = Path(__file__).parent / "programs"


def pytest_addoption(parser: pytest.Parser) -> None:
    soak = parser.getgroup("soak", "what repeats for confidence (tests/soaking.py)")
    soak.addoption("--minutes", type=minutes, default=10.0, help="how long each repeats")
    soak.addoption("--seed", type=int, default=1, help="of what is drawn by chance")


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # as tests/scheduling.py has sorted them
    if hasattr(config, "workerinput"):
        return  # one of several processes, which inherits all this
    for_short_lives(os.environ)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return processes(config.args, os.cpu_count() or 1, psutil.virtual_memory().total)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduler:
    return Scheduler(config, log)


@pytest.hookimpl(tryfirst=True)  # before pytest looks which markers are asked for
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        tier(item)
    items[:] = in_order(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    first = os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0"
    if session.config.getoption("collectonly") or not first:
        return
    if any(item.get_closest_marker("spark") for item in session.items):
        begin_archive()


@pytest.hookimpl(tryfirst=True)  # before anything is made for it
def pytest_runtest_setup(item: pytest.Item) -> None:
    leave_out_if_late(item)
    if item.get_closest_marker("spark"):
        with_archive(os.environ)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    if os.environ.get(ALL):
        fail_what_lacks_its_rig(item, report)
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Say which command runs the tests that this one has left out, where it was left with none."""
    tiers = {"not clusters": "make test-clusters", "clusters": "make test"}
    other = tiers.get(config.getoption("markexpr"))
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and other:
        terminalreporter.write_line(f"None of these tests belongs to this command: try {other}.")


@pytest.fixture(scope="session", autouse=True)
def no_hurry() -> Iterator[None]:
    """What takes its time on a busy machine is waited for. A virtual machine may even stand still
    for longer than a tick waits for Dagster's storage."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(daemons, "START_SECONDS", HANGS)
        patch.setattr(spark_cluster, "ANNOUNCE_SECONDS", HANGS)
        patch.setattr(reconcile, "START_WAIT", HANGS)
        patch.setattr(reads, "ANSWER", HANGS)
        patch.setattr(reads, "GRACE", HANGS)
        patch.setattr(learners, "READING", HANGS)
        yield


@pytest.fixture
def world() -> World:
    """A cluster in memory, on which nothing has run yet."""
    return World()


@pytest.fixture(scope="session")
def local_cluster(request: pytest.FixtureRequest) -> LocalCluster:
    """A LocalCluster of 2 workers with 16 cores each, which all processes of tests share.

    Whoever comes first starts it, and the run of tests ends it. Streams on it need names that no
    other test uses; a test that breaks a cluster starts one of its own.
    """
    cluster = _shared_cluster(request.config)
    cluster.prepare()
    return cluster


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """End the shared cluster when all processes of tests have ended."""
    yield
    if not hasattr(session.config, "workerinput"):
        cluster = _shared_cluster(session.config)
        if cluster.state_path().exists():
            cluster.shutdown(force=True)


def _shared_cluster(config: pytest.Config) -> LocalCluster:
    folder = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    if hasattr(config, "workerinput"):
        folder = folder.parent
    return LocalCluster(
        state_dir=str(folder / "local"),
        workers=2,
        cores_per_worker=16,
        memory_per_worker="16g",
        spark_conf=EXECUTORS,
        pass_environment=[MARK],
    )


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A Kubernetes cluster: its control plane is real, its nodes run pods as processes here."""
    if told("KUBECONFIG"):
        pytest.skip("a cluster is given, and this needs the inside of one of ours")
    if not on_linux_as_root():
        pytest.skip("pods are run in namespaces of Linux, which only root may make")
    with start(tmp_path_factory.mktemp("kubernetes"), [*PASSED_ON, MARK]) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def any_kubernetes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Reached:
    """The Kubernetes cluster that is given (tests/given_kubernetes.py), or else one of ours."""
    found = given(tmp_path_factory.mktemp("given"))
    return found or request.getfixturevalue("kubernetes")  # type: ignore[no-any-return]


@pytest.fixture
def hangups_end() -> Iterator[None]:
    """What a test starts is ended by SIGHUP, also where the tests run under `nohup`, which has it
    ignored by all that they start."""
    before = signal.getsignal(signal.SIGHUP)
    if before == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def soak(pytestconfig: pytest.Config) -> Soak:
    return Soak(pytestconfig.getoption("--minutes"), pytestconfig.getoption("--seed"))
