"""The names that pods of the tests' Kubernetes cluster know each other by."""

from typing import Any

from dev.kubernetes.names import hosts


def service(name: str, namespace: str = "here", **spec: Any) -> dict[str, Any]:
    spec = {"selector": {"app": name}, **spec}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def pod(app: str, ip: str | None, namespace: str = "here", **more: Any) -> dict[str, Any]:
    ready = {"type": "Ready", "status": str(more.pop("ready", True))}
    status = {"phase": more.pop("phase", "Running"), "podIP": ip, "conditions": [ready]}
    metadata = {"name": f"{app}-pod", "namespace": namespace, "labels": {"app": app}, **more}
    return {"metadata": metadata, "spec": {}, "status": status}


def lines(services: list[Any], pods: list[Any]) -> list[str]:
    text = hosts(pod("me", "10.0.0.9"), "10.0.0.9", "10.0.0.1", services, pods)
    return text.splitlines()


def test_a_pod_knows_itself_and_the_api_server() -> None:
    assert lines([], []) == [
        "127.0.0.1 localhost",
        "10.0.0.9 me-pod",
        "10.0.0.1 kubernetes.default.svc.cluster.local kubernetes.default.svc kubernetes.default",
    ]


def test_a_service_is_known_by_its_short_name_in_its_own_namespace_only() -> None:
    services = [service("web"), service("db", "there")]
    found = lines(services, [pod("web", "10.0.0.2"), pod("db", "10.0.0.3", "there")])
    assert found[3:] == [
        "10.0.0.2 web.here.svc.cluster.local web.here.svc web.here web",
        "10.0.0.3 db.there.svc.cluster.local db.there.svc db.there",
    ]


def test_only_pods_that_can_serve_have_a_services_name() -> None:
    pods = [
        pod("web", "10.0.0.2", ready=False),
        pod("web", "10.0.0.3", phase="Failed"),
        pod("web", None),
        pod("web", "10.0.0.4", "there"),
        pod("web", "10.0.0.5", deletionTimestamp="now"),
        pod("db", "10.0.0.6"),
    ]
    assert lines([service("web")], pods)[3:] == []
    early = lines([service("web", publishNotReadyAddresses=True)], pods)[3:]
    assert [line.split()[0] for line in early] == ["10.0.0.2", "10.0.0.5"]
    assert lines([service("web", selector=None)], pods)[3:] == []
