"""What KubernetesCluster launches, as an API server in memory is given it."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.errors import AlreadyRunning, ClusterError, LeaseLost
from dagster_sparkscale.clusters.kubernetes import cluster as kubernetes_cluster
from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.clusters.kubernetes.manifests import text_of
from dagster_sparkscale.clusters.records.leases import LEASE_SECONDS, Lease
from dagster_sparkscale.declare.streams import StructuredStream
from dagster_sparkscale.driver.metrics.token import read_token
from tests.clusters.kubernetes.memory import Object
from tests.clusters.kubernetes.processes import MemoryKubernetes, World, world_of
from tests.clusters.running import PROGRAMS, stop, stream, submit

CLICKS = stream("clicks")
NAME = names.of_epoch("clicks", 1)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return world_of(monkeypatch)


@pytest.fixture
def cluster(world: World) -> MemoryKubernetes:
    return MemoryKubernetes.of(world)


def settings_of(world: World, name: str = NAME) -> dict[str, str]:
    """Spark's, as the driver is given them."""
    text = text_of(world.server.objects["secrets", name], "spark.properties")
    assert text is not None
    lines = [line.split("=", 1) for line in text.splitlines() if "=" in line]
    return {line[0].strip(): line[1].strip() for line in lines}


def of_driver(pod: Object) -> Object:
    found: Object = next(each for each in pod["spec"]["containers"] if each["name"] == "driver")
    return found


def test_a_driver_is_told_who_it_is_and_where_all_is(
    world: World, cluster: MemoryKubernetes
) -> None:
    declared = stream("clicks", checkpoint_location="s3a://data/clicks", arguments=["--fast", "1"])
    submit(cluster, declared)
    world.server.ends(NAME)
    submit(cluster, declared)
    record = cluster.store().read("clicks")
    assert record is not None
    args = of_driver(world.server.objects["pods", "sparkscale-clicks-2"])["args"]
    assert args[:2] == ["python3", "/opt/sparkscale/code/in_pod.py"]
    program = args.index("/opt/sparkscale/code/idle.py")
    assert args[program + 1 :] == ["--fast", "1"]
    options = dict(zip(args[2:program:2], args[3:program:2], strict=True))
    assert options == {
        "--stream": "clicks",
        "--epoch": "2",
        "--interval-ms": "1000",
        "--initial-executors": str(declared.bounds.initial),
        "--max-executors": str(declared.bounds.maximum),
        "--record": record.id,
        "--succeeds": f"{record.id}:1",
        "--token-file": "/opt/sparkscale/secrets/token",
        "--certificate": "/opt/sparkscale/secrets/tls.crt",
        "--key": "/opt/sparkscale/secrets/tls.key",
        "--bind": "0.0.0.0",
        "--port": "7080",
        "--advertise": "sparkscale-clicks-2.streams.svc",
        "--begun": "/opt/sparkscale/code/begun.json",
        "--last-words": "/dev/termination-log",
        "--term-seconds": "30",
    }


def test_a_driver_waits_for_one_before_that_vanished_without_having_been_seen_to_end(
    world: World, cluster: MemoryKubernetes
) -> None:
    """Somebody has deleted its pod by force, or its node was taken out: its process may run on."""
    declared = stream("clicks", checkpoint_location="s3a://data/clicks")

    def waits(epoch: int) -> bool:
        return (
            "--outwait"
            in of_driver(world.server.objects["pods", names.of_epoch("clicks", epoch)])["args"]
        )

    submit(cluster, declared)
    assert not waits(1)
    world.server.ends(NAME)
    submit(cluster, declared)
    assert not waits(2)
    del world.server.objects["pods", "sparkscale-clicks-2"]
    submit(cluster, declared)
    assert waits(3)
    stop(cluster, "clicks", graceful=False, timeout=0.0)
    submit(cluster, declared)
    assert not waits(4), "who has killed it has seen it end"


@pytest.mark.parametrize("how", ["vanished", "declared gone"])
def test_it_does_so_also_where_that_was_of_another_stream(
    world: World, cluster: MemoryKubernetes, how: str
) -> None:
    """As where a stream was renamed after its node was lost."""
    checkpoint = {"checkpoint_location": "s3a://data/clicks"}
    first = submit(cluster, stream("clicks", **checkpoint))
    if how == "vanished":
        del world.server.objects["pods", NAME]
    else:
        world.server.loses_node(NAME)
        with cluster.lease("clicks", "declare_gone") as lease:
            cluster.declare_gone(first, lease, "somebody")
    submit(cluster, stream("renamed", **checkpoint))
    pod = names.of_epoch("renamed", 1)
    assert "--outwait" in of_driver(world.server.objects["pods", pod])["args"]
    world.server.ends(pod)
    submit(cluster, stream("again", **checkpoint))
    pod = names.of_epoch("again", 1)
    assert "--outwait" not in of_driver(world.server.objects["pods", pod])["args"]


