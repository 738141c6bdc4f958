"""How the API server of a cluster is reached: from inside it, or by a kubeconfig.

Inside, the token of this pod's service account is a file that Kubernetes replaces every hour, so it
is read for each call. A kubeconfig is the `kubernetes` package's to understand (programs that make
tokens, OpenID, certificates); that is imported for it alone, as it takes a while.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dagster_sparkscale.clusters.errors import ClusterError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
LOGIN_SECONDS = 20.0
"""Seconds for the program by which a kubeconfig logs in, such as `aws eks get-token`."""
_BOUNDED = Path(__file__).parent / "bounded.py"
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


@dataclass(frozen=True)
class Access:
    """The API server, and what it knows us by."""

    url: str
    inside: bool
    """Whether this is a pod of the cluster."""
    headers: Callable[[], Mapping[str, str]] = field(repr=False)
    """What each call carries. Secret."""
    tls: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """TLS arguments of urllib3."""
    proxy: str | None = None
    configuration: Any = field(default=None, repr=False)
    """The `kubernetes` package's; None inside a cluster."""
    namespace: str | None = None
    """The namespace of this pod, or of the kubeconfig's context."""


def access_to(kubeconfig: str | None, context: str | None) -> Access:
    """The access declared: by `kubeconfig`, or, where none is named, as a pod of the cluster, or
    else by the default one ($KUBECONFIG, ~/.kube/config).

    Raises:
        ClusterError: no kubeconfig or service account is there, or it can't be read.
    """
    if kubeconfig is None and context is None and os.environ.get(_HOST):
        return _inside()
    return _by_kubeconfig(kubeconfig, context)


def stamp(kubeconfig: str | None) -> object:
    """Changes whenever a kubeconfig does."""
    paths = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    found = []
    for path in paths.split(os.pathsep):
        try:
            status = os.stat(os.path.expanduser(path))
            found.append((status.st_ino, status.st_mtime_ns, status.st_size))
        except OSError:
            found.append((0, 0, 0))
    return tuple(found)


def _inside() -> Access:
    def headers() -> Mapping[str, str]:
        return {"Authorization": f"Bearer {_read(ACCOUNT / 'token')}"}

    host = os.environ[_HOST]
    host = f"[{host}]" if ":" in host else host
    headers()  # said at once where there is none
    return Access(
        f"https://{host}:{os.environ.get(_PORT, '443')}",
        True,
        headers,
        {"cert_reqs": "CERT_REQUIRED", "ca_certs": str(ACCOUNT / "ca.crt")},
        namespace=_read(ACCOUNT / "namespace"),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise ClusterError(
            f"{path}: can't read it: {error.strerror}. This pod needs the token of a service "
            "account (automountServiceAccountToken), or name a kubeconfig"
        ) from None


def _by_kubeconfig(kubeconfig: str | None, context: str | None) -> Access:
    try:
        from kubernetes import client, config
        from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION, KubeConfigMerger
    except ImportError as error:
        raise ClusterError(
            f"a kubeconfig needs the package kubernetes: pip install 'dagster-sparkscale[k8s]' "
            f"({error})"
        ) from None
    named = kubeconfig or "$KUBECONFIG or ~/.kube/config"
    configuration = client.Configuration()
    try:
        merged = KubeConfigMerger(kubeconfig or KUBE_CONFIG_DEFAULT_LOCATION).config
        programs = _bound(merged) if merged else {}
        config.load_kube_config_from_dict(
            merged, context=context, client_configuration=configuration, persist_config=False
        )
        active = merged["contexts"].get_with_name(context or merged["current-context"])["context"]
    except Exception as error:  # of yaml, of files, of the package itself
        raise ClusterError(f"the kubeconfig ({named}) can't be used: {_plain(error)}") from None
    program = programs.get(active.safe_get("user"))
    if program and not (configuration.api_key or configuration.cert_file):
        # The package goes on without one: as nobody, who is refused everything.
        raise ClusterError(
            f"the kubeconfig ({named}) has a login made by a program, which made none: {program!r} "
            f"failed, or had not ended after {LOGIN_SECONDS:g} s. What it said is in the log. Run "
            "it by hand"
        )

    def headers() -> Mapping[str, str]:
        found = configuration.auth_settings().values()
        return {each["key"]: each["value"] for each in found if each["in"] == "header"}

    tls = {
        "cert_reqs": "CERT_REQUIRED" if configuration.verify_ssl else "CERT_NONE",
        "ca_certs": configuration.ssl_ca_cert,
        "cert_file": configuration.cert_file,
        "key_file": configuration.key_file,
        "server_hostname": configuration.tls_server_name,
    }
    return Access(
        configuration.host.rstrip("/"),
        False,
        headers,
        {key: value for key, value in tls.items() if value is not None},
        _proxy(configuration),
        configuration,
        active.safe_get("namespace"),
    )


def _bound(merged: Any) -> dict[str, str]:
    """Bound the programs that make logins, which the package would wait for for ever; each by its
    user. One may ask the person at a terminal something, who can end it: not there."""
    found = {}
    for user in merged.value["users"]:
        program = (user.value.get("user") or {}).get("exec")
        if not program or "command" not in program:
            continue
        words = [str(program["command"]), *map(str, program.get("args") or ())]
        found[user.value["name"]] = words[0]
        if not (sys.stdin and sys.stdin.isatty()):
            program["command"] = sys.executable
            program["args"] = ["-IS", str(_BOUNDED), str(LOGIN_SECONDS), *words]
    return found


def _proxy(configuration: Any) -> str | None:
    """The proxy of $HTTPS_PROXY, unless $NO_PROXY names the API server."""
    from requests.utils import should_bypass_proxies  # as the package itself does

    if should_bypass_proxies(configuration.host, no_proxy=configuration.no_proxy or ""):
        return None
    found: str | None = configuration.proxy
    return found


def _plain(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
