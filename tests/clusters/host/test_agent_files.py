"""What the agent of a driver is asked by, from the folder of its submission."""

import stat
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.agents.credentials import Credentials
from dagster_sparkscale.clusters.errors import AgentUnreachable, ClusterError
from dagster_sparkscale.clusters.host.agent_files import agent_of, write_credentials
from dagster_sparkscale.clusters.host.folders import SubmissionFolder
from dagster_sparkscale.driver.metrics.token import read_token
from tests.driver.serving import tls


@pytest.fixture
def files(tmp_path: Path) -> SubmissionFolder:
    files = SubmissionFolder(tmp_path / "submissions" / "3")
    files.create()
    return files


def test_without_tls_there_are_tokens_alone(files: SubmissionFolder) -> None:
    write_credentials("clicks", 3, files, tls=False)
    assert {path.name for path in files.path.iterdir()} == {"token", "metrics.token"}
    agent = agent_of("clicks", 3, files, "http://127.0.0.1:1")
    assert (len(agent.token), agent.certificate) == (43, None)
    assert files.metrics_token.read_text() == read_token(agent.token)


def test_with_tls_there_are_a_certificate_and_its_key_that_nobody_else_reads(
    files: SubmissionFolder, tmp_path: Path
) -> None:
    write_credentials("clicks", 3, files, tls=True)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files.path.iterdir()}
    assert modes == dict.fromkeys(
        ("token", "metrics.token", "agent.certificate", "agent.key"), 0o600
    )
    agent = agent_of("clicks", 3, files, "https://127.0.0.1:1")
    assert agent.certificate == files.certificate.read_text()
    assert tls(tmp_path, Credentials("", agent.certificate, files.key.read_text()))


def test_an_address_that_leads_past_tls_is_not_asked(files: SubmissionFolder) -> None:
    """Whoever can say where an agent is must not be shown its token for it."""
    write_credentials("clicks", 3, files, tls=True)
    with pytest.raises(AgentUnreachable, match="is http://, and its token is for https:// alone"):
        agent_of("clicks", 3, files, "http://127.0.0.1:1").status()


def test_a_certificate_that_can_not_be_read_is_named(files: SubmissionFolder) -> None:
    write_credentials("clicks", 3, files, tls=False)
    files.certificate.mkdir()
    with pytest.raises(ClusterError, match=r"agent\.certificate: can't read it: Is a directory"):
        agent_of("clicks", 3, files, "https://127.0.0.1:1")


@pytest.mark.parametrize("content", [b"", bytes(600), b"\xff\xfe", b"-----BEGIN CERTIFICATE-----"])
def test_a_certificate_that_a_loss_of_power_has_spoilt_is_named(
    files: SubmissionFolder, content: bytes
) -> None:
    write_credentials("clicks", 3, files, tls=True)
    files.certificate.write_bytes(content)
    with pytest.raises(ClusterError, match=r"agent\.certificate: must be a certificate, PEM; with"):
        agent_of("clicks", 3, files, "https://127.0.0.1:1")


def test_one_that_has_announced_nothing_can_not_be_asked_yet(files: SubmissionFolder) -> None:
    with pytest.raises(AgentUnreachable, match="has not announced its address"):
        agent_of("clicks", 3, files)
