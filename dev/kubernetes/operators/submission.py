"""What each operator makes of a SparkApplication: a spark-submit in cluster mode. Pure.

kubeflow's runs just that. Apache's calls what spark-submit calls, with the same settings.
"""

from collections.abc import Mapping

from dev.kubernetes.api import Object

CONTAINER = "spark-kubernetes-driver"
_POD_TEMPLATE = "spark.kubernetes.driver.podTemplateFile"
_CONTAINER = "spark.kubernetes.driver.podTemplateContainerName"


def is_kubeflows(application: Object) -> bool:
    return str(application["apiVersion"]).startswith("sparkoperator.k8s.io/")


def template(application: Object) -> Object:
    """The pod template that Spark is given: the application's, and that owns the pod."""
    spec, metadata = application["spec"], application["metadata"]
    kubeflows = is_kubeflows(application)
    given = (
        (spec["driver"].get("template"))
        if kubeflows
        else spec.get("driverSpec", {}).get("podTemplateSpec")
    ) or {"spec": {"containers": [{"name": CONTAINER}]}}
    owner = {
        "apiVersion": application["apiVersion"],
        "kind": "SparkApplication",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "blockOwnerDeletion": True,
    }
    if kubeflows:
        owner["controller"] = True
    about = dict(given.get("metadata") or {})
    about["ownerReferences"] = [*(about.get("ownerReferences") or []), owner]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": given["spec"]}


def arguments(application: Object, master: str, template_file: str, attempt: str) -> list[str]:
    """The words of spark-submit.

    Args:
        attempt: an id of this submission.
    """
    metadata, spec = application["metadata"], application["spec"]
    settings = {
        "spark.kubernetes.namespace": metadata["namespace"],
        "spark.kubernetes.submission.waitAppCompletion": "false",
        **(spec.get("sparkConf") or {}),
    }
    if is_kubeflows(application):
        settings |= _kubeflows(application, attempt)
        main, words = spec["mainApplicationFile"], spec.get("arguments") or []
    else:
        label = "spark.operator/spark-app-name"
        settings[f"spark.kubernetes.driver.label.{label}"] = metadata["name"]
        settings[f"spark.kubernetes.executor.label.{label}"] = metadata["name"]
        main, words = spec["pyFiles"].split(",")[0], spec.get("driverArgs") or []
    settings[_POD_TEMPLATE] = template_file
    pairs = (word for key in settings for word in ("--conf", f"{key}={settings[key]}"))
    name = ("--name", metadata["name"])
    return ["--master", master, "--deploy-mode", "cluster", *name, *pairs, main, *words]


def _kubeflows(application: Object, attempt: str) -> Mapping[str, str]:
    metadata, spec = application["metadata"], application["spec"]
    found = {
        "spark.kubernetes.container.image": spec["image"],
        "spark.kubernetes.driver.container.image": spec["image"],
        "spark.executor.instances": str(spec["executor"].get("instances", 1)),
        _CONTAINER: CONTAINER,
    }
    if policy := spec.get("imagePullPolicy"):
        found["spark.kubernetes.container.image.pullPolicy"] = policy
    labels = {
        "sparkoperator.k8s.io/app-name": metadata["name"],
        "sparkoperator.k8s.io/launched-by-spark-operator": "true",
        "sparkoperator.k8s.io/submission-id": attempt,
        **(metadata.get("labels") or {}),
    }
    for who in ("driver", "executor"):
        found |= {f"spark.kubernetes.{who}.label.{key}": labels[key] for key in labels}
    return found
