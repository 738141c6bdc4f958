"""The cluster managers as Dagster resources: their fields, what they refuse, what they cost."""

import json
import socketserver
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_sparkscale.clusters import local
from dagster_sparkscale.clusters.capacity import Capacity, Free
from dagster_sparkscale.clusters.errors import ClusterError, OperationInProgress
from dagster_sparkscale.clusters.local import LocalCluster
from dagster_sparkscale.clusters.standalone import masters
from dagster_sparkscale.clusters.standalone.cluster import StandaloneCluster
from dagster_sparkscale.declare.declaration import DeclarationError
from tests.clusters.answering import Agent, drips
from tests.clusters.host.begun import begun
from tests.fakes import structured
from tests.waiting import HANGS


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("spark://h1:7077", ["h1"]),
        ("spark://h1:7077,h-2.example.org:7078", ["h1", "h-2.example.org"]),
        ("spark://[::1]:7077", ["[::1]"]),
    ],
)
def test_a_masters_address_is_read(url: str, hosts: list[str]) -> None:
    assert masters.hosts(url) == hosts


@pytest.mark.parametrize(
    "url", ["", "h1:7077", "spark://h1", "spark://h1:7077,", "yarn", "spark://h:0", "spark://h:x"]
)
def test_what_is_no_masters_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must be the URL of a Standalone master"):
        masters.hosts(url)


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077", True),
        ("spark://localhost:7077,h2:7077", False),
    ],
)
def test_a_master_on_the_loopback_is_known(url: str, loopback: bool) -> None:
    assert masters.is_loopback(url) is loopback


def test_a_wrong_master_is_refused_when_it_is_declared() -> None:
    with pytest.raises(ValueError, match="master = 'h1:7077': must be the URL"):
        StandaloneCluster(master="h1:7077")


@pytest.mark.parametrize(
    "key", ["spark.dynamicAllocation.enabled", "spark.streaming.dynamicAllocation.enabled"]
)
def test_an_allocation_of_sparks_own_is_refused_for_all_streams_too(key: str) -> None:
    with pytest.raises(DeclarationError, match=f"spark_conf.*drop {key} = true"):
        LocalCluster(spark_conf={key: "True"})
    assert LocalCluster(spark_conf={key: "false"}).spark_conf == {key: "false"}


@pytest.mark.parametrize(
    ("key", "fault"),
    [("spark.cores.max", "each stream declares its own"), ("memory", 'begins with "spark."')],
)
def test_a_common_setting_that_cannot_be_common_is_refused(key: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        StandaloneCluster(master="spark://h:7077", spark_conf={key: "1"})


@pytest.mark.parametrize("name", ["", "TOPIC=web"])
def test_what_is_no_name_of_a_variable_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"pass_environment: '(TOPIC)?': must be the name of a"):
        StandaloneCluster(master="spark://h:7077", pass_environment=["KAFKA_*", name])


def test_every_setting_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER", "spark://h:7077")
    monkeypatch.setenv("STATE", str(tmp_path))
    monkeypatch.setenv("SECRET", "hunter2")
    monkeypatch.setenv("WORKERS", "3")
    standalone = StandaloneCluster(
        master=dg.EnvVar("MASTER"),
        state_dir=dg.EnvVar("STATE"),
        spark_conf={"spark.x": dg.EnvVar("SECRET")},
    )
    local = LocalCluster(state_dir=dg.EnvVar("STATE"), workers=dg.EnvVar.int("WORKERS"))
    seen: list[object] = []

    @dg.op
    def look(standalone: StandaloneCluster, local: LocalCluster) -> None:
        seen.extend([standalone.master, standalone.spark_conf["spark.x"], local.workers])
        seen.append(local.find("clicks"))
        assert "hunter2" not in repr(standalone)

    @dg.job(resource_defs={"standalone": standalone, "local": local})
    def job() -> None:
        look()

    assert job.execute_in_process().success
    assert seen == ["spark://h:7077", "hunter2", 3, None]


def test_a_master_from_the_environment_is_checked_when_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER", "h1")
    cluster = StandaloneCluster(master=dg.EnvVar("MASTER"), state_dir=str(tmp_path))
    with pytest.raises((ValueError, ClusterError), match="must be the URL of a Standalone master"):
        cluster.process_config_and_initialize()


