"""Where a program comes from, and how its pod gets it."""

import http.server
import threading

import pytest

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.kubernetes.in_pod import fetched
from dagster_sparkscale.clusters.kubernetes.programs import Program, program
from dagster_sparkscale.declare.streams import StructuredStream


def stream(name, program):
    return StructuredStream(name=name, program=program, batch_interval="1s")


def test_one_in_the_image_is_run_from_there():
    found = program(stream("clicks", program="local:///opt/app/clicks.py"))
    assert found == Program("/opt/app/clicks.py")


@pytest.mark.parametrize("url", ["http://host/clicks.py", "https://host/clicks.py"])
def test_one_by_a_url_is_fetched_by_its_driver(url):
    assert program(stream("clicks", program=url)) == Program(url)


def test_a_file_here_is_shipped(tmp_path):
    file = tmp_path / "clicks.py"
    file.write_bytes(b"print(1)")
    found = program(stream("clicks", program=str(file)))
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
        program(stream("clicks", program=given))
    assert str(caught.value).startswith(fault)


def test_one_that_is_too_large_is_refused(tmp_path):
    file = tmp_path / "large.py"
    file.write_bytes(b"#" * 750_001)
    with pytest.raises(ClusterError, match=r"750001 bytes are too many .*at most 750000.*local:"):
        program(stream("clicks", program=str(file)))
    file.write_bytes(b"#" * 750_000)
    assert len(program(stream("clicks", program=str(file))).content) == 750_000


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


@pytest.mark.parametrize("name", ["in_pod.py", "my clicks.py", "ä.py"])
def test_a_name_that_is_taken_or_can_be_no_key_is_refused(tmp_path, name):
    (tmp_path / name).write_text("pass")
    with pytest.raises(ClusterError, match="a file of that name can't be shipped: rename it"):
        program(stream("clicks", program=str(tmp_path / name)))
