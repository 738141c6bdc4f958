"""What all tests share: how they run side by side, their JVMs, a real Spark cluster, and an end.

Tests run in several processes (pytest-xdist), `make test` says in how many. What is shared by a
module or a class stays in one process, and a cluster is started once in each process that needs one
(`tests/scheduling.py`). Whatever a run of tests has started and not ended is ended and told of in
the end (`tests/leftovers.py`).
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from dagster_sparkscale.clusters import spark_cluster
from dagster_sparkscale.clusters.local import LocalCluster
from dagster_sparkscale.clusters.standalone import daemons
from dagster_sparkscale.lifecycle import reconcile
from dev.kubernetes.running import Cluster, Reached, start
from tests.given_kubernetes import given, told
from tests.in_memory.cluster import World
from tests.kubernetes import PASSED_ON, on_linux_as_root
from tests.scheduling import Scheduler, by_length, processes
from tests.short_lives import EXECUTORS, for_short_lives
from tests.soaking import Soak, minutes
from tests.waiting import HANGS

pytest_plugins = ["tests.leftovers"]

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
def pytest_xdist_auto_num_workers() -> int:
    return processes(os.cpu_count() or 1, psutil.virtual_memory().total)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduler:
    return Scheduler(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=by_length)


@pytest.fixture(scope="session", autouse=True)
def no_hurry() -> Iterator[None]:
    """What takes its time to come up on a busy machine is waited for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(daemons, "START_SECONDS", HANGS)
        patch.setattr(spark_cluster, "ANNOUNCE_SECONDS", HANGS)
        patch.setattr(reconcile, "START_WAIT", HANGS)
        yield


@pytest.fixture
def world() -> World:
    """A cluster in memory, on which nothing has run yet."""
    return World()


@pytest.fixture(scope="session")
def local_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A LocalCluster of 2 workers with 6 cores each; whatever it runs in the end is stopped."""
    from tests.leftovers import MARK  # here, as pytest wants to be the first to import a plugin

    cluster = LocalCluster(
        state_dir=str(tmp_path_factory.mktemp("local") / "state"),
        workers=2,
        cores_per_worker=6,
        memory_per_worker="8g",
        spark_conf=EXECUTORS,
        pass_environment=[MARK],
    )
    try:
        cluster.prepare()
        yield cluster
    finally:
        cluster.shutdown(force=True)


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A Kubernetes cluster: its control plane is real, its nodes run pods as processes here."""
    from tests.leftovers import MARK

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
def soak(pytestconfig: pytest.Config) -> Soak:
    return Soak(pytestconfig.getoption("--minutes"), pytestconfig.getoption("--seed"))
