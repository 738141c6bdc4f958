"""A damaged connection between Dagster and the API server of Kubernetes.

A stream is started, and later stopped, over it. Whatever the runs say, there is one driver in the
end and no second pod of one, and once the connection is well the stream runs and stops as asked.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import dagster as dg
import pytest
import yaml

from dagster_sparkscale import KubernetesCluster
from dagster_sparkscale.clusters import spark_cluster
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.lifecycle import reconcile
from dev.kubernetes.granted import apply, kubeconfig
from dev.kubernetes.running import Cluster
from dev.toxiproxy.proxy import Link, Toxiproxy
from tests.clusters.running import stream
from tests.e2e.deployment import Deployment, deployed, failure, told
from tests.faults.real.links import Damage
from tests.faults.real.watched import Record, recovers, ticked
from tests.kubernetes import namespace, phase

_ANSWERED = 3_000
"""Bytes: about what the API server answers at once here."""


@dataclass(frozen=True)
class Linked:
    kubernetes: Cluster
    space: str
    cluster: KubernetesCluster
    """Reaches the API server over the link."""
    link: Link

    def driver_pods(self, name: str) -> list[str]:
        """The phases of all pods of drivers of a stream, asked for beside the link."""
        label = f"labelSelector={names.STREAM}={names.short_name(name)},spark-role=driver"
        pods = self.kubernetes.api.items(f"/api/v1/namespaces/{self.space}/pods?{label}")
        return [phase(each) for each in pods]


@contextmanager
def linked(kubernetes: Cluster, folder: Path, toxiproxy: Toxiproxy) -> Iterator[Linked]:
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
        yield Linked(kubernetes, space, cluster, link)


def play(linked: Linked, damage: Damage, folder: Path, record: Record) -> None:
    name = f"over_{damage.name.lower()}"
    with pytest.MonkeyPatch.context() as patch:
        # A start that nothing is heard of is not waited for as on a busy machine.
        patch.setattr(reconcile, "START_WAIT", 30.0)
        patch.setattr(spark_cluster, "ANNOUNCE_SECONDS", 30.0)
        _play(linked, damage, name, folder, record)


def _play(linked: Linked, damage: Damage, name: str, folder: Path, record: Record) -> None:
    with deployed(linked.cluster, stream(name, "rate.py"), folder) as d:
        with linked.link.damaged(damage.toxics(_ANSWERED)):
            said = f"the start: {_outcome(d.materialize())}"
            ticked(d)
        recovers(record, "its driver to answer", lambda: _started(d))
        assert linked.driver_pods(name) == ["Running"]
        epochs = [start.epoch for start in d.cluster.history(name)]
        assert epochs == list(range(1, len(epochs) + 1))
        with linked.link.damaged(damage.toxics(_ANSWERED)):
            said += f"; the stop: {_outcome(d.run('stop', reason='a fault is played'))}"
            ticked(d)
        assert told(d.run("stop", reason="again"))["state"] == "stopped"
        assert d.driver().state is DriverState.STOPPED
        assert "Running" not in linked.driver_pods(name)
        record("seen", said)


def _outcome(result: dg.ExecuteInProcessResult) -> str:
    if result.success:
        return "done"
    text = failure(result)
    assert "Kubernetes" in text or "no answer" in text or "API server" in text, text
    return "failed, and said why"


def _started(d: Deployment) -> bool:
    """Whether its driver answers, after it was started again as a person would whose run failed."""
    ticked(d)
    driver = d.cluster.find(d.stream.name)
    if driver is None or not driver.state.alive:
        told(d.materialize())
    return d.status() is not None
