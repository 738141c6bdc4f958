"""The objects of a start."""

import base64
import json
from dataclasses import replace

import pytest

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.kubernetes.manifests import (
    CODE,
    SECRETS,
    Objects,
    asks_for_no_more,
    executor_template,
    memory_mib,
    resources,
    text_of,
)
from dagster_sparkscale.clusters.kubernetes.templates import Placing
from dev.kubernetes.volumes import expand

PLACING = Placing("streams", "spark:4.3", "sparkscale-driver", 30)
OBJECTS = Objects("word_count", 7, "ab" * 8, PLACING)
ROOT = {"apiVersion": "v1", "kind": "Secret", "name": "sparkscale-word-count-7", "uid": "u-1"}
LABELS = {
    "app.kubernetes.io/managed-by": "dagster-sparkscale",
    "dagster-sparkscale/stream": "word-count",
    "dagster-sparkscale/epoch": "7",
    "dagster-sparkscale/record": "ab" * 8,
}
SECRET = "hunter2"


def driver(pod):
    return next(each for each in pod["spec"]["containers"] if each["name"] == "driver")


def made(placing=PLACING, **settings):
    objects = replace(OBJECTS, placing=placing)
    return objects.driver("u-1", ["python3", "x.py"], ["TOKEN"], settings)


def test_the_secret_owns_all_else():
    others = [OBJECTS.config_map("u-1", {}, b""), OBJECTS.service("u-1"), made()]
    for each in others:
        assert each["metadata"]["ownerReferences"] == [ROOT]
    assert "ownerReferences" not in OBJECTS.secret({}, {})["metadata"]


def test_all_objects_of_a_start_have_one_name_and_its_labels():
    objects = [
        OBJECTS.secret({}, {}),
        OBJECTS.config_map("u", {}, b""),
        OBJECTS.service("u"),
        made(),
    ]
    for each in objects:
        assert each["metadata"]["name"] == "sparkscale-word-count-7"
        assert each["metadata"]["namespace"] == "streams"
        assert each["metadata"]["labels"].items() >= LABELS.items()
        assert each["metadata"]["annotations"] == {"dagster-sparkscale/stream-name": "word_count"}


def test_what_is_secret_is_in_the_secret_and_nowhere_else():
    secret = OBJECTS.secret({"token": SECRET}, {"TOKEN": SECRET + "2"})
    assert text_of(secret, "token") == SECRET
    assert text_of(secret, "env.TOKEN") == SECRET + "2"
    assert text_of(secret, "other") is None and text_of({}, "token") is None
    assert SECRET not in json.dumps(made())
    variables = {each["name"]: each for each in driver(made())["env"]}
    assert variables["TOKEN"]["valueFrom"]["secretKeyRef"] == {
        "name": "sparkscale-word-count-7",
        "key": "env.TOKEN",
    }


def test_the_driver_can_not_start_without_the_secret():
    volumes = {each["name"]: each for each in made()["spec"]["volumes"]}
    assert volumes["sparkscale-secrets"]["secret"] == {"secretName": "sparkscale-word-count-7"}
    mounts = {each["mountPath"]: each["name"] for each in driver(made())["volumeMounts"]}
    assert (mounts[SECRETS], mounts[CODE]) == ("sparkscale-secrets", "sparkscale-code")


def test_a_driver_is_never_started_twice():
    assert made()["spec"]["restartPolicy"] == "Never"
    always = replace(PLACING, driver_template={"spec": {"restartPolicy": "Always"}})
    assert made(always)["spec"]["restartPolicy"] == "Never"


def test_the_image_has_its_own_entrypoint():
    assert driver(made())["args"] == ["python3", "x.py"]
    assert "command" not in driver(made())


def test_arguments_come_as_they_were_given():
    given = ["python3", "cost$", "a$$b", "$(TOKEN)", "$$(TOKEN)", "$(open"]
    args = driver(OBJECTS.driver("u-1", given, ["TOKEN"], {}))["args"]
    assert [expand(word, {"TOKEN": SECRET}) for word in args] == given


def test_a_driver_that_asks_for_what_the_one_before_it_did_asks_for_no_more():
    before = made()
    # As a LimitRange may have added it.
    driver(before)["resources"]["limits"]["cpu"] = "2"
    assert asks_for_no_more(made(), before)
    assert not asks_for_no_more(before, made())
    assert not asks_for_no_more(made(**{"spark.driver.memory": "2g"}), before)
    sidecar = {"spec": {"containers": [{"name": "x", "resources": {"requests": {"cpu": "1"}}}]}}
    assert not asks_for_no_more(made(replace(PLACING, driver_template=sidecar)), before)


def test_it_may_end_in_good_order():
    assert made()["spec"]["terminationGracePeriodSeconds"] == 45


