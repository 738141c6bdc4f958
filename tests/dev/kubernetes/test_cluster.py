"""The Kubernetes cluster that tests run on, against itself: what is real must look real."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import requests

from dev.kubernetes.running import Cluster, make_namespace, start
from dev.runs import MARK
from tests.kubernetes import (
    Object,
    create,
    ended,
    events,
    is_ready,
    logs,
    namespace,
    phase,
    pod,
    see,
    state,
)
from tests.waiting import patience, wait_for

pytestmark = pytest.mark.kubernetes


def running(pod: Object) -> bool:
    return "running" in state(pod)


class TestPods:
    @pytest.fixture(scope="class")
    @classmethod
    def space(cls, kubernetes: Cluster) -> Iterator[str]:
        with namespace(kubernetes, cls.__name__) as made:
            yield made

    def test_runs_its_command_and_tells_how_it_ended(self, kubernetes: Cluster, space: str) -> None:
        api = kubernetes.api
        said = "echo hello $$$$; echo -n last words > /dev/termination-log; exit 3"
        create(api, space, "pods", pod("ends", "bash", "-c", said))
        seen = see(api, space, "ends", "failed", lambda p: phase(p) == "Failed")
        told = ended(seen)
        assert told is not None
        assert (told["exitCode"], told["reason"], told["message"]) == (3, "Error", "last words")
        # The first process of its own list of processes.
        assert logs(api, space, "ends") == "hello 1\n"

    def test_that_is_killed_says_by_which_signal(self, kubernetes: Cluster, space: str) -> None:
        api = kubernetes.api
        for name in ("killed", "starved"):
            create(api, space, "pods", pod(name, "sleep", "1000"))
        for name, reason in (("killed", "Error"), ("starved", "OOMKilled")):
            seen = see(api, space, name, "runs", running)
            kubernetes.kill(seen, out_of_memory=name == "starved")
            told = ended(see(api, space, name, "failed", lambda p: phase(p) == "Failed"))
            assert told is not None and (told["exitCode"], told["reason"]) == (137, reason)

    def test_sees_what_it_mounts_and_what_it_is_told(self, kubernetes: Cluster, space: str) -> None:
        api = kubernetes.api
        create(
            api,
            space,
            "configmaps",
            {
                "metadata": {"name": "settings"},
                "data": {"a": "from a"},
                "binaryData": {"b": "AAEC"},
            },
        )
        create(
            api,
            space,
            "secrets",
            {
                "metadata": {"name": "hidden"},
                "stringData": {"token": "sesame"},
            },
        )
        secret = {"name": "hidden", "key": "token"}
        program = """
import os, socket, sys
from pathlib import Path
print(Path('/somewhere/new/a').read_text(), Path('/somewhere/new/b').read_bytes().hex())
print(Path('/opt/private/token').read_text())
print(oct(Path('/opt/private/token').stat().st_mode & 0o777), os.environ['TOKEN'], os.environ['A'])
print(os.environ['IP'] == socket.gethostbyname(socket.gethostname()), socket.gethostname())
print(Path('/opt/spark/bin/spark-submit').exists(), sys.argv[1])
print(Path('/var/run/secrets/kubernetes.io/serviceaccount/namespace').read_text())
try:
    import dagster_sparkscale
except ImportError:
    print('not shipped')
"""
        body = pod(
            "sees",
            "python3",
            "-c",
            program,
            "$(A)!",
            env=[
                {"name": "A", "value": "given"},
                {
                    "name": "TOKEN",
                    "valueFrom": {"secretKeyRef": secret},
                },
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            ],
            volumeMounts=[
                {"name": "settings", "mountPath": "/somewhere/new"},
                {"name": "hidden", "mountPath": "/opt/private", "readOnly": True},
            ],
            volumes=[
                {"name": "settings", "configMap": {"name": "settings"}},
                {"name": "hidden", "secret": {"secretName": "hidden", "defaultMode": 0o400}},
            ],
        )
        create(api, space, "pods", body)
        see(api, space, "sees", "ended", ended)
        assert logs(api, space, "sees").splitlines() == [
            "from a 000102",
            "sesame",
            "0o400 sesame given",
            "True sees",
            "True given!",
            space,
            "not shipped",
        ]

    def test_runs_as_the_user_that_it_says(self, kubernetes: Cluster, space: str) -> None:
        api = kubernetes.api
        secret = {"metadata": {"name": "roots"}, "stringData": {"token": "sesame"}}
        create(api, space, "secrets", secret)
        program = """
