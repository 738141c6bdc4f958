"""Starts of the stream `clicks` on an API server in memory, and what is asked of them."""

from typing import Any

from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.clusters.kubernetes.drivers import PodDriver
from dagster_sparkscale.clusters.kubernetes.manifests import CERTIFICATE, TOKEN, Objects
from dagster_sparkscale.clusters.kubernetes.templates import Placing
from dagster_sparkscale.clusters.records.store import Process, Record, Submission
from tests.clusters.kubernetes.memory import NAMESPACE, Client, Server
from tests.clusters.kubernetes.pods import event

HERE = Process("here", 7, "b")
RECORD = Record("1" * 16, 3, "running", 1.0, "here", (Submission(3, 1.0, "manual"),), HERE)
NAME = "sparkscale-clicks-3"
PLACE = f"pod streams/{NAME}"


def driver(server: Server, record: Record = RECORD, **how: Any) -> PodDriver:
    client = how.pop("client", None) or Client(server)
    return PodDriver(client, "clicks", record, how.pop("forward", False), **how)


def fails(server: Server, at: str, error: Exception) -> Client:
    def fail(call: str) -> None:
        if call.startswith(at):
            raise error

    return Client(server, fail)


def launched(server: Server, epoch: int = 3, stream: str = "clicks", id: str = "1" * 16) -> str:
    """A start of which all is there. Returns the name of its pod, which waits."""
    objects, client = Objects(stream, epoch, id, Placing(NAMESPACE, "spark", "", 1)), Client(server)
    root = client.create("secrets", objects.secret({TOKEN: "word", CERTIFICATE: "cert"}, {}))
    uid = root["metadata"]["uid"]
    client.create("configmaps", objects.config_map(uid, {}, b""))
    client.create("pods", objects.driver(uid, [], [], {}))
    return objects.name


def runs(server: Server, epoch: int = 3) -> str:
    name = launched(server, epoch)
    server.settles()
    assert name in server.running()
    return name


def executor(server: Server, name: str, **other: str) -> None:
    labels = {**names.labels("clicks", 3, "1" * 16), "spark-role": "executor", **other}
    Client(server).create("pods", {"metadata": {"name": name, "labels": labels}, "spec": {}})


def tell(server: Server, reason: str, message: str, kind: str = "Warning") -> None:
    about = {"kind": "Pod", "name": NAME}
    made = event(reason, message, "2027-01-15T07:59:00Z", kind)
    made |= {"metadata": {"name": f"e-{len(server.objects)}"}, "involvedObject": about}
    Client(server).create("events", made)