def test_what_the_one_driver_makes_is_shipped_with_its_code():
    shipped = OBJECTS.config_map("u-1", {}, b"")["binaryData"]
    begun = json.loads(base64.b64decode(shipped["begun.json"]))
    assert begun["kind"] == "ConfigMap" and begun == OBJECTS.begun("u-1")
    assert begun["metadata"]["name"] == "sparkscale-word-count-7-begun"
    assert begun["metadata"]["ownerReferences"] == [ROOT]
    assert begun["metadata"]["labels"] == LABELS


def test_the_service_is_for_the_driver_alone():
    service = OBJECTS.service("u-1")["spec"]
    assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"]
    assert service["selector"] == {**LABELS, "spark-role": "driver"}
    assert made()["metadata"]["labels"].items() >= service["selector"].items()
    assert [each["port"] for each in service["ports"]] == [7078, 7079, 7080, 4040]


def test_where_pods_go():
    placing = replace(
        PLACING,
        pull_policy="Always",
        pull_secrets=["key"],
        node_selector={"pool": "spark"},
        tolerations=[{"key": "spot", "operator": "Exists"}],
        driver_template={
            "metadata": {"labels": {"team": "clicks"}},
            "spec": {"priorityClassName": "high", "containers": [{"name": "driver", "tty": True}]},
        },
        executor_template={"spec": {"tolerations": [{"key": "gpu"}]}},
    )
    spec = made(placing)["spec"]
    assert driver(made(placing))["imagePullPolicy"] == "Always"
    assert spec["imagePullSecrets"] == [{"name": "key"}]
    assert spec["nodeSelector"] == {"pool": "spark"}
    assert spec["tolerations"] == [{"key": "spot", "operator": "Exists"}]
    assert spec["priorityClassName"] == "high" and driver(made(placing))["tty"] is True
    assert made(placing)["metadata"]["labels"].items() >= {"team": "clicks", **LABELS}.items()
    told = executor_template(placing)["spec"]["tolerations"]
    assert told == [{"key": "gpu"}, {"key": "spot", "operator": "Exists"}]


def test_a_pod_says_nothing_where_nothing_was_declared():
    spec = made()["spec"]
    assert not {"imagePullSecrets", "nodeSelector", "tolerations"} & set(spec)
    assert "imagePullPolicy" not in driver(made())
    assert executor_template(PLACING) == {"apiVersion": "v1", "kind": "Pod", "spec": {}}


def test_code_is_shipped_as_it_is():
    shipped = OBJECTS.config_map("u", {"a.py": b"print()"}, b"\0zip")["binaryData"]
    assert base64.b64decode(shipped["a.py"]) == b"print()"
    assert base64.b64decode(shipped["dagster_sparkscale.zip"]) == b"\0zip"
    assert json.loads(base64.b64decode(shipped["executor-pod.json"]))["kind"] == "Pod"


@pytest.mark.parametrize(
    ("settings", "mib"),
    [
        ({}, 1024 + 410),
        ({"memory": "512m"}, 512 + 384),
        ({"memory": "4g"}, 4096 + 1639),
        ({"memory": "1g", "memoryOverhead": "1g"}, 2048),
        ({"memory": "1g", "memoryOverhead": "500"}, 1524),
        ({"memory": "10G", "memoryOverheadFactor": "0.1"}, 10240 + 1024),
        ({"memory": "1048576k"}, 1024 + 410),
        ({"memory": "1tb", "memoryOverhead": "1m"}, 1024**2 + 1),
    ],
)
def test_memory_is_the_heap_and_what_python_needs(settings, mib):
    assert memory_mib({f"spark.driver.{key}": settings[key] for key in settings}) == mib


def test_a_size_that_is_none():
    with pytest.raises(ClusterError, match=r"memoryOverhead = 'much': must be a size such as 512m"):
        memory_mib({"spark.driver.memoryOverhead": "much"})
    for none in ("much", "nan", "inf", "-1", ""):
        with pytest.raises(ClusterError, match=r"memoryOverheadFactor = .*must be such as 0\.4"):
            memory_mib({"spark.driver.memoryOverheadFactor": none})


def test_cores_are_asked_for_as_spark_would():
    memory = "1434Mi"
    assert resources({}) == {
        "requests": {"cpu": "1", "memory": memory},
        "limits": {"memory": memory},
    }
    assert resources({"spark.driver.cores": "2"})["requests"]["cpu"] == "2"
    found = resources(
        {
            "spark.driver.cores": "2",
            "spark.kubernetes.driver.request.cores": "500m",
            "spark.kubernetes.driver.limit.cores": "3",
        }
    )
    assert found["requests"]["cpu"] == "500m"
    assert found["limits"] == {"cpu": "3", "memory": memory}
