"""Pod templates and the tag `dagster-k8s/config`, parsed as dagster-k8s parses them at a launch.

Where that package is not there (the extra `k8s` brings it) nothing is parsed. Nor is it in the
process of a run, which reads a declaration that was accepted, and would pay a second for it.
"""

import importlib.metadata
import importlib.util
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dagster_sparkscale.declare.faults import did_you_mean, shown
from dagster_sparkscale.private_dagster import is_of_a_run

TAG = "dagster-k8s/config"
_CONTAINED = re.compile(r"(list|dict)[\[(](?:[^,\])]*, ?)?([A-Za-z0-9_]+)[\])]")
"""A list or a dict among the types of the models of Kubernetes' client."""
_MODELS = {
    "container_config": "V1Container",
    "pod_template_spec_metadata": "V1ObjectMeta",
    "pod_spec_config": "V1PodSpec",
    "job_config": "V1Job",
    "job_metadata": "V1ObjectMeta",
    "job_spec_config": "V1JobSpec",
}


def fault_of_pod(template: Mapping[str, Any]) -> str | None:
    """What is wrong with a pod template, in words that name the field and its value; None: nothing
    that is known."""
    if not template or not _may_parse():
        return None
    from dagster_k8s.models import k8s_snake_case_dict
    from kubernetes.client import models

    # A template is handed on as it is: names as Kubernetes itself has them.
    for fault in _faults(models, "V1Pod", template, "", snake_case=False):
        return fault
    try:
        k8s_snake_case_dict(models.V1Pod, template)
    except Exception as error:  # it raises plain exceptions
        return _in_one_line(error)
    return None


def fault_of_tags(tags: Mapping[str, Any]) -> str | None:
    """What is wrong with the tag `dagster-k8s/config` among `tags`, likewise."""
    if TAG not in tags or not _may_parse():
        return None
    from dagster_k8s.job import get_user_defined_k8s_config
    from kubernetes.client import models

    declared = tags[TAG]
    try:
        # As Dagster keeps tags.
        text = declared if isinstance(declared, str) else json.dumps(declared)
        get_user_defined_k8s_config({TAG: text})
    except Exception as error:
        config = declared if isinstance(declared, Mapping) else {}
        for name in _MODELS.keys() & config.keys():
            for fault in _faults(models, _MODELS[name], config[name], name, snake_case=True):
                return f"{TAG}: {fault}"
        return f"{TAG} = {shown(declared)}: {_in_one_line(error)}"
    return None


def _may_parse() -> bool:
    return importlib.util.find_spec("dagster_k8s") is not None and not is_of_a_run()


def _faults(models: Any, kind: str, value: Any, path: str, snake_case: bool) -> Iterator[str]:
    """Describe each field of `value` that the client's model of Kubernetes lacks."""
    if contained := _CONTAINED.fullmatch(kind):
        whole, part = contained.groups()
        right = Mapping if whole == "dict" else list | tuple
        if not isinstance(value, right):
            yield f"{path} = {shown(value)}: must be a {whole}"
            return
        each = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in each:
            yield from _faults(models, part, item, f"{path}[{key}]", snake_case)
        return
    model = getattr(models, kind, None)
    if model is None or value is None:
        return
    if not isinstance(value, Mapping):
        yield f"{path} = {shown(value)}: must be a dict"
        return
    known = {camel: attribute for attribute, camel in model.attribute_map.items()}
    known |= {attribute: attribute for attribute in known.values()} if snake_case else {}
    for key, item in value.items():
        place = f"{path}.{key}" if path else str(key)
        if key in known:
            yield from _faults(models, model.openapi_types[known[key]], item, place, snake_case)
        else:
            # What stands beside a misspelt name of a variable may be its secret value.
            value_text = "" if kind == "V1EnvVar" else f" = {shown(item)}"
            near = did_you_mean(key, known)
            no_such = f"{kind[2:]} of Kubernetes has no such field (client {_version()})"
            yield f"{place}{value_text}: {no_such}{f';{near}' if near else ''}"


def _version() -> str:
    """The version of Kubernetes' client: a newer one may know more fields."""
    return importlib.metadata.version("kubernetes")


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
