"""A namespace for streams with what the manifests in deploy/ grant, and nothing more."""

import copy
import json
from pathlib import Path
from typing import Any

import yaml

from dev.kubernetes.api import Refused
from dev.kubernetes.running import Cluster, make_namespace

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
DAGSTER = "dagster"
"""Dagster's namespace, and its service account there, as the manifests have them."""
USER = f"system:serviceaccount:{DAGSTER}:{DAGSTER}"
_KINDS = {
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1", "clusterroles"),
    "ClusterRoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings"),
}


def apply(kubernetes: Cluster, space: str, *manifests: str) -> None:
    """What `kubectl apply -n SPACE -f MANIFEST` does with the manifests of deploy/kubernetes."""
    for name in manifests:
        for each in yaml.safe_load_all((DEPLOY / name).read_text()):
            group, kind = _KINDS[each["kind"]]
            where = "" if each["kind"].startswith("Cluster") else f"/namespaces/{space}"
            _see_to(kubernetes, f"{group}{where}/{kind}", copy.deepcopy(each))


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


def kubeconfig(kubernetes: Cluster, space: str) -> Path:
    """A kubeconfig for Dagster's service account, which may do what was granted to it."""
    try:
        make_namespace(kubernetes.api, DAGSTER)
    except Refused as refused:
        assert refused.status == 409, refused
    accounts = f"/api/v1/namespaces/{DAGSTER}/serviceaccounts"
    _see_to(kubernetes, accounts, {"metadata": {"name": DAGSTER}})
    told: dict[str, Any] = json.loads(kubernetes.kubeconfig.read_text())
    told["users"][0]["user"] = {"token": kubernetes.token(DAGSTER, DAGSTER)}
    told["contexts"][0]["context"]["namespace"] = space
    path = kubernetes.folder / f"dagster-{space}"
    path.touch(0o600)
    path.write_text(json.dumps(told))
    return path


def _see_to(kubernetes: Cluster, path: str, body: dict[str, Any]) -> None:
    try:
        kubernetes.api.create(path, body)
    except Refused as refused:
        if refused.status != 409:
            raise
