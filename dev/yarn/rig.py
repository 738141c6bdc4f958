"""A real ResourceManager with two NodeManagers, for tests: they run real containers.

They end with who wanted them (`dev/hadoop/rig.py`): `python -m dev.yarn` keeps them.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509.oid import NameOID

from dev.hadoop.rig import HadoopRig, kept
from dev.hadoop.settings import xml
from dev.processes import port_to_use
from dev.yarn import settings
from dev.yarn.settings import Ports

_MAIN = "org.apache.hadoop.yarn.server."
_RM = _MAIN + "resourcemanager.ResourceManager"
_NM = _MAIN + "nodemanager.NodeManager"
_PROXY = _MAIN + "webproxy.WebAppProxyServer"
_CERTIFICATE = "certificate.pem"
_PASSWORD = "changeit"
"""Of a key that lives as long as a rig."""


@dataclass(frozen=True)
class Address:
    """What a client of a rig needs to know."""

    url: str
    """Of the ResourceManager's web services."""
    conf_dir: str
    """HADOOP_CONF_DIR of its clients."""
    folder: str
    mark: str
    ca_file: str | None = None
    """By which its web services are known, where they speak HTTPS."""
    proxy: str | None = None
    """Of the web proxy, where that is a server of its own."""


class Rig(HadoopRig):
    """A ResourceManager and its NodeManagers. Not started yet.

    Args:
        folder: takes settings, logs and what containers work with.
        aggregate: whether logs are gathered once an application has ended.
        passed: variables of this environment that containers inherit.
        https: whether all web services speak HTTPS alone (`yarn.http.policy`).
        proxy: whether the web proxy is a server of its own (`yarn.web-proxy.address`).
    """

    def __init__(
        self,
        folder: Path,
        aggregate: bool = False,
        passed: Sequence[str] = (),
        https: bool = False,
        proxy: bool = False,
    ) -> None:
        super().__init__(folder)
        self._https, self._proxy = https, proxy
        self._aggregate, self._passed = aggregate, passed

    @property
    def address(self) -> Address:
        conf = self.folder / "conf"
        scheme, proxy = "https" if self._https else "http", self._ports.proxy
        return Address(
            f"{scheme}://127.0.0.1:{self._ports.web}",
            str(conf),
            str(self.folder),
            self.mark,
            str(self.folder / _CERTIFICATE) if self._https else None,
            f"{scheme}://127.0.0.1:{proxy}" if proxy else None,
        )

    def start(self) -> None:
        """Start all, the jars installed first where need be, and wait until nodes are there.

        Raises:
            RigFailed: a daemon has ended, or does not answer.
        """
        self._write()
        self.start_manager()
        for number in range(settings.NODES):
            self.launch(f"node{number}", _NM)
        if self._proxy:
            self.launch("proxy", _PROXY)
        self.wait_until("all nodes", lambda: self._nodes() >= settings.NODES)

    def start_manager(self) -> None:
        self.launch("rm", _RM)

    def kill_manager(self) -> None:
        """Kill the ResourceManager, as where its machine fails. It has no recovery: one that is
        started after it knows of nothing."""
        self.kill("rm")

    def kill_proxy(self) -> None:
        """Kill the web proxy, which is a server of its own."""
        self.kill("proxy")

    def told(self) -> str:
        return json.dumps(asdict(self.address))

    def _write(self) -> None:
        nodes = [(port_to_use(0), port_to_use(0), port_to_use(0)) for _ in range(settings.NODES)]
        client, scheduler, tracker, admin, web = (port_to_use(0) for _ in range(5))
        proxy = port_to_use(0) if self._proxy else None
        self._ports = Ports(client, scheduler, tracker, admin, web, nodes, proxy)
        here = str(self.folder)
        common = settings.yarn(here, self._ports, self._aggregate, self._passed, self._https)
        places: dict[str, dict[str, str]] = {"conf": {}, "rm": {}}
        places |= {
            f"node{number}": settings.node(here, number, self._ports, self._https)
            for number in range(settings.NODES)
        }
        places |= {"proxy": {}} if self._proxy else {}
        if self._https:
            self.folder.mkdir(parents=True, exist_ok=True)
            keystore = self.folder / "keystore"
            keystore.write_bytes(certified(self.folder / _CERTIFICATE, _PASSWORD))
            served = xml(settings.server(str(keystore), _PASSWORD))
        for name, more in places.items():
            conf = self.folder / name if name == "conf" else self.conf(name)
            conf.mkdir(parents=True, exist_ok=True)
            (conf / "core-site.xml").write_text(xml(settings.common(here)))
            (conf / "yarn-site.xml").write_text(xml(common | more))
            (conf / "capacity-scheduler.xml").write_text(xml(settings.queues()))
            if self._https:
                (conf / "ssl-server.xml").write_text(served)

    def _nodes(self) -> int:
        try:
            address = self.address
            url = f"{address.url}/ws/v1/cluster/metrics"
            answer = requests.get(url, timeout=5, verify=address.ca_file or True)
            return int(answer.json()["clusterMetrics"]["activeNodes"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0


def certified(certificate: Path, password: str) -> bytes:
    """A keystore (PKCS 12) of who answers on the loopback; its certificate is written there."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rig")])
    now = datetime.now(UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    locked = BestAvailableEncryption(password.encode())
    return serialize_key_and_certificates(b"rig", key, made, None, locked)


@contextmanager
def tethered(
    folder: Path, aggregate: bool = False, passed: Sequence[str] = ()
) -> Iterator[Address]:
    """A rig kept by a process of its own, which ends it with this context or with this process.

    Raises:
        RigFailed: it did not come up; carries what it said.
    """
    options = ["--aggregate"] if aggregate else []
    options += [part for name in passed for part in ("--pass", name)]
    with kept("dev.yarn", folder, *options) as line:
        yield Address(**json.loads(line))
