"""A damaged connection between Dagster and a cluster manager: the API server of Kubernetes, the
master of a Standalone cluster by REST, YARN's ResourceManager.

A stream is started, and the connection is damaged from the moment on at which its driver is to be
launched; later it is stopped over one that is damaged from the beginning. Whatever the runs say,
one driver runs in the end and no second one, and once the connection is well the stream runs and
stops as asked.
"""

import getpass
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dagster as dg
import psutil
import pytest
import yaml

from dagster_sparkscale import ClusterManager, KubernetesCluster
from dagster_sparkscale.clusters import spark_cluster
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.clusters.launch.driver_options import Invocation
from dagster_sparkscale.clusters.records.starts import EpochStart
from dagster_sparkscale.clusters.spark_cluster import SparkCluster
from dagster_sparkscale.clusters.standalone import rest
from dagster_sparkscale.clusters.yarn.cluster import YarnCluster
from dagster_sparkscale.clusters.yarn.resource_manager import ResourceManager, Web
from dagster_sparkscale.lifecycle import reconcile
from dev.kubernetes.granted import apply, kubeconfig
from dev.kubernetes.running import Cluster
from dev.standalone import Standalone
from dev.toxiproxy.proxy import Link, Toxiproxy
from dev.yarn.rig import tethered
from tests.clusters.rest_mode import command_line, environment, on
from tests.clusters.running import stream
from tests.clusters.yarn.cluster_mode import cluster_on
from tests.clusters.yarn.conftest import INHERITED
from tests.e2e.deployment import Deployment, deployed, failure, told
from tests.faults.real.links import Damage, begun_later
from tests.faults.real.watched import Record, never_two, recovers, ticked
from tests.kubernetes import namespace, phase
from tests.waiting import HANGS

FOUND_WITHIN = 20.0
"""Seconds after which whoever was taken is found by a connection that is well."""
_NOTHING_PASSES = (Damage.HOLE_OUT, Damage.HOLE_BACK, Damage.RESET)


@dataclass(frozen=True)
class Linked:
    cluster: ClusterManager
    """Reaches its manager over the links."""
    links: Sequence[Link]
    running: Callable[[str], int]
    """How many drivers of a stream run: asked beside the links."""
    answer: int
    """Bytes: about what the manager answers at once here."""
    named: tuple[str, ...]
    """One of these is in what a run says that fails."""
    before_a_launch: Callable[[pytest.MonkeyPatch, Callable[[], None]], None]
    """Has something called when the manager is next asked to launch a driver."""

    @contextmanager
    def damaged(self, damage: Damage) -> Iterator[None]:
        with ExitStack() as stack:
            for link in self.links:
                stack.enter_context(link.damaged(damage.toxics(self.answer)))
            yield

    @contextmanager
    def damaged_from_the_launch_on(self, damage: Damage) -> Iterator[None]:
        """Whatever a start asks for before it passes."""
        later = begun_later(lambda: self.damaged(damage))
        with later as begin, pytest.MonkeyPatch.context() as patch:
            self.before_a_launch(patch, begin)
            yield


def _when_launching(
    kind: type[SparkCluster],
) -> Callable[[pytest.MonkeyPatch, Callable[[], None]], None]:
    launching = kind.launching

    def install(patch: pytest.MonkeyPatch, begin: Callable[[], None]) -> None:
        def prepared(cluster: SparkCluster, call: Invocation) -> Callable[[EpochStart], None]:
            launch = launching(cluster, call)

            def act(start: EpochStart) -> None:
                begin()
                launch(start)

            return act

        patch.setattr(kind, "launching", prepared)

    return install


def _when_the_master_is_asked(patch: pytest.MonkeyPatch, begin: Callable[[], None]) -> None:
    ask = rest._ask

    def asked(url: str, method: str, path: str, body: bytes | None) -> Any:
        if path == "create":
            begin()
        return ask(url, method, path, body)

    patch.setattr(rest, "_ask", asked)


@contextmanager
def linked_to_kubernetes(
    kubernetes: Cluster, folder: Path, toxiproxy: Toxiproxy
) -> Iterator[Linked]:
    with namespace(kubernetes, "links") as space:
        apply(kubernetes, space, "dagster.yaml", "outside.yaml", "driver.yaml")
        config = yaml.safe_load(kubeconfig(kubernetes, space).read_text())
        [known] = config["clusters"]
        server = urlsplit(known["cluster"]["server"])
        link = toxiproxy.link("api", f"{server.hostname}:{server.port or 443}")
        known["cluster"]["server"] = f"https://{link.address}"
        known["cluster"]["tls-server-name"] = server.hostname
        path = folder / "kubeconfig"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config))
        cluster = KubernetesCluster(image="spark", kubeconfig=str(path), term_seconds=3)

        def running(name: str) -> int:
            label = f"labelSelector={names.STREAM}={names.short_name(name)},spark-role=driver"
            pods = kubernetes.api.items(f"/api/v1/namespaces/{space}/pods?{label}")
            return [phase(each) for each in pods].count("Running")

        says = ("Kubernetes", "no answer", "API server")
        before = _when_launching(KubernetesCluster)
        yield Linked(cluster, [link], running, 3_000, says, before)


