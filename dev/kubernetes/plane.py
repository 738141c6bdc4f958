"""The control plane: etcd, the API server and the controllers. They end with this process."""

import json
import secrets
import subprocess
import time
from pathlib import Path

from dev.daemons import Daemons, tail
from dev.kubernetes.api import Api, Refused
from dev.processes import port_to_use

_START_SECONDS = 120.0
_SERVER = "kube-apiserver"
_CONTROLLERS = (
    "garbage-collector-controller",
    "resourcequota-controller",
    "serviceaccount-controller",
    "namespace-controller",
    "root-ca-certificate-publisher-controller",
    "statefulset-controller",
    "deployment-controller",
    "replicaset-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "disruption-controller",
)
_AUDIT = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
# What Dagster and drivers ask, and nothing of what the cluster itself does.
- level: None
  namespaces: [kube-system]
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: None
"""

AWAY = "api-server-away"
"""Name of a file in a cluster's folder: as long as it is there, the API server is not."""
TETHERED = ("setpriv", "--pdeathsig", "KILL")
"""Begins the command of what must not outlive the thread that starts it."""


class DidNotStart(RuntimeError):
    """A part of the cluster did not come up; carries what it said last."""


class Plane(Daemons):
    """A control plane.

    `api` is its administrator's way in.
    """

    def __init__(self, program: Path, folder: Path, address: str, services: str) -> None:
        """
        Args:
            folder: for its files; its owner alone may read it.
            address: that the API server listens at, on port 443.
            services: the range of Services' addresses, in which that is the first.
        """
        self._program, self._folder = program, folder
        self._address, self._services = address, services
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        token = secrets.token_hex(16)
        self.api = Api(f"https://{address}", folder / "certificates" / "apiserver.crt", token)
        self.kubeconfig = folder / "kubeconfig"

    @property
    def certificate(self) -> tuple[Path, Path]:
        """The API server's certificate and its key, for others at its address."""
        return self.api.certificate, self.api.certificate.with_suffix(".key")

    def start(self) -> None:
        """
        Raises:
            DidNotStart: one of its parts did not come up.
        """
        folder, address = self._folder, self._address
        etcd, peer = (f"http://127.0.0.1:{port_to_use(0)}" for _ in range(2))
        self._run(
            "etcd",
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",  # it need not outlive a power cut
        )
        tokens, audit, key = folder / "tokens.csv", folder / "audit.yaml", folder / "accounts.key"
        tokens.write_text(f"{self.api.token},admin,admin,system:masters\n")
        audit.write_text(_AUDIT)
        _make_key(key)
        self._server_options = [
            f"--etcd-servers={etcd}",
            f"--cert-dir={self.api.certificate.parent}",
            f"--bind-address={address}",
            f"--advertise-address={address}",
            "--secure-port=443",
            f"--service-cluster-ip-range={self._services}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--endpoint-reconciler-type=none",
            "--enable-priority-and-fairness=false",
            "--kubelet-preferred-address-types=InternalIP",
            f"--audit-policy-file={audit}",
            f"--audit-log-path={folder / 'audit.log'}",
        ]
        self.start_api_server()
        self.kubeconfig.write_text(json.dumps(self._kubeconfig()))
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--service-account-private-key-file={key}",
            f"--root-ca-file={self.api.certificate}",
            f"--controllers={','.join(_CONTROLLERS)}",
            "--concurrent-gc-syncs=5",
        )

    def _run(self, name: str, *options: str) -> None:
        with open(self._folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                [*TETHERED, str(self._program), name, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started[name] = process

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not self._is_ready():
            if ended := self.ended():
                raise DidNotStart(ended)
            if time.monotonic() > deadline:
                said = "\n".join(map(self._said_by, self._started))
                raise DidNotStart(f"not ready after {_START_SECONDS:g} s\n{said}")
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        try:
            return self.api.certificate.exists() and self.api.ask("GET", "/readyz").ok
        except (Refused, OSError):
            return False

    def start_api_server(self) -> None:
        """
        Raises:
            DidNotStart: it did not come up.
        """
        self._run(_SERVER, *self._server_options)
        self._wait_until_ready()

    def end_api_server(self) -> None:
        """Have an outage: whoever talks to it is refused a connection."""
        process = self._started.pop(_SERVER)
        process.kill()
        process.wait()

    def ended(self) -> str | None:
        """What there is to say of a part that has ended although nobody ended it."""
        for name, process in self._started.items():
            if (code := process.poll()) is not None:
                return f"{name} ended with {code}:\n{self._said_by(name)}"
        return None

    def _said_by(self, name: str) -> str:
        return tail(self._folder / f"{name}.log", 15)

    def _kubeconfig(self) -> object:
        server = {
            "server": self.api.server,
            "certificate-authority": str(self.api.certificate),
        }
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": server}],
            "users": [{"name": "admin", "user": {"token": self.api.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            "current-context": "test",
        }

    def end(self) -> None:
        """End all parts, those that need the others first. Killed: nothing of them is kept."""
        for name in ("kube-controller-manager", _SERVER, "etcd"):
            if (process := self._started.get(name)) is not None:
                process.kill()
                process.wait()


def _make_key(path: Path) -> None:
    """A private key that the tokens of service accounts are signed with."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    path.write_bytes(
        rsa.generate_private_key(65537, 2048).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
