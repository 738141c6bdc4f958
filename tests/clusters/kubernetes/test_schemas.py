"""Pod templates and run tags, parsed by dagster-k8s when they are declared."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from dagster._config import process_config
from dagster._core.definitions.definitions_load_context import DefinitionsLoadContext
from dagster_k8s import K8sRunLauncher
from dagster_k8s.job import UserDefinedDagsterK8sConfig

from dagster_sparkscale import DeclarationError, KubernetesCluster, build_defs
from dagster_sparkscale.clusters.kubernetes.schemas import TAG
from tests.clusters.running import stream

DEPLOYED = Path(__file__).parents[3] / "deploy" / "kubernetes"


@pytest.fixture(autouse=True)
def not_in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dagster leaves this process as that of a run, once a test has had a run in it."""
    monkeypatch.setattr(DefinitionsLoadContext, "_instance", None)


@pytest.mark.parametrize("field", ["driver_template", "executor_template"])
@pytest.mark.parametrize(
    ("template", "fault"),
    [
        (
            {"spec": {"nodeSelectr": {"pool": "streams"}}},
            "spec.nodeSelectr = {'pool': 'streams'}: PodSpec of Kubernetes has no such field "
            r"\(client [0-9.]+\); did you mean 'nodeSelector'\?",
        ),
        (
            {"spec": {"containers": [{"name": "driver", "envFrom": [{"secretRf": {}}]}]}},
            r"spec.containers\[0\].envFrom\[0\].secretRf = {}: EnvFromSource of Kubernetes has no",
        ),
        ({"spec": {"tolerations": {"key": "spot"}}}, "spec.tolerations = .*: must be a list"),
        ({"spec": {"securityContext": 185}}, "spec.securityContext = 185: must be a dict"),
        # Right in a tag of Dagster's; in the pods of executors Spark passes it over.
        ({"spec": {"node_selector": {}}}, "spec.node_selector = {}: .* mean 'nodeSelector'"),
        ({"template": {"spec": {}}}, "template = .*: Pod of Kubernetes has no such field"),
    ],
)
def test_a_template_that_no_pod_can_be_made_by_is_refused_by_field_and_value(
    field: str, template: dict[str, Any], fault: str
) -> None:
    with pytest.raises(DeclarationError, match=f"KubernetesCluster: {field}: {fault}"):
        KubernetesCluster(image="spark", **{field: template})


def test_a_template_as_kubernetes_has_pods_is_taken() -> None:
    container = {
        "name": "driver",
        "securityContext": {"capabilities": {"drop": ["ALL"]}},
        "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    spec = {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}
    metadata = {"labels": {"my_team/x": "y"}, "annotations": {"any_thing": "z"}}
    template = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    KubernetesCluster(image="spark", driver_template=template, executor_template=template)


def test_what_stands_beside_a_misspelt_name_is_not_repeated() -> None:
    env = [{"name": "PASSWORD", "vlue": "hunter2"}]
    template = {"spec": {"containers": [{"name": "driver", "env": env}]}}
    with pytest.raises(DeclarationError, match=r"env\[0\].vlue: EnvVar .* mean 'value'") as caught:
        KubernetesCluster(image="spark", driver_template=template)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        (
            {"container_config": {"resorces": {"requests": {"cpu": "250m"}}}},
            "container_config.resorces = {'requests': {'cpu': '250m'}}: Container of Kubernetes "
            r"has no such field .* did you mean 'resources'\?",
        ),
        ({"pod_spec_config": {"nodeSelector": "x"}}, "pod_spec_config.nodeSelector = 'x': must be"),
        ({"containr_config": {}}, "= {'containr_config': {}}: .*unexpected config entry"),
        ({"merge_behavior": "OFTEN"}, "= {'merge_behavior': 'OFTEN'}: .*not in enum type"),
        ("{", "= '{': "),
    ],
)
def test_a_tag_that_no_run_can_be_launched_by_is_refused(config: Any, fault: str) -> None:
    cluster = KubernetesCluster(image="spark")
    with pytest.raises(DeclarationError, match=f"run_tags: {TAG}:? {fault}"):
        build_defs([stream("clicks")], cluster, run_tags={TAG: config})


def test_a_tag_as_dagster_k8s_has_it_is_taken_with_names_of_either_kind() -> None:
    for names in ("nodeSelector", "node_selector"):
        config = {"pod_spec_config": {names: {"pool": "runs"}}, "merge_behavior": "DEEP"}
        build_defs([stream("clicks")], KubernetesCluster(image="spark"), run_tags={TAG: config})


_DECLARE = """
import sys
if {is_run}:
    from dagster._core.definitions.definitions_load_context import *
    DefinitionsLoadContext.set(DefinitionsLoadContext(DefinitionsLoadType.RECONSTRUCTION))
from dagster_sparkscale import KubernetesCluster, StructuredStream, build_defs
cluster = KubernetesCluster(image="spark", driver_template={template})
clicks = StructuredStream(name="clicks", program="local:///a.py", batch_interval="1s")
build_defs([clicks], cluster, run_tags={tags})
print([name for name in ("dagster_k8s", "kubernetes") if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("template", "tags", "is_run", "loaded"),
    [
        ({}, {}, False, []),
        ({"spec": {}}, {TAG: {"container_config": {}}}, False, ["dagster_k8s", "kubernetes"]),
        ({"spec": {}}, {TAG: {"container_config": {}}}, True, []),
    ],
)
def test_neither_a_run_nor_who_declares_neither_pays_for_it(
    template: Any, tags: Any, is_run: bool, loaded: list[str]
) -> None:
    code = _DECLARE.format(template=template, tags=tags, is_run=is_run)
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert told.strip() == str(loaded)


def _snake_case(name: str) -> str:
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name)


def test_the_sample_for_dagsters_chart_makes_a_launcher_that_launches() -> None:
    """The chart's own schema comes with no package: it hands this section to the launcher."""
    values = yaml.safe_load((DEPLOYED / "values.yaml").read_text())
    assert values["runLauncher"]["type"] == K8sRunLauncher.__name__
    (section,) = values["runLauncher"]["config"].values()
    config = {_snake_case(name): section[name] for name in section}
    # As the chart's template writes dagster.yaml.
    config["run_k8s_config"] = {
        _snake_case(name): part for name, part in config["run_k8s_config"].items()
    }
    config |= {"service_account_name": "dagster", "instance_config_map": "i", "dagster_home": "/d"}
    processed = process_config(K8sRunLauncher.config_type(), config)
    assert processed.success, processed.errors
    # Raises where a field is none of Kubernetes'.
    parsed = UserDefinedDagsterK8sConfig.from_dict(config["run_k8s_config"])
    assert parsed.container_config["resources"]["limits"] == {"memory": "512Mi"}
    assert parsed.job_spec_config["ttl_seconds_after_finished"] == 3600
