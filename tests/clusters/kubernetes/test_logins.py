"""Logins that a program makes, which a kubeconfig names, such as `aws eks get-token`."""

import json
import sys
from pathlib import Path

import psutil
import pytest

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.kubernetes import access
from dagster_sparkscale.clusters.kubernetes.access import access_to
from tests.waiting import wait_for

KIND = "client.authentication.k8s.io/v1"


def kubeconfig(folder: Path, program: str, *arguments: str, **user: object) -> str:
    """One in `folder` whose user has a program beside what `user` says."""
    made = {"apiVersion": KIND, "command": sys.executable, "args": ["-c", program, *arguments]}
    context = {"cluster": "c", "user": "u", "namespace": "streams"}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": context}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.1.2.3:6443"}}],
        "users": [{"name": "u", "user": {"exec": made, **user}}],
    }
    path = folder / "config"
    path.write_text(json.dumps(content))
    return str(path)


def credential(token: str, **status: str) -> str:
    return json.dumps(
        {"apiVersion": KIND, "kind": "ExecCredential", "status": {"token": token, **status}}
    )


def test_a_program_makes_the_login(tmp_path):
    path = kubeconfig(tmp_path, f"print({credential('one')!r})")
    found = access_to(path, None)
    assert found.headers() == {"authorization": "Bearer one"}
    assert found.namespace == "streams"


def test_it_is_run_again_when_its_login_has_run_out(tmp_path):
    told = credential("TIMES", expirationTimestamp="2020-01-01T00:00:00Z")
    program = (
        "import pathlib, sys\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "times = len(file.read_text()) if file.exists() else 0\n"
        "file.write_text('x' * (times + 1))\n"
        f"print({told!r}.replace('TIMES', str(times)))\n"
    )
    found = access_to(kubeconfig(tmp_path, program, str(tmp_path / "times")), None)
    first, second = (found.headers()["authorization"] for _ in range(2))
    assert first != second


def test_one_that_hangs_is_ended_with_all_it_has_started_and_told_of(tmp_path, monkeypatch):
    monkeypatch.setattr(access, "LOGIN_SECONDS", 2.0)
    program = (
        "import pathlib, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
        "pathlib.Path(sys.argv[1]).write_text(str(child.pid))\n"
        "child.wait()\n"
    )
    path = kubeconfig(tmp_path, program, str(tmp_path / "pid"))
    with pytest.raises(ClusterError, match=r"failed, or had not ended after 2 s.*Run it by hand"):
        access_to(path, None)
    child = int((tmp_path / "pid").read_text())

    def ended() -> bool:
        try:
            return bool(psutil.Process(child).status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    wait_for("what it has started to be ended", ended)


def test_what_one_leaves_running_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(access, "LOGIN_SECONDS", 2.0)
    program = (
        "import pathlib, subprocess, sys\n"
        "code = 'import time; time.sleep(30)'\n"
        "left = subprocess.Popen([sys.executable, '-c', code], start_new_session=True)\n"
        "pathlib.Path(sys.argv[1]).write_text(str(left.pid))\n"
        f"print({credential('one')!r})\n"
    )
    found = access_to(kubeconfig(tmp_path, program, str(tmp_path / "pid")), None)
    left = psutil.Process(int((tmp_path / "pid").read_text()))
    try:
        assert left.is_running() and left.status() != psutil.STATUS_ZOMBIE
    finally:
        left.kill()
    assert found.headers() == {"authorization": "Bearer one"}


def test_one_that_fails_is_not_taken_for_a_login_as_nobody(tmp_path, caplog):
    path = kubeconfig(tmp_path, "import sys; sys.exit('your session has expired')")
    with pytest.raises(ClusterError, match=f"program, which made none: {sys.executable!r} failed"):
        access_to(path, None)
    assert "your session has expired" in caplog.text


def test_one_that_is_not_there(tmp_path):
    path = kubeconfig(tmp_path, "")
    path_ = Path(path)
    path_.write_text(path_.read_text().replace(sys.executable, "no-such-program"))
    with pytest.raises(ClusterError, match="'no-such-program' failed"):
        access_to(path, None)


def test_its_output_is_not_shown_where_it_makes_no_sense(tmp_path):
    path = kubeconfig(tmp_path, "print('hunter2')")
    with pytest.raises(ClusterError) as caught:
        access_to(path, None)
    assert "hunter2" not in str(caught.value)


def test_a_token_beside_it_goes_before_it(tmp_path):
    path = kubeconfig(tmp_path, "import sys; sys.exit(1)", token="known")
    assert access_to(path, None).headers() == {"authorization": "Bearer known"}
