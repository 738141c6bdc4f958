"""Where a program comes from, and how its pod gets it."""

import http.server
import sys
import threading

import pytest

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.kubernetes import in_pod
from dagster_sparkscale.clusters.kubernetes.in_pod import fetched
from dagster_sparkscale.clusters.kubernetes.programs import Program, program_of
from dagster_sparkscale.declare.streams import StructuredStream


def stream(name, program):
    return StructuredStream(name=name, program=program, batch_interval="1s")


def test_one_in_the_image_is_run_from_there():
    found = program_of(stream("clicks", program="local:///opt/app/clicks.py"))
    assert found == Program("/opt/app/clicks.py")


@pytest.mark.parametrize("url", ["http://host/clicks.py", "https://host/clicks.py"])
def test_one_by_a_url_is_fetched_by_its_driver(url):
    assert program_of(stream("clicks", program=url)) == Program(url)


def test_a_file_here_is_shipped(tmp_path):
    file = tmp_path / "clicks.py"
    file.write_bytes(b"print(1)")
    found = program_of(stream("clicks", program=str(file)))
    assert found == Program("/opt/sparkscale/code/clicks.py", "clicks.py", b"print(1)")


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ("/nowhere/a.py", "clicks: program = '/nowhere/a.py': there is no file /nowhere/a.py"),
        ("local://opt/a.py", "clicks: program = 'local://opt/a.py': must be an absolute path in"),
        ("s3a://bucket/a.py", "clicks: program = 's3a://bucket/a.py': must be local:///path/in/"),
    ],
)
def test_one_that_can_not_be_had_is_refused(given, fault):
    with pytest.raises(ClusterError) as caught:
        program_of(stream("clicks", program=given))
    assert str(caught.value).startswith(fault)


@pytest.mark.parametrize("name", ["my clicks.py", "kl\xfccke.py", "in_pod.py"])
def test_one_whose_name_kubernetes_or_we_can_not_take_is_refused(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(ClusterError, match=r"must have a name of letters.*rename it"):
        program_of(stream("clicks", program=str(tmp_path / name)))


def test_one_that_is_too_large_is_refused(tmp_path):
    file = tmp_path / "large.py"
    file.write_bytes(b"#" * 600_001)
    with pytest.raises(ClusterError, match=r"600001 bytes are too many .*at most 600000.*local:"):
        program_of(stream("clicks", program=str(file)))
    file.write_bytes(b"#" * 600_000)
    assert len(program_of(stream("clicks", program=str(file))).content) == 600_000


def test_a_program_is_fetched_as_it_is(tmp_path):
    served = tmp_path / "served"
    served.mkdir()
    (served / "clicks.py").write_bytes(b"print('\xc3\xa4')")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=served)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        path = fetched(f"{url}/clicks.py?version=3", str(tmp_path))
        with pytest.raises(OSError, match="404"):
            fetched(f"{url}/other.py", str(tmp_path))
        server.shutdown()
    assert path == str(tmp_path / "clicks.py")
    assert (tmp_path / "clicks.py").read_bytes() == b"print('\xc3\xa4')"


def test_words_that_spark_has_put_before_the_drivers_are_left_out(monkeypatch):
    monkeypatch.setattr(in_pod, "HERE", "/opt/sparkscale/code")
    ours = ["--epoch", "7", "a.py", "driver"]
    sparks = ["driver", "--properties-file", "x", "--class", "y"]
    assert in_pod.own([*sparks, "local:///opt/sparkscale/code/in_pod.py", *ours]) == ours
    assert in_pod.own(ours) == ours


def test_a_python_of_an_image_that_is_too_old_is_told(monkeypatch):
    monkeypatch.setattr(in_pod, "lend", lambda path: None)
    monkeypatch.setattr(sys, "version_info", (3, 8, 10, "final", 0))
    monkeypatch.delitem(sys.modules, "dagster_sparkscale.driver.__main__", raising=False)
    with pytest.raises(SystemExit, match=r"a driver needs Python 3\.10 or newer"):
        in_pod.main(["program.py"], "")
