"""KubernetesCluster on an API server in memory: what it checks and tells."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from dagster_sparkscale import DeclarationError, KubernetesCluster
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.capacity import Capacity
from dagster_sparkscale.clusters.errors import (
    AlreadyRunning,
    ClusterError,
    Held,
    OperationInProgress,
)
from dagster_sparkscale.clusters.kubernetes import cluster as kubernetes_cluster
from dagster_sparkscale.clusters.kubernetes import names, notes
from dagster_sparkscale.clusters.kubernetes.api import Refused, Unreachable
from dagster_sparkscale.clusters.kubernetes.drivers import PodDriver
from dagster_sparkscale.clusters.kubernetes.manifests import text_of
from dagster_sparkscale.clusters.records import leases
from dagster_sparkscale.clusters.records.steering import Steered
from dagster_sparkscale.clusters.requests import newest_now
from tests import clocks
from tests.clusters.kubernetes.memory import DELETED_AT, Client, Object
from tests.clusters.kubernetes.processes import MemoryKubernetes, World, world_of
from tests.clusters.running import newest, stop, stream, submit

CLICKS = stream("clicks")
NAME = names.of_epoch("clicks", 1)
AGENT = PodDriver.agent


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return world_of(monkeypatch)


@pytest.fixture
def cluster(world: World) -> MemoryKubernetes:
    return MemoryKubernetes.of(world)


def failing(world: World, at: str, error: Exception, **fields: Any) -> MemoryKubernetes:
    def fail(call: str) -> None:
        if call.startswith(at):
            raise error

    return MemoryKubernetes.of(world, Client(world.server, fail), **fields)


FIELDS = {
    "image": "our/spark:4.3",
    "service_account": "streams",
    "executor_service_account": "executors",
    "image_pull_policy": "Always",
    "image_pull_secrets": ["registry"],
    "node_selector": {"disk": "gold"},
    "tolerations": [{"key": "spot", "operator": "Exists"}],
    "term_seconds": 45,
    "driver_template": {"spec": {"priorityClassName": "high"}},
    "executor_template": {"spec": {"priorityClassName": "low"}},
    "spark_conf": {"spark.eventLog.enabled": "true"},
}


# One driver a checkpoint.


def test_who_took_a_checkpoint_is_asked_of_its_newest_driver_only(
    world: World, cluster: MemoryKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cluster.took("clicks", 1), "nothing is remembered"
    submit(cluster, CLICKS)
    fenced = {"exitCode": 3, "message": '{"fenced": "another has it"}'}
    world.server.tells(NAME, "Failed", {"terminated": fenced})
    assert not cluster.took("clicks", 1)
    world.server.calls.clear()
    # Of an older one nothing is left that would tell; a later one followed it.
    assert cluster.took("clicks", 0) and cluster.took("clicks", 2)
    assert world.server.calls == [f"GET configmaps/{names.of_record('clicks')}"] * 2


def test_another_stream_may_not_have_the_checkpoint_of_one_that_runs(
    world: World, cluster: MemoryKubernetes
) -> None:
    submit(cluster, stream("clicks", checkpoint_location="s3a://data/clicks"))
    renamed = stream("renamed", checkpoint_location="s3a://data/clicks/")
    with pytest.raises(AlreadyRunning, match="that of 'clicks': its driver 1 is running, pod str"):
        submit(cluster, renamed)
    assert cluster.find("renamed") is None
    stop(cluster, "clicks", graceful=False, timeout=0.0)
    assert submit(cluster, renamed).state is DriverState.RUNNING


# What else bars a start, and what mends it.


def test_a_durable_hold_bars_every_start_until_it_is_lifted(
    world: World, cluster: MemoryKubernetes
) -> None:
    with cluster.lease("clicks", "reconfigure run 1a2b") as lease:
        cluster.hold(lease, "rewriting its state", "run reconfigure again")
    with pytest.raises(Held, match="reconfigure run 1a2b, in the middle of: rewriting its state"):
        submit(cluster, CLICKS)
    assert cluster.find("clicks") is None and "POST secrets" not in world.server.calls
    with cluster.lease("clicks", "lift_hold") as lease:
        cluster.lift_hold(lease)
    assert submit(cluster, CLICKS).state is DriverState.RUNNING


def test_a_restart_that_was_cut_off_is_a_failure_that_the_next_start_mends(
    cluster: MemoryKubernetes,
) -> None:
    submit(cluster, CLICKS)
    cut = stop(cluster, "clicks", graceful=False, timeout=0.0, to_restart=True)
    assert cut.state is DriverState.FAILED
    assert str(cut.exit_reason).endswith("the restart that stopped it was not completed")
    assert submit(cluster, CLICKS, "recovery").epoch == 2


def test_only_a_driver_of_which_nothing_can_be_told_is_declared_gone(
    world: World, cluster: MemoryKubernetes
) -> None:
    driver = submit(cluster, CLICKS)
    with cluster.lease("clicks", "test") as lease:
        with pytest.raises(ClusterError, match=r"is running .* stop it instead"):
            cluster.declare_gone(driver, lease, "somebody")
        world.server.objects["pods", NAME]["status"]["phase"] = "Unknown"
        with pytest.raises(AlreadyRunning, match="'clicks' is unknown already"):
            cluster.submit(CLICKS, lease)
        gone = cluster.declare_gone(driver, lease, "somebody")
        assert (gone.state, gone.exit_reason) == (DriverState.FAILED, "declared gone by somebody")
        assert cluster.submit(CLICKS, lease).epoch == 2
    assert world.server.names("secrets") == [names.of_epoch("clicks", 2)]


# What would keep a driver from being launched.


def test_a_check_makes_nothing(world: World, cluster: MemoryKubernetes) -> None:
    asked: list[Any] = []

    class Asked(Client):
        def create(self, kind, manifest, **query):
            asked.append((kind, manifest, query))
            return super().create(kind, manifest, **query)

    MemoryKubernetes.of(world, Asked(world.server)).check(CLICKS)
    assert world.server.objects == {}
    submit(cluster, CLICKS)
    before = list(world.server.objects)
    MemoryKubernetes.of(world, Asked(world.server), **FIELDS).check(CLICKS)
    assert list(world.server.objects) == before
    record = cluster.store().read("clicks")
    assert record is not None
    for (kind, pod, query), epoch in zip(asked, ("1", "2"), strict=True):
        assert (kind, query) == ("pods", {"dryRun": "All", "fieldValidation": "Strict"})
        assert pod["metadata"]["labels"][names.EPOCH] == epoch
        assert "ownerReferences" not in pod["metadata"]  # there is no Secret
    assert asked[0][1]["metadata"]["labels"][names.RECORD] == "0" * 16
    assert asked[1][1]["metadata"]["labels"][names.RECORD] == record.id
    # As it would be launched: else a quota, or a policy, would let another pod pass.
    launched, checked = world.server.objects["pods", NAME], asked[0][1]
    (ours,) = (each for each in checked["spec"]["containers"])
    assert ours["env"] == launched["spec"]["containers"][0]["env"]
    assert ours["resources"] == launched["spec"]["containers"][0]["resources"]


FULL = Refused('pods "a" is forbidden: exceeded quota: q', 403, "Forbidden")


def test_in_a_quota_one_that_lives_makes_way_for_one_that_asks_for_no_more(
    world: World, cluster: MemoryKubernetes
) -> None:
    submit(cluster, CLICKS)
    full = failing(world, "POST pods", FULL)
    full.check(CLICKS)
    world.server.prompt = False
    world.server.objects["pods", NAME]["metadata"]["deletionTimestamp"] = DELETED_AT
    full.check(CLICKS)  # it is there until it has ended
    world.server.objects["pods", NAME]["metadata"].pop("deletionTimestamp")
    more = stream("clicks", driver_memory="1g")
    with pytest.raises(ClusterError, match=r"clicks: a driver can.t be .*exceeded quota"):
        full.check(more)
    # Whatever it asks for, it is no quota that refuses it.
    policy = Refused("violates PodSecurity", 403, "Forbidden")
    with pytest.raises(ClusterError, match="clicks: a driver can't be launched: violates PodSec"):
        failing(world, "POST pods", policy).check(CLICKS)
    world.server.ends(NAME)
    with pytest.raises(ClusterError, match="exceeded quota"):
        full.check(CLICKS)


def test_in_a_quota_there_is_no_room_for_a_stream_that_has_no_driver(world: World) -> None:
    with pytest.raises(ClusterError, match=r"clicks: a driver can.t be .*exceeded quota"):
        failing(world, "POST pods", FULL).check(CLICKS)


def test_a_check_says_what_is_wrong_with_the_program(cluster: MemoryKubernetes) -> None:
    with pytest.raises(ClusterError, match="there is no file"):
        cluster.check(stream("clicks", program="/nowhere/a.py"))


# What is told.


def test_a_driver_is_stopped_with_all_that_is_left_of_it(
    world: World, cluster: MemoryKubernetes
) -> None:
    submit(cluster, CLICKS)
    world.server.logs[NAME] = "\n".join(str(line) for line in range(100))
    driver = newest(cluster, "clicks")
    assert cluster.logs(driver) == "\n".join(str(line) for line in range(50, 100))
    stopped = stop(cluster, "clicks", graceful=False, timeout=0.0)
    assert (stopped.state, stopped.exit_reason) == (DriverState.STOPPED, "stop requested")
    assert world.server.names("pods") == []
    assert cluster.logs(driver, 2) == "98\n99"
    note = notes.read(world.server.objects["secrets", NAME])
    assert note is not None and note.reason == "killed"


def test_its_agent_is_that_of_the_driver_that_is_named(
    world: World, cluster: MemoryKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PodDriver, "agent", AGENT)
    submit(cluster, CLICKS)
    for access, forwards in ((None, False), ("service", False), ("port-forward", True)):
        reaching = MemoryKubernetes.of(world, agent_access=access)
        agent = reaching.agent(newest(cluster, "clicks"))
        assert (agent.stream, agent.epoch) == ("clicks", 1)
        assert agent.token == text_of(world.server.objects["secrets", NAME], "token")
        assert (agent.connect is not None) is forwards


PINNED = Steered("somebody", "a test", 1.0, 2.0)


def test_who_waits_for_something_asks_the_api_server_seldom(
    world: World, cluster: MemoryKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PodDriver, "agent", AGENT)
    clock = [1000.0]
    clocks.replace(monkeypatch, "monotonic", lambda: clock[0])
    driver = submit(cluster, CLICKS)
    world.server.calls.clear()
    for _ in range(120):  # a minute, twice a second, as operations do
        assert newest_now(cluster, driver) == newest(MemoryKubernetes.of(world), "clicks")
        cluster.agent(driver)
        clock[0] += 0.5
    asked = len(world.server.calls) - 120 * 2  # those of the other one
    assert asked <= 60 / 2
    # Of a later driver nothing of this one's is told.
    token = cluster.agent(driver).token
    world.server.ends(NAME)
    clock[0] += KubernetesCluster.FOLLOW
    later = submit(cluster, CLICKS)
    assert newest_now(cluster, later) == newest(cluster, "clicks")
    assert cluster.agent(later).token != token


def test_a_lease_is_renewed_by_one_call(world: World, cluster: MemoryKubernetes) -> None:
    with cluster.lease("clicks", "restart") as lease:
        world.server.calls.clear()
        for _ in range(3):
            lease.renew()
        lease.write(replace(lease.record, desired="stopped"))
        put = f"PUT configmaps/{names.of_record('clicks')}"
        assert world.server.calls == [put] * 4
        # Where somebody has steered the stream meanwhile, it is looked at again.
        leases.steer(
            MemoryKubernetes.of(world).store(), "clicks", lambda found: {**found, "pin": PINNED}
        )
        world.server.calls.clear()
        lease.renew()
        assert world.server.calls[0] == put and world.server.calls[-1] == put
        assert lease.record.steering == {"pin": PINNED}


def test_who_waits_for_a_lease_asks_the_api_server_seldom(
    cluster: MemoryKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    hold = partial(leases.hold, clock=lambda: sum(pauses), sleep=pauses.append)
    with cluster.lease("clicks", "restart"):
        monkeypatch.setattr(leases, "hold", hold)
        waiting = KubernetesCluster.lease(cluster, "clicks", "stop", wait=9.0)
        with pytest.raises(OperationInProgress), waiting:
            pytest.fail("held twice")
    assert pauses == [2.0, 2.0, 2.0, 2.0, 1.0]


def test_from_outside_agents_are_reached_through_the_api_server(world: World) -> None:
    client = Client(world.server)
    client.access = replace(client.access, inside=False)
    assert MemoryKubernetes.of(world, client)._forwards()
    assert not MemoryKubernetes.of(world, client, agent_access="service")._forwards()


def node(name: str, cores: str, **labels: str) -> Object:
    status = {"allocatable": {"cpu": cores}, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}


def test_the_capacity_is_that_of_the_nodes_that_take_its_pods(
    world: World, cluster: MemoryKubernetes
) -> None:
    world.server.nodes = [node("node-1", "4"), node("node-2", "8", disk="gold")]
    tainted = node("node-3", "16", disk="gold")
    tainted["spec"] = {"taints": [{"key": "spot", "effect": "NoSchedule"}]}
    world.server.nodes.append(tainted)
    submit(cluster, CLICKS)  # one core of node-1
    capacity = cluster.capacity()
    assert isinstance(capacity, Capacity)
    assert (capacity.cores, capacity.free_cores, capacity.workers) == (12, 11, 2)
    gold = MemoryKubernetes.of(world, node_selector={"disk": "gold"}).capacity()
    assert gold is not None and (gold.cores, gold.workers) == (8, 1)
    spot = MemoryKubernetes.of(world, tolerations=FIELDS["tolerations"]).capacity()
    assert spot is not None and (spot.cores, spot.workers) == (28, 3)


def test_a_capacity_that_may_not_be_looked_at_is_not_known(world: World) -> None:
    class Denied(Client):
        def nodes(self, keep: Any) -> list[Any]:
            raise Refused("you may not", 403, "Forbidden")

    assert MemoryKubernetes.of(world, Denied(world.server)).capacity() is None


def test_what_could_be_better_is_told_of_the_namespace_and_of_each_stream(world: World) -> None:
    in_the_pod = stream("clicks", checkpoint_location="/data/clicks")
    missing = stream("orders", program="/nowhere/a.py")
    accounts = {"service_account": "streams", "executor_service_account": "executors"}
    cluster = MemoryKubernetes.of(world, **accounts)
    told = [(each.subject, each.text) for each in cluster.conditions([in_the_pod, missing])]
    assert told[0] == ("Kubernetes", "https://in.memory, namespace streams")
    assert told[1:3] == [
        ("service account", f"there is no service account streams/{name}")
        for name in accounts.values()
    ]
    assert [what for what, _ in told[3:]].count("checkpoint") == 1
    assert any("/nowhere/a.py" in text for _, text in told)
    mounted = {"name": "driver", "volumeMounts": [{"name": "d", "mountPath": "/data"}]}
    for fields in (
        {"driver_template": {"spec": {"containers": [mounted]}}},
        {"spark_conf": {"spark.hadoop.fs.defaultFS": "hdfs://names"}},
    ):
        other = MemoryKubernetes.of(world, **fields)
        assert "checkpoint" not in [each.subject for each in other.conditions([in_the_pod])]


def test_the_right_to_reach_agents_through_the_api_server_is_needed_only_for_that(
    world: World,
) -> None:
    class Denied(Client):
        def may(self, verb: str, resource: str) -> bool:
            return resource != "pods/portforward"

    for access, lacking in (("service", []), ("port-forward", ["roles"])):
        cluster = MemoryKubernetes.of(world, Denied(world.server), agent_access=access)
        told = list(cluster.conditions([]))
        assert [each.subject for each in told if each.subject == "roles"] == lacking
    assert "portforward" in told[1].text and "outside.yaml" in str(told[1].cure)


def test_a_namespace_that_can_not_be_asked_hides_nothing_else(world: World) -> None:
    cluster = failing(world, "GET configmaps", Unreachable("no answer"))
    told = list(cluster.conditions([stream("clicks", checkpoint_location="/data/clicks")]))
    assert (told[0].subject, told[0].text, told[0].cure) == (
        "Kubernetes",
        "can't be asked",
        "no answer",
    )
    assert "checkpoint" in [each.subject for each in told]


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"image": ""}, "image = '': must be the name of an image"),
        ({"image": "a b"}, "image = 'a b': must be the name of an image"),
        ({"namespace": "Streams"}, "namespace = 'Streams': must be the name of a namespace"),
        ({"agent_access": "tunnel"}, "agent_access = 'tunnel': must be service or port-forward"),
        (
            {"image_pull_policy": "Often"},
            "image_pull_policy = 'Often': must be Always, IfNotPresent or Never",
        ),
    ],
)
def test_a_field_that_makes_no_sense_is_refused(fields: dict[str, str], fault: str) -> None:
    with pytest.raises(DeclarationError, match=fault):
        KubernetesCluster(**{"image": "spark", **fields})


def test_its_api_is_as_it_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(kubernetes_cluster, "api", lambda *which: asked.append(which))
    KubernetesCluster(image="a", kubeconfig="/k", context="c", namespace="n")._api()
    KubernetesCluster(image="a")._api()
    assert asked == [("/k", "c", "n"), (None, None, None)]
