"""Credentials on a real Spark: assumed roles, none at all; and secrets, which are shown nowhere."""

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.sources.kinesis.delivered import row
from tests.sources.kinesis.proxy import FaultProxy
from tests.sources.kinesis.queries import Queries
from tests.sources.kinesis.stream import Stream
from tests.sources.kinesis.structured import ONE, settings

pytestmark = pytest.mark.spark
Make = Callable[..., Stream]

ROLE = "arn:aws:iam::123456789012:role/reader"
REFUSED = "arn:aws:iam::123456789012:role/of-others"
OWN_KEY, ROLE_KEY = "AKIAOWNKEY", "ASIAROLEKEY"
SECRETS = {
    "secret access key": "own-secret-3f9c1e77d0",
    "session token": "own-token-8b2a6c55e1",
    "external id": "external-id-41d7aa90c3",
    "secret of the role": "role-secret-6e0b9f2a84",
    "token of the role": "role-token-c57d13e8f9",
}
ANSWER = f"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleResult><Credentials><AccessKeyId>{ROLE_KEY}</AccessKeyId>
<SecretAccessKey>{SECRETS["secret of the role"]}</SecretAccessKey>
<SessionToken>{SECRETS["token of the role"]}</SessionToken>
<Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""
REFUSAL = b"""<ErrorResponse><Error><Code>AccessDenied</Code>
<Message>not authorized to perform sts:AssumeRole</Message></Error></ErrorResponse>"""


class Sts(ThreadingHTTPServer):
    """Gives out the credentials of one role, and keeps what it was asked. Refuses another role."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.asked: list[dict[str, str]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Sts

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        asked = {name: values[0] for name, values in parse_qs(body).items()}
        if asked["RoleArn"] == REFUSED:
            self.send_response(403)
            self.end_headers()
            self.wfile.write(REFUSAL)
            return
        self.server.asked.append({**asked, "signed": self.headers["Authorization"]})
        later = datetime.now(UTC) + timedelta(hours=1)
        answer = (ANSWER % later.strftime("%Y-%m-%dT%H:%M:%SZ")).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def sts() -> Iterator[Sts]:
    with Sts() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.clusters
@ONE
def test_a_role_is_assumed_or_an_error_says_why_not_and_no_secret_is_shown_anywhere(
    stream: Make, emulator: Any, proxy: FaultProxy, sts: Sts, tmp_path: Path
) -> None:
    """All in one program, as Spark takes long to start without what this process has of AWS."""
    made = stream(2)
    made.put(40, size=20_000)  # so that tasks read of it too
    own = {
        "awsAccessKeyId": OWN_KEY,
        "awsSecretAccessKey": SECRETS["secret access key"],
        "awsSessionToken": SECRETS["session token"],
    }
    role = {
        **own,
        "roleArn": ROLE,
        "roleSessionName": "a-session",
        "externalId": SECRETS["external id"],
        "stsEndpointUrl": sts.url,
    }
    nobody = {"awsAccessKeyId": None, "awsSecretAccessKey": None}

    def job(name: str, stream: str = made.name, **more: str | None) -> dict[str, object]:
        options = settings(stream, proxy.url, readTimeout="10s", **more)
        return {"name": name, "options": options, "trigger": {"availableNow": True}}

    jobs = [
        job("role", **role),
        job("lost", stream="not-there", **role),
        job("nobody", **nobody),
        job("nobody-with-a-role", **nobody, roleArn=ROLE),
    ]
    folder = tmp_path / "queries"
    with FaultProxy(emulator.url) as other_proxy:
        given = settings(made.name, other_proxy.url, roleArn=REFUSED, stsEndpointUrl=sts.url)
        jobs.append({"name": "refused", "options": given, "trigger": {"availableNow": True}})
        with Queries.running(folder, jobs) as queries:
            queries.end()
        assert other_proxy.calls() == 0

    said = queries.said("role")
    assert said["error"] is None
    made.assert_complete([row(data) for data in said["rows"]])
    assert set(proxy.access_keys) == {ROLE_KEY}
    assert 1 <= len(sts.asked) <= 10, "every process has to ask once for each of its clients"
    for asked in sts.asked:
        assert asked["Action"] == "AssumeRole"
        assert asked["RoleArn"] == ROLE
        assert asked["RoleSessionName"] == "a-session"
        assert asked["ExternalId"] == SECRETS["external id"]
        assert OWN_KEY in asked["signed"]

    assert "there is no stream 'not-there'" in queries.said("lost")["error"]
    assert "no AWS credentials: give the option roleArn" in queries.said("nobody")["error"]
    assert f"no AWS credentials to assume {ROLE}" in queries.said("nobody-with-a-role")["error"]
    error = queries.said("refused")["error"]
    assert "not authorized to perform sts:AssumeRole" in error and "roleArn" in error

    looked_at = set()
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            looked_at.add(path.relative_to(folder).parts[0].partition(".")[2] or path.parts[-2])
            for what, secret in SECRETS.items():
                if what == "external id" and path.suffix == ".json":
                    # Spark shows all options in a plan but those it takes for secrets. AWS does not
                    # take this one for a secret either.
                    content = json.dumps(json.loads(content)["error"]).encode()
                assert secret.encode() not in content, f"the {what} is in {path}"
    # Plans and errors are in the JSON, the progress, what the JVM logs, the event log, checkpoints.
    assert {"json", "progress", "offsets"} <= looked_at
    assert "kinesis-direct" in (folder / "log").read_text(errors="replace")
    assert any((folder / "events").rglob("*"))
    assert "kinesis-direct" in said["plan"]
