"""Dagster in a pod, by the service account that deploy/kubernetes/dagster.yaml is for."""

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dev.kubernetes.granted import DAGSTER, USER, apply, kubeconfig
from dev.kubernetes.running import Cluster
from tests.clusters.running import PROGRAMS
from tests.kubernetes import create, ended, logs, namespace, pod, see

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark]

ROOT = Path(__file__).parents[3]


@pytest.fixture
def programs(kubernetes: Cluster) -> Iterator[str]:
    """The URL of the tests' programs, for pods."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(PROGRAMS))
    address = urlsplit(kubernetes.api.server).hostname
    assert address
    with ThreadingHTTPServer((address, 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        yield f"http://{address}:{server.server_port}"
        server.shutdown()


def test_agents_are_reached_by_their_services_and_a_program_by_its_url(
    kubernetes: Cluster, programs: str
) -> None:
    with namespace(kubernetes, "inside") as space:
        apply(kubernetes, space, "dagster.yaml", "driver.yaml")
        kubeconfig(kubernetes, space)  # makes the account
        words = ("-m", "tests.clusters.kubernetes.on_the_inside", space, f"{programs}/rate.py")
        made = pod(
            "dagster",
            *("python3", *words),
            serviceAccountName=DAGSTER,
            workingDir=str(ROOT),
            env=[{"name": "PYTHONPATH", "value": str(ROOT)}],
        )
        api = kubernetes.api
        api.delete(f"/api/v1/namespaces/{DAGSTER}/pods/dagster")
        create(api, DAGSTER, "pods", made)
        over = ended(see(api, DAGSTER, "dagster", "done", ended))
        said = logs(api, DAGSTER, "dagster")
        assert over and over["exitCode"] == 0, said
        assert f"reached at sparkscale-inside-1.{space}.svc, and " in said
        asked = [each["objectRef"] for each in kubernetes.asked(USER) if "objectRef" in each]
        assert not any(
            each.get("subresource") == "portforward"
            for each in asked
            if each.get("namespace") == space
        )
        api.delete(f"/api/v1/namespaces/{DAGSTER}/pods/dagster")
