"""A namespace for streams with what the manifests in deploy/ grant, and nothing more."""

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from dev.kubernetes.api import Refused
from dev.kubernetes.running import Cluster, Reached, make_namespace

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
DAGSTER = "dagster"
"""Dagster's namespace, and its service account there, as the manifests have them."""
USER = f"system:serviceaccount:{DAGSTER}:{DAGSTER}"


def apply(kubernetes: Reached, space: str, *manifests: str) -> None:
    """What `kubectl apply -n SPACE -f MANIFEST` does with the manifests of deploy/kubernetes."""
    for name in manifests:
        for each in yaml.safe_load_all((DEPLOY / name).read_text()):
            made = copy.deepcopy(each)
            for subject in made.get("subjects") or []:
                if subject.get("namespace") == DAGSTER:
                    subject["namespace"] = _dagster_of(kubernetes, space)
            _see_to(kubernetes, place_of(kubernetes, space, each), made)


def place_of(kubernetes: Reached, space: str, manifest: Mapping[str, Any]) -> str:
    """The path where an object is made, as the API server says: in `space`, or in no namespace.

    Raises:
        LookupError: the API server knows no such kind.
    """
    version = manifest["apiVersion"]
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    found = kubernetes.api.get(group) or {"resources": []}
    for each in found["resources"]:
        if each["kind"] == manifest["kind"] and "/" not in each["name"]:
            return f"{group}{f'/namespaces/{space}' if each['namespaced'] else ''}/{each['name']}"
    raise LookupError(f"no {manifest['kind']} of {version}")


def granted(*manifests: str) -> set[tuple[str, str]]:
    """Resource and verb of all that the Roles in manifests grant."""
    return {
        (resource, verb)
        for name in manifests
        for each in yaml.safe_load_all((DEPLOY / name).read_text())
        for rule in each.get("rules") or []
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def kubeconfig(kubernetes: Reached, space: str) -> Path:
    """A kubeconfig for Dagster's service account, which may do what was granted to it."""
    dagster = _dagster_of(kubernetes, space)
    if dagster != space:
        try:
            make_namespace(kubernetes.api, dagster)
        except Refused as refused:
            assert refused.status == 409, refused
    _see_to(
        kubernetes, f"/api/v1/namespaces/{dagster}/serviceaccounts", {"metadata": {"name": DAGSTER}}
    )
    api = kubernetes.api
    server = {"server": api.server, "certificate-authority": str(api.certificate.resolve())}
    told = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": server}],
        "users": [{"name": DAGSTER, "user": {"token": kubernetes.token(dagster, DAGSTER)}}],
        "contexts": [
            {
                "name": "test",
                "context": {"cluster": "test", "user": DAGSTER, "namespace": space},
            }
        ],
        "current-context": "test",
    }
    path = kubernetes.folder / f"dagster-{space}"
    path.touch(0o600)
    path.write_text(json.dumps(told))
    return path


def _dagster_of(kubernetes: Reached, space: str) -> str:
    """Dagster's namespace. In a cluster that is somebody's there may be a real one of that name."""
    return DAGSTER if isinstance(kubernetes, Cluster) else space


def _see_to(kubernetes: Reached, path: str, body: dict[str, Any]) -> None:
    try:
        kubernetes.api.create(path, body)
    except Refused as refused:
        if refused.status != 409:
            raise
