"""A Kubernetes cluster of yours, on which the contract and the scenario run instead of one that
they start.

    SPARKSCALE_TEST_KUBECONFIG  the way to it; of whoever may make namespaces, roles and pods in it
    SPARKSCALE_TEST_CONTEXT     of the kubeconfig; default: its own
    SPARKSCALE_TEST_IMAGE       with Spark; default: spark:4.3.0-python3
    SPARKSCALE_TEST_NAMESPACE   one that is there already, in which all is made and whose pods,
                                Secrets, ConfigMaps and Services of streams are deleted in the end;
                                default: each test makes a namespace, and deletes it
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.clusters.kubernetes.access import Access, access_to
from dev.kubernetes.api import Api
from dev.kubernetes.running import Cluster, Reached
from tests.kubernetes import namespace

_VARIABLE = "SPARKSCALE_TEST_{}"
_KEPT = ("pods", "secrets", "configmaps", "services")


def told(what: str) -> str | None:
    """What the environment says of the cluster that is given; None: nothing."""
    return os.environ.get(_VARIABLE.format(what)) or None


@dataclass
class _Api(Api):
    """Known to the API server by whatever the kubeconfig says."""

    access: Access | None = field(default=None, repr=False)

    def _known_by(self) -> Mapping[str, str]:
        assert self.access is not None
        return self.access.headers()


def given(folder: Path) -> Reached | None:
    """The cluster that is given; None: none is.

    Args:
        folder: for files.

    Raises:
        ClusterError: its kubeconfig can't be used.
    """
    if (path := told("KUBECONFIG")) is None:
        return None
    access = access_to(path, told("CONTEXT"))
    api = _Api(access.url, Path(access.tls["ca_certs"]), "", access=access)
    if "cert_file" in access.tls:
        api._session.cert = (access.tls["cert_file"], access.tls["key_file"])
    return Reached(Path(path), api, folder)


def image_of(kubernetes: Reached) -> str:
    """Of drivers and executors. In a cluster of ours every image is this machine's Spark."""
    return "spark" if isinstance(kubernetes, Cluster) else told("IMAGE") or "spark:4.3.0-python3"


@contextmanager
def space_for(kubernetes: Reached, what: str) -> Iterator[str]:
    """A namespace for one test, in which nothing of it stays."""
    name = None if isinstance(kubernetes, Cluster) else told("NAMESPACE")
    if name is None:
        with namespace(kubernetes, what) as made:
            yield made
        return
    try:
        yield name
    finally:
        ours = f"labelSelector={names.MANAGED}={names.MANAGER}"
        for kind in _KEPT:
            for each in kubernetes.api.items(f"/api/v1/namespaces/{name}/{kind}?{ours}"):
                path = f"/api/v1/namespaces/{name}/{kind}/{each['metadata']['name']}"
                kubernetes.api.delete(path)


def inside(kubernetes: Reached, what: str) -> Cluster:
    """The cluster, if it is one of ours; else what needs its inside is skipped."""
    if not isinstance(kubernetes, Cluster):
        pytest.skip(f"not on a cluster that is given: {what}")
    return kubernetes
