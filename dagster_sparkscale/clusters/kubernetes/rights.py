"""What Dagster must be let do in the namespace of the streams, by what is in deploy/kubernetes."""

from collections.abc import Mapping, Sequence

from dagster_sparkscale.clusters.kubernetes.api import Api

NEEDED: Mapping[str, Mapping[str, Sequence[str]]] = {
    "dagster.yaml": {
        "pods": ("get", "list", "create", "delete", "deletecollection"),
        "pods/log": ("get",),
        "events": ("list",),
        "configmaps": ("get", "list", "create", "update"),
        "secrets": ("get", "list", "create", "patch", "delete"),
        "services": ("create",),
        "serviceaccounts": ("get",),
    },
    "outside.yaml": {"pods/portforward": ("get", "create")},
    "applications.yaml": {"sparkapplications": ("get", "list", "create", "delete")},
}
"""The needed verbs of each resource, by the manifest that grants them."""
_OPERATORS = {("pods", "create")}
"""What an operator does, where there is one."""


def lacking(api: Api, manifest: str, applications: str | None = None) -> list[str]:
    """The rights of a manifest that are missing, such as `create pods`. Everybody may ask that.

    Args:
        applications: the API group of the operator's applications.

    Raises:
        ClusterError: the API server does not say.
    """
    group = f"{applications}:" if manifest == "applications.yaml" else ""
    return [
        f"{verb} {resource}"
        for resource, verbs in NEEDED[manifest].items()
        for verb in verbs
        if not (applications and (resource, verb) in _OPERATORS)
        and not api.may(verb, f"{group}{resource}")
    ]