import os, pwd
from pathlib import Path
print(os.getuid(), os.getgid(), os.getgroups(), pwd.getpwuid(os.getuid()).pw_name)
account = Path('/var/run/secrets/kubernetes.io/serviceaccount/token')
print(bool(account.read_text()), account.stat().st_uid)
try:
    Path('/opt/private/token').read_text()
except PermissionError:
    print('as private as it says')
Path('/opt/scratch/new').write_text('')
Path('/dev/termination-log').write_text('last words')
"""
        body = pod(
            "other",
            *("python3", "-c", program),
            securityContext={"runAsUser": 185},
            volumeMounts=[
                {"name": "roots", "mountPath": "/opt/private"},
                {"name": "scratch", "mountPath": "/opt/scratch"},
            ],
            volumes=[
                {"name": "roots", "secret": {"secretName": "roots", "defaultMode": 0o400}},
                {"name": "scratch", "emptyDir": {}},
            ],
        )
        create(api, space, "pods", body)
        told = ended(see(api, space, "other", "ended", ended))
        said = logs(api, space, "other").splitlines()
        assert said == ["185 185 [] spark", "True 185", "as private as it says"]
        assert told and (told["exitCode"], told["message"]) == (0, "last words")

    def test_is_asked_to_end_and_then_killed(self, kubernetes: Cluster, space: str) -> None:
        api = kubernetes.api
        polite = "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
        create(api, space, "pods", pod("polite", "bash", "-c", polite))
        # The first process of a list is not ended by a signal that it does not handle.
        create(api, space, "pods", pod("deaf", "sleep", "1000"))
        pids = {}
        for name in ("polite", "deaf"):
            seen = see(api, space, name, "runs", running)
            pids[name] = kubernetes.pid(seen)
            if name == "polite":
                wait_for("its first word", lambda: logs(api, space, "polite"))
            grace = 2 if name == "deaf" else 60  # which the other needs only on a busy machine
            api.delete(f"/api/v1/namespaces/{space}/pods/{name}", {"gracePeriodSeconds": grace})
        for name, pid in pids.items():
            path = f"/api/v1/namespaces/{space}/pods/{name}"
            wait_for(f"{name} to be gone", lambda path=path: api.get(path) is None)
            assert not psutil.pid_exists(pid)
        kept = [p.read_text() for p in (kubernetes.folder / "pods/logs").rglob("polite-*.log")]
        assert kept == ["ready\nasked\n"]

    def test_without_its_secret_does_not_start_until_that_is_there(
        self, kubernetes: Cluster, space: str
    ) -> None:
        api = kubernetes.api
        body = pod(
            "waits",
            "cat",
            "/x/y",
            volumeMounts=[{"name": "late", "mountPath": "/x"}],
            volumes=[{"name": "late", "secret": {"secretName": "late"}}],
        )
        create(api, space, "pods", body)
        told = wait_for(
            "an event", lambda: [e for e in events(api, space, "waits") if "Mount" in e[0]]
        )
        assert told == [
            ("FailedMount", 'MountVolume.SetUp failed for volume "late" : secret "late" not found')
        ]
        waiting = see(api, space, "waits", "waits", lambda p: "waiting" in state(p))
        assert state(waiting)["waiting"]["reason"] == "ContainerCreating"
        create(api, space, "secrets", {"metadata": {"name": "late"}, "stringData": {"y": "here"}})
        see(api, space, "waits", "succeeded", lambda p: phase(p) == "Succeeded")
        assert logs(api, space, "waits") == "here"

    def test_of_an_image_that_can_not_be_had(self, kubernetes: Cluster, space: str) -> None:
        api = kubernetes.api
        create(api, space, "pods", pod("bad", "true", image="bad/typo:1"))
        see(
            api,
            space,
            "bad",
            "image trouble",
            lambda p: state(p).get("waiting", {}).get("reason") == "ImagePullBackOff",
        )
        assert ("BackOff", 'Back-off pulling image "bad/typo:1"') in events(api, space, "bad")

    def test_that_no_node_has_room_for_stays_pending(self, kubernetes: Cluster, space: str) -> None:
        api = kubernetes.api
        create(api, space, "pods", pod("picky", "true", nodeSelector={"disk": "gold"}))
        create(api, space, "pods", pod("big", "true", resources={"requests": {"cpu": "999"}}))
        for name, why in (
            ("picky", "2 node(s) didn't match Pod's node affinity/selector"),
            ("big", "2 Insufficient cpu"),
        ):
            said = f"0/2 nodes are available: {why}."
            wait_for(f"{name} told", lambda n=name: events(api, space, n))
            assert events(api, space, name) == [("FailedScheduling", said)]
            seen = see(api, space, name, "told", lambda p: p["status"].get("conditions"))
            assert phase(seen) == "Pending"
            assert seen["status"]["conditions"][0]["reason"] == "Unschedulable"

    def test_is_evicted_and_preempted(self, kubernetes: Cluster, space: str) -> None:
        api = kubernetes.api
        for name in ("evicted", "preempted"):
            create(api, space, "pods", pod(name, "sleep", "1000"))
        kubernetes.evict(see(api, space, "evicted", "runs", running), "no memory")
        seen = see(api, space, "evicted", "failed", lambda p: phase(p) == "Failed")
        assert (seen["status"]["reason"], seen["status"]["message"]) == ("Evicted", "no memory")
        kubernetes.preempt(see(api, space, "preempted", "runs", running))
        assert ("Preempted", "Preempted by default/important on node") in [
            (reason, message.rsplit(" ", 1)[0])
            for reason, message in events(api, space, "preempted")
        ]


class TestNetwork:
    @pytest.fixture(scope="class")
    @classmethod
    def space(cls, kubernetes: Cluster) -> Iterator[str]:
        with namespace(kubernetes, cls.__name__) as made:
            yield made

    def test_a_service_names_pods_to_each_other_and_ports_are_forwarded(
        self, kubernetes: Cluster, space: str
    ) -> None:
        api = kubernetes.api
        create(
            api,
            space,
            "services",
            {
                "metadata": {"name": "web"},
                "spec": {
                    "clusterIP": "None",
                    "selector": {"app": "web"},
                    "ports": [{"port": 8000}],
                },
            },
        )
        serve = ["python3", "-m", "http.server", "8000", "--directory", "/opt/spark/jars"]
        probe = {"tcpSocket": {"port": 8000}, "periodSeconds": 1}
        for name in ("one", "two"):  # the same port in both
            body = pod(
                name, *serve, labels={"app": "web"} if name == "one" else {}, readinessProbe=probe
            )
            create(api, space, "pods", body)
        for name in ("one", "two"):
            see(api, space, name, "ready", is_ready)
        ask = (
            "import time, urllib.request\n"
            "for _ in range(100):\n"
            "    try:\n"
            f"        print(urllib.request.urlopen('http://web.{space}.svc:8000/').status)\n"
            "        break\n"
            "    except OSError: time.sleep(0.1)\n"
        )
        create(api, space, "pods", pod("asks", "python3", "-c", ask))
        see(api, space, "asks", "ended", ended)
        assert logs(api, space, "asks") == "200\n"
        answer = requests.get(f"http://{kubernetes.pod(space, 'two')['status']['podIP']}:8000/")
        assert answer.ok  # from here too
        for port, said in ((8000, b"HTTP/1.0 200 OK"), (8001, b"")):
            assert first_line(kubernetes, space, "one", port) == said


def first_line(kubernetes: Cluster, space: str, name: str, port: int) -> bytes:
    """What a port of a pod answers to a question in HTTP, through the API server; nothing where
    nobody listens."""
    import kubernetes.stream as streams
    from kubernetes import client, config

    config.load_kube_config(str(kubernetes.kubeconfig))
    core = client.CoreV1Api()
    forwarded = streams.portforward(
        core.connect_get_namespaced_pod_portforward, name, space, ports=str(port)
    )
    way = forwarded.socket(port)
    found = b""
    # Where nobody listens it may be over before anything was asked.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        way.sendall(b"GET / HTTP/1.0\r\n\r\n")
        while data := way.recv(1 << 16):
            found += data
    way.close()
    return found.partition(b"\r\n")[0]


class TestItself:
    """What becomes of it when it is ended, in whatever way."""

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
    def test_nothing_is_left_of_one_that_was_ended(
        self, number: signal.Signals, tmp_path: Path
    ) -> None:
        with start(tmp_path / "cluster", [MARK]) as another:
            with_it = psutil.Process(another.process).children(recursive=True)
            make_namespace(another.api, "some")
            create(another.api, "some", "pods", pod("sleeps", "sleep", "1000"))
            seen = see(another.api, "some", "sleeps", "runs", running)
            with_it.append(psutil.Process(another.pid(seen)))
            os.kill(another.process, number)
            _, alive = psutil.wait_procs(with_it, timeout=patience(30))
            assert alive == [] and len(with_it) == 4