def test_the_secret_has_what_nobody_else_may_know(world: World, cluster: MemoryKubernetes) -> None:
    submit(cluster, stream("clicks", env={"CLICKS_PASSWORD": "hunter2"}))
    secret = world.server.objects["secrets", NAME]
    assert sorted(secret["data"]) == [
        "env.CLICKS_PASSWORD",
        "metrics-token",
        "spark.properties",
        "tls.crt",
        "tls.key",
        "token",
    ]
    assert text_of(secret, "env.CLICKS_PASSWORD") == "hunter2"
    token = text_of(secret, "token") or ""
    assert len(token) > 30
    assert text_of(secret, "metrics-token") == read_token(token)
    for key, what in (("tls.crt", "CERTIFICATE"), ("tls.key", "PRIVATE KEY")):
        assert f"{what}-----" in (text_of(secret, key) or "")
    env = of_driver(world.server.objects["pods", NAME])["env"]
    assert {"secretKeyRef": {"name": NAME, "key": "env.CLICKS_PASSWORD"}} in [
        each.get("valueFrom") for each in env
    ]
    assert "hunter2" not in json.dumps(world.server.objects["pods", NAME])


def test_the_code_is_shipped(world: World, cluster: MemoryKubernetes) -> None:
    submit(cluster, CLICKS)
    files = world.server.objects["configmaps", NAME]["binaryData"]
    content = {name: base64.b64decode(files[name]) for name in files}
    assert content["idle.py"] == (PROGRAMS / "idle.py").read_bytes()
    in_pod = Path(kubernetes_cluster.__file__).with_name("in_pod.py")
    assert content["in_pod.py"] == in_pod.read_bytes()
    assert content["dagster_sparkscale.zip"] == b"code"


def test_a_program_in_the_image_is_not_shipped(world: World, cluster: MemoryKubernetes) -> None:
    app = "local:///app/clicks.py"
    submit(cluster, StructuredStream(name="clicks", program=app, batch_interval="1s"))
    assert of_driver(world.server.objects["pods", NAME])["args"][-1] == "/app/clicks.py"
    files = world.server.objects["configmaps", NAME]["binaryData"]
    assert sorted(files) == [
        "begun.json",
        "dagster_sparkscale.zip",
        "executor-pod.json",
        "in_pod.py",
    ]


FIELDS = {
    "image": "our/spark:4.3",
    "service_account": "streams",
    "executor_service_account": "executors",
    "agent_bind": "::",
    "image_pull_policy": "Always",
    "image_pull_secrets": ["registry"],
    "node_selector": {"disk": "gold"},
    "tolerations": [{"key": "spot", "operator": "Exists"}],
    "term_seconds": 45,
    "driver_template": {"spec": {"priorityClassName": "high"}},
    "executor_template": {"spec": {"priorityClassName": "low"}},
    "spark_conf": {"spark.eventLog.enabled": "true"},
}


def test_every_field_comes_to_the_driver_and_its_executors(world: World) -> None:
    submit(MemoryKubernetes.of(world, **FIELDS), CLICKS)
    pod = world.server.objects["pods", NAME]
    spec, driver = pod["spec"], of_driver(pod)
    assert (driver["image"], driver["imagePullPolicy"]) == ("our/spark:4.3", "Always")
    assert spec["serviceAccountName"] == "streams"
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["nodeSelector"] == {"disk": "gold"}
    assert spec["tolerations"] == FIELDS["tolerations"]
    assert spec["terminationGracePeriodSeconds"] == 60
    assert driver["args"][driver["args"].index("--term-seconds") + 1] == "45"
    assert driver["args"][driver["args"].index("--bind") + 1] == "::"
    assert spec["priorityClassName"] == "high"
    assert pod["metadata"]["namespace"] == "streams"
    assert pod["metadata"]["labels"][names.EPOCH] == "1"
    record = MemoryKubernetes.of(world).store().read("clicks")
    assert record is not None and pod["metadata"]["labels"][names.RECORD] == record.id
    made = world.server.objects["configmaps", NAME]["binaryData"]["executor-pod.json"]
    template = json.loads(base64.b64decode(made))
    assert template["spec"]["priorityClassName"] == "low"
    assert template["spec"]["tolerations"] == FIELDS["tolerations"]
    given = settings_of(world)
    expected = {
        "spark.app.id": f"{NAME}-{record.id[:8]}",
        "spark.eventLog.enabled": "true",
        "spark.executor.instances": str(CLICKS.bounds.initial),
        "spark.kubernetes.container.image": "our/spark:4.3",
        "spark.kubernetes.container.image.pullPolicy": "Always",
        "spark.kubernetes.container.image.pullSecrets": "registry",
        "spark.driver.bindAddress": "::",
        "spark.kubernetes.authenticate.executor.serviceAccountName": "executors",
        "spark.kubernetes.driver.pod.name": NAME,
        "spark.kubernetes.executor.podTemplateFile": "/opt/sparkscale/code/executor-pod.json",
        "spark.kubernetes.namespace": "streams",
        "spark.kubernetes.node.selector.disk": "gold",
    }
    assert expected.items() <= given.items()


