"""The settings of a small YARN on the loopback interface. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from dev.hadoop.settings import HERE, MARK

NODES = 2
NODE_MEMORY_MB = 8192
NODE_CORES = 6
NARROW = "narrow"
"""A queue that runs one application, lets a second one wait, and refuses a third."""


@dataclass(frozen=True)
class Ports:
    """Of the ResourceManager, and of each NodeManager."""

    client: int
    scheduler: int
    tracker: int
    admin: int
    web: int
    nodes: Sequence[tuple[int, int, int]]
    """Containers, localizer, web."""
    proxy: int | None = None
    """Of a web proxy that is a server of its own; None: the ResourceManager is it."""


def common(folder: str) -> dict[str, str]:
    """core-site.xml: files lie in this machine's file system."""
    return {"fs.defaultFS": "file:///", "hadoop.tmp.dir": f"{folder}/tmp"}


def yarn(
    folder: str, ports: Ports, aggregate: bool, passed: Sequence[str] = (), https: bool = False
) -> dict[str, str]:
    """yarn-site.xml, of the ResourceManager and of who asks it.

    Args:
        aggregate: whether the logs of containers are gathered once an application has ended.
        https: whether all web services speak HTTPS alone.
        passed: variables that containers inherit of the NodeManager's environment.
    """
    inherited = ("JAVA_HOME", "PATH", "LANG", MARK, *passed)
    web = "webapp.https" if https else "webapp"
    proxy = {"yarn.web-proxy.address": f"{HERE}:{ports.proxy}"} if ports.proxy else {}
    return {
        "yarn.http.policy": "HTTPS_ONLY" if https else "HTTP_ONLY",
        **proxy,
        "yarn.resourcemanager.hostname": HERE,
        "yarn.resourcemanager.address": f"{HERE}:{ports.client}",
        "yarn.resourcemanager.scheduler.address": f"{HERE}:{ports.scheduler}",
        "yarn.resourcemanager.resource-tracker.address": f"{HERE}:{ports.tracker}",
        "yarn.resourcemanager.admin.address": f"{HERE}:{ports.admin}",
        f"yarn.resourcemanager.{web}.address": f"{HERE}:{ports.web}",
        # Two of them are on one host.
        "yarn.scheduler.include-port-in-node-name": "true",
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "200",
        "yarn.nodemanager.resource.memory-mb": str(NODE_MEMORY_MB),
        "yarn.nodemanager.resource.cpu-vcores": str(NODE_CORES),
        # Whatever this machine has: it is for tests.
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.enable": "false",
        "yarn.nodemanager.env-whitelist": ",".join(inherited),
        "yarn.nodemanager.delete.debug-delay-sec": "0",
        "yarn.nodemanager.remote-app-log-dir": f"{folder}/aggregated",
        "yarn.log-aggregation-enable": str(aggregate).lower(),
        # RM and NMs of 3.x start one unless told not to, and it wants a port of its own.
        "yarn.timeline-service.enabled": "false",
    }


def server(keystore: str, password: str) -> dict[str, str]:
    """ssl-server.xml: what the web services speak HTTPS by."""
    return {
        "ssl.server.keystore.location": keystore,
        "ssl.server.keystore.type": "pkcs12",
        "ssl.server.keystore.password": password,
        "ssl.server.keystore.keypassword": password,
    }


def node(folder: str, number: int, ports: Ports, https: bool = False) -> dict[str, str]:
    """What yarn-site.xml of one NodeManager has besides."""
    containers, localizer, port = ports.nodes[number]
    web = "webapp.https" if https else "webapp"
    return {
        "yarn.nodemanager.hostname": HERE,
        "yarn.nodemanager.address": f"{HERE}:{containers}",
        "yarn.nodemanager.localizer.address": f"{HERE}:{localizer}",
        f"yarn.nodemanager.{web}.address": f"{HERE}:{port}",
        "yarn.nodemanager.local-dirs": f"{folder}/node{number}/local",
        "yarn.nodemanager.log-dirs": f"{folder}/node{number}/logs",
    }


def queues() -> dict[str, str]:
    """capacity-scheduler.xml: the queue `default`, and one that is soon full."""
    root = "yarn.scheduler.capacity.root"
    return {
        "yarn.scheduler.capacity.resource-calculator": (
            "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"
        ),
        "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
        f"{root}.queues": f"default,{NARROW}",
        f"{root}.default.capacity": "90",
        f"{root}.default.maximum-capacity": "100",
        f"{root}.default.user-limit-factor": "10",
        f"{root}.{NARROW}.capacity": "10",
        f"{root}.{NARROW}.user-limit-factor": "10",
        # Room for one ApplicationMaster: the first is always let in.
        f"{root}.{NARROW}.maximum-am-resource-percent": "0.01",
        f"{root}.{NARROW}.maximum-applications": "2",
    }
