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
}
"""By manifest, the verbs of each resource."""


def lacking(api: Api, manifest: str) -> list[str]:
    """What of a manifest is not granted, such as `create pods`. Everybody may ask that.

    Raises:
        ClusterError: it can't be told.
    """
    return [
        f"{verb} {resource}"
        for resource, verbs in NEEDED[manifest].items()
        for verb in verbs
        if not api.may(verb, resource)
    ]