def test_the_capacity_counts_live_workers_only() -> None:
    worker = {
        "host": "h",
        "port": 1,
        "cores": 4,
        "coresused": 1,
        "memory": 1024,
        "memoryused": 512,
        "state": "ALIVE",
    }
    dead, app = {**worker, "state": "DEAD"}, {"id": "app-1", "cores": 1, "name": "clicks"}
    content = {"workers": [worker, dead], "activeapps": [app]}
    line = "h:1: 1 of 4 cores and 512 of 1024 MB in use"
    assert masters.capacity(content) == Capacity(
        *(4, 3, 1, (line,), (Free(3, 512.0),)), {"app-1": 1}
    )
    assert masters.capacity({"workers": [{}]}) is None
    assert masters.capacity({}) is None


@pytest.mark.parametrize(
    "answer", [b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", b""]
)
def test_what_answers_in_a_masters_place_is_none(answer: bytes) -> None:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(answer)

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        host, port = server.server_address
        assert masters.overview(f"http://{host}:{port}", HANGS) is None
        thread.join()


@pytest.mark.parametrize("whole", [False, True])
def test_a_master_that_drips_what_it_says_of_itself_is_given_up(agent: Agent, whole: bool) -> None:
    sent = drips(agent, json.dumps({"status": "ALIVE"}).encode(), whole=whole)
    assert masters.overview(agent.url, 0.5) is None
    assert not sent.is_set()


def test_a_run_does_not_pay_for_what_it_does_not_use() -> None:
    program = (
        "import sys, dagster; before = set(sys.modules)\n"
        "import dagster_sparkscale.clusters.local\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "heavy = new & {'pyspark', 'py4j', 'requests', 'urllib3', 'psutil', 'kubernetes'}\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=HANGS)


def test_a_relative_state_folder_is_the_same_one_wherever_a_process_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    cluster = StandaloneCluster(master="spark://127.0.0.1:7077", state_dir="state")
    with cluster.lease("clicks", "test"):
        monkeypatch.chdir(tmp_path / "elsewhere")
        with pytest.raises(OperationInProgress), cluster.lease("clicks", "another"):
            pass
    assert (tmp_path / "home" / "state" / "streams" / "clicks").is_dir()
    monkeypatch.delenv("DAGSTER_HOME")
    with cluster.lease("clicks", "test"):
        assert (tmp_path / "elsewhere" / "state" / "streams" / "clicks").is_dir()


def test_an_archive_of_class_data_is_told_to_executors_and_where_it_is_here_to_drivers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    archive = tmp_path / "spark.jsa"
    cluster = StandaloneCluster(master="spark://h:7077", class_data_archive=str(archive))
    assert set(cluster._class_data(tmp_path, tmp_path)) == {"executor"}
    assert f"there is no file {archive} on this host" in caplog.text
    archive.touch()
    told = cluster._class_data(tmp_path, tmp_path)
    assert told["driver"] == told["executor"]
    assert f"-XX:SharedArchiveFile={archive}" in told["driver"]


def test_an_archive_at_a_relative_path_is_refused_when_it_is_declared() -> None:
    with pytest.raises(
        ValueError, match=r"class_data_archive = 'a\.jsa': must be an absolute path"
    ):
        StandaloneCluster(master="spark://h:7077", class_data_archive="a.jsa")


def test_a_cluster_told_to_do_without_class_data_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cluster = LocalCluster(state_dir=str(tmp_path), class_data=False)
    assert cluster._class_data(tmp_path, tmp_path) == {}
    assert StandaloneCluster(master="spark://h:7077")._class_data(tmp_path, tmp_path) == {}
    assert not (tmp_path / "cache").exists()


def test_an_archive_that_is_given_takes_the_place_of_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    archive = tmp_path / "image.jsa"
    archive.touch()
    cluster = LocalCluster(state_dir=str(tmp_path), class_data_archive=str(archive))
    told = cluster._class_data(tmp_path, tmp_path)
    assert [f"-XX:SharedArchiveFile={archive}" in each for each in told.values()] == [True, True]


def test_a_stream_whose_record_is_broken_bars_the_start_of_no_other(tmp_path: Path) -> None:
    cluster = StandaloneCluster(master="spark://127.0.0.1:7077", state_dir=str(tmp_path))
    broken = begun(tmp_path, "broken")
    records = broken.files.path.parent.parent / "record"
    for path in records.iterdir():
        path.write_text("{")
    with pytest.raises(ClusterError, match="broken"):
        cluster.store().read("broken")
    with cluster.lease("clicks", "test") as lease:
        cluster.make_way(lease, "file:///x")  # is not refused


def test_there_is_nothing_to_stop_where_no_cluster_ever_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert local.main(["stop", "--state-dir", str(tmp_path / "mistyped")]) == 1
    assert f"There is no cluster in {tmp_path / 'mistyped'}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"workers": 0}, "workers = 0: must be a whole number, at least 1"),
        ({"workers": True}, "workers = True: must be a whole number, at least 1"),
        ({"workers": "x"}, "workers = 'x': must be a whole number"),
        ({"workers": dg.EnvVar("N")}, r"workers = .*: must be .* as dg.EnvVar.int gives one"),
        ({"cores_per_worker": -1}, "cores_per_worker = -1: must be a whole number, at least 1"),
        ({"memory_per_worker": "much"}, "memory_per_worker = 'much': must be a JVM memory size"),
        ({"memory_per_worker": 4}, "memory_per_worker = 4: must be a JVM memory size such as"),
        ({"state_dir": " "}, "state_dir = ' ': must be the name of a folder"),
        ({"class_data": "perhaps"}, "class_data = 'perhaps': must be True or False"),
        ({"agent_tls": "perhaps"}, "agent_tls = 'perhaps': must be True or False"),
        ({"pass_environment": "HOME"}, "pass_environment: must be a list$"),
        ({"worker": 3}, "worker: no such field; did you mean 'workers'. the fields are agent_bind"),
    ],
)
def test_a_size_that_no_cluster_has_is_refused_when_it_is_declared(
    given: dict[str, Any], fault: str
) -> None:
    with pytest.raises(DeclarationError, match=f"^LocalCluster: {fault}") as refused:
        LocalCluster(**given)
    assert "\n" not in str(refused.value)


