"""What nodes have left."""

import pytest

from dagster_sparkscale.clusters.capacity import Capacity, Free
from dagster_sparkscale.clusters.kubernetes.room import capacity_of, cores_of, mebibytes_of


def node(name, cpu, ready="True", memory="0", **spec):
    conditions = [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready}]
    status = {"allocatable": {"cpu": cpu, "memory": memory}, "conditions": conditions}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


def pod(on, *cpus):
    containers = [{"resources": {"requests": {"cpu": cpu}}} for cpu in cpus]
    return {"spec": {"nodeName": on, "containers": [*containers, {"name": "asks for nothing"}]}}


def test_what_pods_ask_for_is_taken():
    nodes = [node("a", "4"), node("b", "3920m")]
    pods = [pod("a", "1", "500m"), pod("b", "2"), {"spec": {"containers": []}}]
    assert capacity_of(nodes, pods) == Capacity(
        cores=7,
        free_cores=3,
        workers=2,
        details=(
            "a: 2.5 of 4 cores, 0 of 0 MiB free",
            "b: 1.92 of 3.92 cores, 0 of 0 MiB free",
        ),
        free=(Free(2, 0.0), Free(1, 0.0)),
    )


def test_memory_that_pods_ask_for_is_taken_too():
    taken = {"requests": {"cpu": "1", "memory": "1536Mi"}}
    pods = [{"spec": {"nodeName": "a", "containers": [{"resources": taken}]}}]
    capacity = capacity_of([node("a", "4", memory="4Gi"), node("b", "4", memory="1Gi")], pods)
    assert capacity.free == (Free(3, 2560.0), Free(4, 1024.0))
    assert capacity.executors(2, "2g") == 1
    assert capacity.executors(4, "2g") == 0


def test_nodes_that_take_no_pods_do_not_count():
    nodes = [
        node("cordoned", "4", unschedulable=True),
        node("lost", "4", ready="Unknown"),
        {"metadata": {"name": "new"}},
    ]
    assert capacity_of(nodes, []) == Capacity(0, 0, 0, ())


def test_only_nodes_that_take_such_pods_count():
    spark = {"key": "pool", "value": "spark", "effect": "NoSchedule"}
    nodes = [node("spark", "8", taints=[spark]), node("control-plane", "2"), node("web", "4")]
    nodes[0]["metadata"]["labels"] = {"pool": "spark"}
    nodes[1]["spec"]["taints"] = [{"key": "control-plane", "effect": "NoSchedule"}]
    nodes[2]["spec"]["taints"] = [{"key": "busy", "effect": "PreferNoSchedule"}]

    def cores(selector, *tolerations):
        return capacity_of(nodes, [], selector, tolerations).cores

    tolerated = [
        {"key": "pool", "value": "spark"},
        {"key": "pool", "operator": "Exists", "effect": "NoSchedule"},
        {"operator": "Exists", "effect": "NoSchedule"},
    ]
    assert cores({}) == 4
    assert [cores({"pool": "spark"}, each) for each in tolerated] == [8, 8, 8]
    assert cores({"pool": "spark"}) == cores({"pool": "other"}, *tolerated) == 0
    assert cores({}, {"key": "pool", "value": "web"}, {**spark, "effect": "NoExecute"}) == 4


def test_a_node_that_has_promised_too_much_has_nothing_left():
    assert capacity_of([node("a", "1")], [pod("a", "2")]).free_cores == 0


@pytest.mark.parametrize(
    ("quantity", "cores"),
    [
        *(("2", 2), ("500m", 0.5), ("1.5", 1.5), (4, 4), ("250000u", 0.25), ("1000000n", 0.001)),
        *(("1k", 1000), ("", 0), ("m", 0), ("many", 0)),
    ],
)
def test_quantities_of_cores(quantity, cores):
    assert cores_of(quantity) == cores


@pytest.mark.parametrize(
    ("quantity", "mebibytes"),
    [
        *(("2Gi", 2048), ("512Mi", 512), ("1024Ki", 1), (1048576, 1), ("1048576k", 1000)),
        *(("", 0), ("much", 0), ("1Ti", 2**20)),
    ],
)
def test_quantities_of_memory(quantity, mebibytes):
    assert mebibytes_of(quantity) == mebibytes
