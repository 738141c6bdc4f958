"""The resource definitions of both operators, as far as the fields are used here: with them, the
API server refuses what it would refuse with theirs. Ours, written from what theirs document."""

import time
from typing import Any

from dev.kubernetes.api import Api, Object, Refused

_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
_TEXTS = {"type": "array", "items": _TEXT}
_BY_NAME = {"type": "object", "additionalProperties": _TEXT}
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _object(required: tuple[str, ...] = (), **properties: Any) -> Object:
    made = {"type": "object", "properties": properties}
    return {**made, "required": list(required)} if required else made


def _one_of(*words: str) -> Object:
    return {"type": "string", "enum": list(words)}


_KUBEFLOW = _object(
    ("driver", "executor", "mainApplicationFile", "sparkVersion", "type"),
    type=_one_of("Java", "Python", "Scala", "R"),
    mode=_one_of("cluster", "client"),
    sparkVersion=_TEXT,
    image=_TEXT,
    imagePullPolicy=_TEXT,
    imagePullSecrets=_TEXTS,
    mainClass=_TEXT,
    mainApplicationFile=_TEXT,
    arguments=_TEXTS,
    sparkConf=_BY_NAME,
    suspend={"type": "boolean"},
    timeToLiveSeconds={"type": "integer", "format": "int64"},
    restartPolicy=_object(type=_one_of("Never", "Always", "OnFailure")),
    # As there: what the template holds is Spark's to read.
    driver=_object(template=_ANYTHING, serviceAccount=_TEXT),
    executor=_object(
        template=_ANYTHING, instances={"type": "integer", "format": "int32", "minimum": 1}
    ),
)
# Apache's has a whole pod in its definition. Of that it is said here only what a pod's top has: a
# misspelt field further down is found by Spark, which passes it over.
_POD = _object(
    metadata=_object(labels=_BY_NAME, annotations=_BY_NAME),
    spec=_object(
        restartPolicy=_TEXT,
        serviceAccountName=_TEXT,
        terminationGracePeriodSeconds=_NUMBER,
        nodeSelector=_BY_NAME,
        containers={"type": "array", "items": _ANYTHING},
        volumes={"type": "array", "items": _ANYTHING},
        tolerations={"type": "array", "items": _ANYTHING},
        imagePullSecrets={"type": "array", "items": _ANYTHING},
    ),
)
_APACHE = _object(
    ("runtimeVersions",),
    mainClass=_TEXT,
    pyFiles=_TEXT,
    jars=_TEXT,
    driverArgs=_TEXTS,
    deploymentMode=_one_of("ClientMode", "ClusterMode"),
    runtimeVersions=_object(("sparkVersion",), sparkVersion=_TEXT, scalaVersion=_TEXT),
    sparkConf=_BY_NAME,
    driverSpec=_object(podTemplateSpec=_POD),
    executorSpec=_object(podTemplateSpec=_POD),
    applicationTolerations=_object(
        restartConfig=_object(
            restartPolicy=_one_of("Always", "Never", "OnFailure", "OnInfrastructureFailure")
        ),
        resourceRetainPolicy=_one_of("Always", "Never", "OnFailure"),
        applicationTimeoutConfig=_object(
            driverStartTimeoutMillis=_NUMBER,
            driverReadyTimeoutMillis=_NUMBER,
            executorStartTimeoutMillis=_NUMBER,
            forceTerminationGracePeriodMillis=_NUMBER,
            terminationRequeuePeriodMillis=_NUMBER,
        ),
    ),
)


def definition(group: str, version: str, spec: Object) -> Object:
    names = {"kind": "SparkApplication", "plural": "sparkapplications"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"sparkapplications.{group}",
            # Wanted of all groups below k8s.io.
            "annotations": {"api-approved.kubernetes.io": "unapproved, of tests"},
        },
        "spec": {
            "group": group,
            "names": {**names, "singular": "sparkapplication"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": _object(spec=spec, status=_ANYTHING)},
                }
            ],
        },
    }


def install(api: Api, seconds: float = 60.0) -> None:
    """Have the API server know both, once it serves them.

    Raises:
        TimeoutError: it does not.
    """
    both = (
        ("sparkoperator.k8s.io", "v1beta2", _KUBEFLOW),
        ("spark.apache.org", "v1", _APACHE),
    )
    for group, version, spec in both:
        try:
            api.create(_PATH, definition(group, version, spec))
        except Refused as refused:
            if refused.status != 409:
                raise
    deadline = time.monotonic() + seconds
    for group, version, _ in both:
        while not api.ask("GET", f"/apis/{group}/{version}/sparkapplications").ok:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the API server does not serve {group}/{version}")
            time.sleep(0.05)
