"""Dagster's chart with our values: rendered by Helm, and tried by a real API server.

The chart comes from Dagster's repository of charts, or from SPARKSCALE_TEST_CHART, its folder or
archive. Helm is built only where there is a chart.
"""

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import pytest
import requests
import yaml
from dagster._config import process_config
from dagster._core.instance.config import dagster_instance_config
from dagster_k8s import K8sRunLauncher
from dagster_k8s.container_context import K8sContainerContext
from dagster_k8s.job import construct_dagster_k8s_job
from kubernetes.client import ApiClient

from dev.helm.building import HELM
from dev.kubernetes.granted import DAGSTER, DEPLOY, place_of
from dev.kubernetes.running import Cluster
from tests.deploy.test_images import DAGSTER as IMAGE
from tests.deploy.test_images import arguments
from tests.kubernetes import Object, namespace

# Not `kubernetes`: where that can't be had, all is wrong; a chart may be out of reach.
pytestmark = pytest.mark.clusters

CHARTS = "https://dagster-io.github.io/helm"
VALUES = DEPLOY / "values.yaml"


def helm(*words: str) -> str:
    done = subprocess.run([HELM.built(), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the chart, with the charts that it depends on."""
    folder = tmp_path_factory.mktemp("chart")
    if given := os.environ.get("SPARKSCALE_TEST_CHART"):
        if Path(given).is_dir():
            return Path(given)
        subprocess.run(["tar", "-xzf", given, "-C", str(folder)], check=True)
        return folder / "dagster"
    try:
        requests.head(f"{CHARTS}/index.yaml", timeout=10).raise_for_status()
    except requests.RequestException as error:
        pytest.skip(f"{urlsplit(CHARTS).hostname} has no chart: {error}")
    version = arguments(IMAGE)["DAGSTER"]
    words = ("--repo", CHARTS, "--version", version, "--untar", "--untardir", str(folder))
    helm("pull", "dagster", *words)
    return folder / "dagster"


@pytest.fixture(scope="module")
def rendered(chart: Path) -> list[Object]:
    # The schema names another one at an address of its own: read in a test of its own, below.
    words = ("--skip-schema-validation", "--namespace", DAGSTER, "-f", str(VALUES))
    text = helm("template", "dagster", str(chart), *words)
    return [each for each in yaml.safe_load_all(text) if each]


def named(rendered: list[Object], kind: str, name: str) -> Object:
    [found] = [e for e in rendered if (e["kind"], e["metadata"]["name"]) == (kind, name)]
    return found


def test_the_chart_has_these_keys_and_takes_these_values(chart: Path) -> None:
    schema = without_addresses(json.loads((chart / "values.schema.json").read_text()))
    own, ours = (yaml.safe_load(path.read_text()) for path in (chart / "values.yaml", VALUES))
    jsonschema.validate(merged(own, ours), schema)
    # What the schema lets pass, as it does with most of what it does not know.
    assert unknown(own, ours) == []


def without_addresses(schema: Any) -> Any:
    """What Kubernetes' own schema is for, elsewhere, may be anything."""
    if isinstance(schema, dict):
        if "://" in str(schema.get("$ref")):
            return {}
        return {key: without_addresses(each) for key, each in schema.items()}
    return [without_addresses(each) for each in schema] if isinstance(schema, list) else schema


def merged(own: Any, ours: Any) -> Any:
    """As Helm lays values over a chart's: lists are replaced."""
    if not isinstance(own, dict) or not isinstance(ours, dict):
        return ours
    return {**own, **{key: merged(own.get(key), ours[key]) for key in ours}}


def unknown(own: Any, ours: Any, at: str = "") -> list[str]:
    """The keys of ours that the chart's own values have not, down to what is a list or is empty."""
    if not isinstance(own, dict) or not isinstance(ours, dict) or not own:
        return []
    found = [f"{at}.{key}" for key in ours if key not in own]
    return found + [
        e for key in ours if key in own for e in unknown(own[key], ours[key], f"{at}.{key}")
    ]


def test_the_api_server_takes_all_that_is_rendered(
    kubernetes: Cluster, rendered: list[Object]
) -> None:
    with namespace(kubernetes, "chart") as space:
        for each in rendered:
            place = place_of(kubernetes, space, each)
            # Unknown fields are refused; none is made.
            path = f"{place}?dryRun=All&fieldValidation=Strict"
            made = kubernetes.api.create(path, {**each, "metadata": in_space(each, space)})
            assert made["metadata"]["name"] == each["metadata"]["name"]


def in_space(manifest: Object, space: str) -> Object:
    metadata: Object = dict(manifest["metadata"])
    if "namespace" in metadata:
        assert metadata["namespace"] == DAGSTER
        metadata["namespace"] = space
    return metadata


def test_all_of_dagster_is_the_account_that_the_roles_are_bound_to(
    rendered: list[Object],
) -> None:
    named(rendered, "ServiceAccount", DAGSTER)
    pods = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in rendered
        if each["kind"] == "Deployment"
    }
    location = "dagster-dagster-user-deployments-streams"
    assert set(pods) == {"dagster-daemon", "dagster-dagster-webserver", location}
    assert {spec["serviceAccountName"] for spec in pods.values()} == {DAGSTER}
    # The account gives no token by itself.
    assert all(spec["automountServiceAccountToken"] for spec in pods.values())
    [container] = pods[location]["containers"]
    assert container["args"][-2:] == ["-f", "/app/definitions.py"]
    [volume] = pods[location]["volumes"]
    named(rendered, "ConfigMap", volume["configMap"]["name"])
    # docs/deploying.md names these.
    named(rendered, "Service", "dagster-dagster-webserver")
    docs = (DEPLOY.parents[1] / "docs" / "deploying.md").read_text()
    assert f"deployment/{location}" in docs and "svc/dagster-dagster-webserver" in docs
    [mounted] = container["volumeMounts"]
    assert f"DAGSTER_HOME={mounted['mountPath']} sparkscale" in docs


def test_the_pods_of_runs_are_taken_and_have_what_their_code_location_has(
    kubernetes: Cluster, rendered: list[Object]
) -> None:
    [container] = named(rendered, "Deployment", "dagster-dagster-user-deployments-streams")["spec"][
        "template"
    ]["spec"]["containers"]
    given = {each["name"]: each.get("value") for each in container["env"]}
    contexts = [value for name, value in given.items() if name.endswith("CONTAINER_CONTEXT")]
    [context] = map(json.loads, contexts)
    ours = {each["name"]: each["value"] for each in context["k8s"]["env"]}
    assert ours == {name: given[name] for name in ("STREAMS_IMAGE", "STREAMS_NAMESPACE")}
    assert context["k8s"]["service_account_name"] == DAGSTER
    config = yaml.safe_load(
        named(rendered, "ConfigMap", "dagster-instance")["data"]["dagster.yaml"]
    )["run_launcher"]["config"]
    # Here, outside of the cluster.
    config |= {"load_incluster_config": False, "kubeconfig_file": str(kubernetes.kubeconfig)}
    processed = process_config(K8sRunLauncher.config_type(), config)
    assert processed.success, processed.errors
    launcher = K8sRunLauncher.from_config_value(None, processed.value)
    code: Any = SimpleNamespace(repository_origin=SimpleNamespace(container_context=context))
    run: Any = SimpleNamespace(job_code_origin=code, tags={})
    its = K8sContainerContext.create_for_run(run, launcher, include_run_tags=False)
    job = construct_dagster_k8s_job(
        its.get_k8s_job_config("example/streams:1", launcher),
        args=["dagster", "--version"],
        job_name="run",
        user_defined_k8s_config=its.run_k8s_config,
    )
    with namespace(kubernetes, "run") as space:
        made = kubernetes.api.create(
            f"/apis/batch/v1/namespaces/{space}/jobs?dryRun=All&fieldValidation=Strict",
            ApiClient().sanitize_for_serialization(job),
        )
    [container] = made["spec"]["template"]["spec"]["containers"]
    # Not what the code location asks for, were that set.
    assert container["resources"] == {
        "requests": {"cpu": "250m", "memory": "256Mi"},
        "limits": {"memory": "512Mi"},
    }
    assert ours.items() <= {each["name"]: each.get("value") for each in container["env"]}.items()


def test_dagster_reads_the_settings_that_the_chart_writes(
    rendered: list[Object], tmp_path: Path
) -> None:
    text = named(rendered, "ConfigMap", "dagster-instance")["data"]["dagster.yaml"]
    (tmp_path / "dagster.yaml").write_text(text)
    settings, _ = dagster_instance_config(str(tmp_path))
    queue = settings["run_coordinator"]["config"]
    assert (queue["max_concurrent_runs"], queue["dequeue_interval_seconds"]) == (25, 1)
    assert settings["sensors"] == {"use_threads": True, "num_workers": 8}
    kept = settings["retention"]
    assert (kept["sensor"]["purge_after_days"]["skipped"], kept["schedule"]) == (
        1,
        {"purge_after_days": 90},
    )
    assert settings["run_monitoring"]["enabled"] is True