def test_every_fault_of_a_cluster_has_a_line_of_its_own() -> None:
    with pytest.raises(DeclarationError) as refused:
        StandaloneCluster(web_urls="http://h:8080", agent_bind=5)
    assert str(refused.value).splitlines() == [
        "StandaloneCluster: agent_bind = 5: must be text",
        "StandaloneCluster: master: missing; it has no default. URL of the master, "
        "spark://host:7077; several with commas between them.",
        "StandaloneCluster: web_urls = 'http://h:8080': must be a list, such as ['http://h:8080']",
    ]


def test_what_may_be_a_secret_of_a_cluster_is_not_repeated() -> None:
    for field in ("spark_conf", "pass_environment"):
        for given in ("hunter2", ["TOKEN=hunter2"], {"spark.a": ["hunter2"]}):
            with pytest.raises(DeclarationError) as refused:
                LocalCluster(**{field: given})
            assert "hunter2" not in str(refused.value)


def test_the_command_says_so_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        local.main(["start", "--state-dir", str(tmp_path), "--workers", "0"])
    assert ended.value.code == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith("error: LocalCluster: workers = 0: must be a whole number, at least 1")


def test_what_the_environment_is_to_say_of_a_size_is_not_judged_before_it_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unknown = LocalCluster(workers=dg.EnvVar.int("WORKERS"), memory_per_worker=dg.EnvVar("MEMORY"))
    wide = structured(executor_cores=64)
    assert unknown.misfit(wide) is None
    assert "executor_cores = 64" in (LocalCluster().misfit(wide) or "")
    # It is when it is used.
    monkeypatch.setenv("WORKERS", "0")
    monkeypatch.setenv("MEMORY", "4g")
    said = "^LocalCluster: workers = 0: must be a whole number, at least 1$"
    with pytest.raises(DeclarationError, match=said):
        unknown.process_config_and_initialize()
