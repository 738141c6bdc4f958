"""Agents that are known by the certificate of their driver alone, over real TLS."""

import os
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dagster_sparkscale.clusters.agents import credentials
from dagster_sparkscale.clusters.agents.agent import RemoteAgent
from dagster_sparkscale.clusters.agents.change import SetExecutors
from dagster_sparkscale.clusters.agents.credentials import Credentials
from dagster_sparkscale.clusters.agents.http import Connections
from dagster_sparkscale.clusters.errors import AgentRefused, AgentUnreachable, StaleEpoch
from tests.clusters.answering import Agent
from tests.clusters.proxying import Proxy
from tests.driver import serving
from tests.waiting import HANGS, wait_for

STRANGER = "another server answers there, whose certificate is not this driver's"


@pytest.fixture(scope="module")
def made() -> Credentials:
    return credentials.make("clicks", 4)


@pytest.fixture
def secure(made: Credentials, tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(serving.tls(tmp_path, made))
    yield agent
    agent.close()


def ask(connections: Connections, agent: Agent, known: Credentials, **more: Any) -> Any:
    asked = RemoteAgent("clicks", 3, agent.url, known.token, connections, known.certificate, **more)
    return asked.status(HANGS)


def test_a_real_agent_is_asked_and_told_to_stop(
    connections: Connections, made: Credentials, tmp_path: Path
) -> None:
    stops: list[tuple[bool, float]] = []
    there = serving.agent_of(replace(serving.options(), token=made.token))
    secret = serving.tls(tmp_path, made)
    with serving.serving(there, lambda *how: stops.append(how), secret) as server:
        url = f"https://127.0.0.1:{server.server_port}"
        agent = RemoteAgent("clicks", 4, url, made.token, connections, made.certificate)
        assert agent.status(HANGS, window=60.0).phase == "starting"
        agent.stop(True, 9.0)
        wait_for("the stop is passed on", lambda: stops == [(True, 9.0)])
        with pytest.raises(StaleEpoch, match="this driver's is 4"):
            replace(agent, epoch=3).stop(True, 9.0)
        with pytest.raises(AgentRefused, match="refused the token"):
            replace(agent, token="another").status(HANGS)


def test_a_driver_that_came_to_a_stale_address_is_not_shown_the_token(
    connections: Connections, secure: Agent
) -> None:
    """Of the next epoch, or of another stream: each has a certificate of its own."""
    before = credentials.make("clicks", 3)
    with pytest.raises(AgentUnreachable, match=STRANGER):
        ask(connections, secure, before)
    assert secure.asked == []


def test_at_a_stale_address_without_tls_another_driver_is_known_by_what_it_says(
    connections: Connections, agent: Agent
) -> None:
    for stream, epoch in (("clicks", 2), ("orders", 3)):
        with pytest.raises(AgentUnreachable, match="answers the agent of 'clicks', epoch 3, not"):
            RemoteAgent(stream, epoch, agent.url, "token", connections).status(HANGS)


def test_a_kept_connection_is_not_for_who_wants_another_driver_at_the_address(
    connections: Connections, secure: Agent, made: Credentials
) -> None:
    for _ in range(5):
        ask(connections, secure, made)
    assert secure.connections == 1
    with pytest.raises(AgentUnreachable, match=STRANGER):
        ask(connections, secure, credentials.make("clicks", 3))
    ask(connections, secure, made)
    assert (secure.connections, len(secure.asked)) == (2, 6)


def test_a_certificate_that_the_drivers_own_has_signed_is_not_the_drivers_own(
    connections: Connections, made: Credentials, tmp_path: Path
) -> None:
    issuer = x509.load_pem_x509_certificate(made.certificate.encode())
    signing = serialization.load_pem_private_key(made.key.encode(), None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    signed = (
        x509.CertificateBuilder(issuer.subject, issuer.subject, key.public_key(), 1)
        .not_valid_before(datetime(2000, 1, 1))
        .not_valid_after(datetime(9999, 12, 31))
        .sign(signing, hashes.SHA256())
    )
    chain = signed.public_bytes(serialization.Encoding.PEM).decode() + made.certificate
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private = key.private_bytes(pem, form, serialization.NoEncryption()).decode()
    other = Agent(serving.tls(tmp_path, Credentials("", chain, private)))
    try:
        with pytest.raises(AgentUnreachable, match=STRANGER):
            ask(connections, other, made)
        assert other.asked == []
    finally:
        other.close()


def test_the_token_of_an_agent_with_a_certificate_is_never_sent_in_the_clear(
    connections: Connections, agent: Agent, made: Credentials
) -> None:
    with pytest.raises(AgentUnreachable, match="is http://, and its token is for https:// alone"):
        ask(connections, agent, made)
    assert agent.connections == 0


def test_a_server_without_tls_at_the_address_is_told_apart(
    connections: Connections, agent: Agent, made: Credentials
) -> None:
    asked = RemoteAgent(
        *("clicks", 3, agent.url.replace("http:", "https:"), made.token, connections),
        made.certificate,
    )
    with pytest.raises(AgentUnreachable, match=r"TLS failed, .*: does another server answer"):
        asked.status(HANGS)
    assert agent.asked == []


def test_an_agent_with_tls_at_the_address_of_one_without_hangs_up(
    connections: Connections, made: Credentials, tmp_path: Path
) -> None:
    there = serving.agent_of(serving.options())
    with serving.serving(there, lambda *_: None, serving.tls(tmp_path, made)) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        with pytest.raises(
            AgentUnreachable, match=r"gave no answer: (it hung up|Connection reset)"
        ):
            RemoteAgent("clicks", 3, url, "token", connections).status(HANGS)


def test_no_authority_of_this_machine_vouches_for_an_agent(
    connections: Connections, secure: Agent
) -> None:
    asked = RemoteAgent("clicks", 3, secure.url, "token", connections)
    with pytest.raises(AgentUnreachable, match="TLS failed, CERTIFICATE_VERIFY_FAILED"):
        asked.status(HANGS)
    assert secure.asked == []


def test_authorities_of_this_machine_are_read_again_only_where_they_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, public = by_name("127.0.0.1"), tmp_path / "authorities.pem"
    there = Agent(serving.tls(tmp_path, private))
    monkeypatch.setenv("SSL_CERT_FILE", str(public))
    read = []
    load = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda: read.append(1) or load())

    def asked() -> Any:
        connections = Connections()  # none is kept
        try:
            return RemoteAgent("clicks", 3, there.url, "token", connections).status(HANGS)
        finally:
            connections.close()

    try:
        public.write_text(by_name("127.0.0.1").certificate)
        os.utime(public, (1, 1))
        for _ in range(2):
            with pytest.raises(AgentUnreachable, match="TLS failed, CERTIFICATE_VERIFY_FAILED"):
                asked()
        public.write_text(private.certificate)
        os.utime(public, (2, 2))
        for _ in range(2):
            assert asked().stream == "clicks"
        assert len(read) == 2
    finally:
        there.close()


def by_name(address: str) -> Credentials:
    """Whose certificate is good for an address, for whoever trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, address)])
    good_for = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(datetime(2000, 1, 1))
        .not_valid_after(datetime(9999, 12, 31))
        .add_extension(good_for, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private = key.private_bytes(pem, form, serialization.NoEncryption())
    return Credentials("", certificate.public_bytes(pem).decode(), private.decode())


def test_a_handshake_that_is_not_answered_is_given_up(
    connections: Connections, made: Credentials
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        asked = RemoteAgent("clicks", 3, url, made.token, connections, made.certificate)
        with pytest.raises(AgentUnreachable, match=r"nothing within 0\.2 s"):
            asked.status(0.2)


@pytest.mark.parametrize("with_tls", [False, True])
def test_an_agent_is_reached_on_a_way_of_its_own(
    connections: Connections, agent: Agent, secure: Agent, made: Credentials, with_tls: bool
) -> None:
    """As through the API server of Kubernetes, whose client gives one end of a pair of sockets."""
    there, made_so_far = secure if with_tls else agent, []

    def connect(deadline: float) -> socket.socket:
        made_so_far.append(deadline)
        ours, theirs = socket.socketpair()
        target = socket.create_connection(there.server.server_address[:2], HANGS)
        for one, other in ((theirs, target), (target, theirs)):
            threading.Thread(target=_pump, args=(one, other), daemon=True).start()
        return ours

    scheme = "https" if with_tls else "http"
    asked = RemoteAgent(
        *("clicks", 3, f"{scheme}://pod-of-clicks.invalid:7077", made.token, connections),
        certificate=made.certificate if with_tls else None,
        connect=connect,
    )
    for _ in range(3):
        assert asked.status(HANGS).stream == "clicks"
    assert (len(made_so_far), there.connections) == (1, 1)


def _pump(one: socket.socket, other: socket.socket) -> None:
    try:
        while content := one.recv(65536):
            other.sendall(content)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def test_a_way_that_there_is_not_is_no_answer(connections: Connections, agent: Agent) -> None:
    def connect(_: float) -> socket.socket:
        raise OSError(0, "the pod is gone")

    asked = RemoteAgent("clicks", 3, agent.url, "token", connections, connect=connect)
    with pytest.raises(AgentUnreachable, match="gave no answer: the pod is gone"):
        asked.status(HANGS)


@pytest.mark.parametrize("with_tls", [False, True])
def test_an_agent_behind_a_proxy_that_ends_tls_is_asked_below_its_path(
    connections: Connections, agent: Agent, made: Credentials, tmp_path: Path, with_tls: bool
) -> None:
    with Proxy(agent.url, "/gate/clicks", serving.tls(tmp_path, made) if with_tls else None) as url:
        asked = RemoteAgent(
            *("clicks", 3, f"{url}/gate/clicks/", "token-of-clicks", connections),
            certificate=made.certificate if with_tls else None,
        )
        for _ in range(2):
            assert asked.status(HANGS, window=60.0).stream == "clicks"
        assert asked.change(SetExecutors(4), HANGS).stream == "clicks"
        with pytest.raises(AgentRefused, match="HTTP status 404"):
            replace(asked, url=f"{url}/gate/orders").status(HANGS)
    sent = [(method, path, body) for method, path, _, body in agent.asked]
    assert sent == [
        *[("GET", "/v1/status?window=60.000", None)] * 2,
        ("PUT", "/v1/executors", {"target": 4, "epoch": 3}),
    ]
    assert {headers["Authorization"] for _, _, headers, _ in agent.asked} == {
        "Bearer token-of-clicks"
    }