def test_a_driver_begins_with_the_executors_that_were_last_asked_for(
    world: World, cluster: MemoryKubernetes
) -> None:
    submit(cluster, CLICKS)
    world.server.ends(NAME)
    with cluster.lease("clicks", "rescale") as lease:
        lease.write(replace(lease.record, executors=3))
    submit(cluster, CLICKS)
    assert settings_of(world, "sparkscale-clicks-2")["spark.executor.instances"] == "3"


def test_settings_of_one_start_are_over_all_others(world: World) -> None:
    cluster = MemoryKubernetes.of(world, spark_conf={"spark.eventLog.enabled": "true"})
    submit(cluster, CLICKS, settings={"spark.eventLog.enabled": "false"})
    assert settings_of(world)["spark.eventLog.enabled"] == "false"


@pytest.mark.parametrize(
    ("conf", "python"),
    [
        ({"spark.pyspark.python": "python3.11"}, "python3.11"),
        ({"spark.pyspark.driver.python": "/opt/py", "spark.pyspark.python": "x"}, "/opt/py"),
    ],
)
def test_the_driver_runs_by_the_python_that_spark_is_told(
    world: World, conf: dict[str, str], python: str
) -> None:
    submit(MemoryKubernetes.of(world, spark_conf=conf), CLICKS)
    assert of_driver(world.server.objects["pods", NAME])["args"][0] == python


def test_a_start_that_can_not_be_is_refused_before_it_has_an_epoch(
    world: World, cluster: MemoryKubernetes
) -> None:
    with pytest.raises(ClusterError, match="there is no file"):
        submit(cluster, stream("clicks", program="/nowhere/a.py"))
    for where in ("stream", "cluster"):
        conf = {"spark.driver.memoryOverhead": "much"}
        of = {"spark_conf": {**CLICKS.spark_conf, **conf}} if where == "stream" else {}
        common = {} if where == "stream" else {"spark_conf": conf}
        with pytest.raises(ClusterError, match=r"spark\.driver\.memoryOverhead = 'much'"):
            submit(MemoryKubernetes.of(world, **common), stream("clicks", **of))
    assert cluster.find("clicks") is None
    assert "POST secrets" not in world.server.calls


def test_a_start_that_is_refused_says_why_also_where_its_lease_can_not_be_renewed_at_once(
    cluster: MemoryKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise AlreadyRunning("it is not the one remembered: delete that pod first")

    def unanswered(*_: object) -> None:
        raise ClusterError("the API server gave no answer in 10 s")

    monkeypatch.setattr(MemoryKubernetes, "make_way", refused)
    monkeypatch.setattr(Lease, "renew", unanswered)
    with pytest.raises(AlreadyRunning, match="delete that pod first"):
        submit(cluster, CLICKS)


@pytest.mark.parametrize("how", ["by the clock", "by hand"])
def test_a_start_that_has_lost_its_lease_calls_no_driver_of_anothers_start_a_stray(
    cluster: MemoryKubernetes, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    def held_up(self: MemoryKubernetes, lease: Lease, checkpoint: str | None) -> None:
        if how == "by the clock":
            lease._renewed -= LEASE_SECONDS
        else:
            found = self.store().read("clicks")
            assert found is not None
            self.store().swap("clicks", replace(found, lease=None, revision=found.revision + 1))
        raise AlreadyRunning("it is not the one remembered: delete that pod first")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryKubernetes, "make_way", held_up)
        with pytest.raises(LeaseLost, match="has lost its lease"):
            submit(cluster, CLICKS)
    assert submit(cluster, CLICKS).epoch == 1