@contextmanager
def linked_to_a_master(folder: Path, toxiproxy: Toxiproxy) -> Iterator[Linked]:
    """Its REST server and its web UI."""
    with Standalone(folder / "up", environment=environment(), wait_seconds=HANGS) as standalone:
        [master] = standalone.at
        to_rest = toxiproxy.link("master-rest", master.rest_url.removeprefix("http://"))
        to_web = toxiproxy.link("master-web", master.web_url.removeprefix("http://"))
        urls = {
            "rest_urls": [f"http://{to_rest.address}"],
            "web_urls": [f"http://{to_web.address}"],
        }
        cluster = on(standalone, folder / "state", **urls)

        def running(name: str) -> int:
            return sum(_is_driver_of(name, each) for each in standalone.left())

        links = [to_rest, to_web]
        yield Linked(cluster, links, running, 600, ("master",), _when_the_master_is_asked)


def _is_driver_of(name: str, process: psutil.Process) -> bool:
    line = command_line(process)
    return "org.apache.spark.deploy.worker.DriverWrapper" in line and any(
        part.startswith(f"{name}/") for part in line
    )


@contextmanager
def linked_to_yarn(folder: Path, toxiproxy: Toxiproxy) -> Iterator[Linked]:
    """The ResourceManager's web services, and the port by which Hadoop's client submits."""
    with tethered(folder / "rig", passed=INHERITED) as yarn:
        web = toxiproxy.link("yarn-web", yarn.url.removeprefix("http://"))
        conf = folder / "conf"
        shutil.copytree(yarn.conf_dir, conf)
        site = (conf / "yarn-site.xml").read_text()
        given = site.partition("<name>yarn.resourcemanager.address</name>")[2]
        port = given.partition("<value>")[2].partition("</value>")[0]
        client = toxiproxy.link("yarn-client", port)
        (conf / "yarn-site.xml").write_text(site.replace(port, client.address))
        cluster = cluster_on(
            yarn,
            folder / "state",
            resource_managers=[f"http://{web.address}"],
            hadoop_conf_dir=str(conf),
        )
        beside = ResourceManager((yarn.url,), Web(getpass.getuser()))

        def running(name: str) -> int:
            record = cluster.store().read(name)
            if record is None:
                return 0
            return sum(not app.final for app in beside.tagged(f"sparkscale-{record.id}"))

        says = ("YARN", "ResourceManager")
        before = _when_launching(YarnCluster)
        yield Linked(cluster, [web, client], running, 2_000, says, before)


def play(linked: Linked, damage: Damage, folder: Path, record: Record) -> None:
    name = f"over_{damage.name.lower()}"
    with pytest.MonkeyPatch.context() as patch:
        # A start that nothing is heard of is not waited for as on a busy machine.
        patch.setattr(reconcile, "START_WAIT", 30.0)
        patch.setattr(spark_cluster, "ANNOUNCE_SECONDS", 30.0)
        _play(linked, damage, name, folder, record)


def _play(linked: Linked, damage: Damage, name: str, folder: Path, record: Record) -> None:
    with (
        deployed(linked.cluster, stream(name, "rate.py"), folder) as d,
        never_two(lambda: linked.running(name)),
    ):
        with linked.damaged_from_the_launch_on(damage):
            said = f"the start: {_outcome(linked, d.materialize())}"
            assert damage not in _NOTHING_PASSES or d.status() is None, "it does not use the link"
            ticked(d)
        by_hand, well_since = list[str](), time.monotonic()
        recovers(record, "its driver to answer", lambda: _started(d, linked, well_since, by_hand))
        said = "; ".join([said, *by_hand])
        assert linked.running(name) == 1
        assert isinstance(d.cluster, SparkCluster)
        epochs = [start.epoch for start in d.cluster.history(name)]
        assert epochs == list(range(1, len(epochs) + 1))
        with linked.damaged(damage):
            said += f"; the stop: {_outcome(linked, d.run('stop', reason='a fault is played'))}"
            ticked(d)
        assert told(d.run("stop", reason="again"))["state"] == "stopped"
        assert d.driver().state is DriverState.STOPPED
        assert linked.running(name) == 0
        record("seen", said)


def _outcome(linked: Linked, result: dg.ExecuteInProcessResult) -> str:
    if result.success:
        return "done"
    text = failure(result)
    assert any(part in text for part in linked.named), text
    return "failed, and said why"


def _started(d: Deployment, linked: Linked, well_since: float, by_hand: list[str]) -> bool:
    """Whether its driver answers, after it was started again as a person would whose run failed.

    Args:
        well_since: since when the connection is well, by `time.monotonic()`.
        by_hand: takes what else the person has to do.
    """
    ticked(d)
    driver = d.cluster.find(d.stream.name)
    lost = driver is not None and driver.state is DriverState.UNKNOWN
    if lost and time.monotonic() - well_since > FOUND_WITHIN and not by_hand:
        assert driver is not None and driver.exit_reason
        assert linked.running(d.stream.name) == 0  # as the manager's page tells a person, too
        told(d.run("declare_gone", epoch=driver.epoch, reason="no manager has it"))
        by_hand.append(
            "nobody can tell whether the manager has taken the driver, and a person does"
        )
    elif driver is None or not driver.state.alive:
        told(d.materialize())
    return d.status() is not None
