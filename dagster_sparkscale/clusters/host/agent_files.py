"""What the agent of a driver is asked by, as it lies in the folder of its submission."""

import ssl
from collections.abc import Mapping

from dagster_sparkscale.clusters.agents import credentials
from dagster_sparkscale.clusters.agents.agent import RemoteAgent
from dagster_sparkscale.clusters.errors import AgentUnreachable, ClusterError
from dagster_sparkscale.clusters.host.folders import SubmissionFolder, explained, read_json
from dagster_sparkscale.clusters.host.supervisor import bytes_of
from dagster_sparkscale.driver.metrics.token import read_token


def write_credentials(stream: str, epoch: int, files: SubmissionFolder, tls: bool) -> None:
    """Make the token of a new driver, and, if its agent shall speak TLS, its certificate and key.

    Raises:
        ClusterError: they can't be written; names the file.
    """
    if not tls:
        write_tokens(files, credentials.token())
        return
    made = credentials.make(stream, epoch)
    write_tokens(files, made.token)
    files.write_private(files.key, made.key)
    files.write_private(files.certificate, made.certificate)


def write_tokens(files: SubmissionFolder, token: str) -> None:
    """Write the token of a new driver, and the one that reads its metrics alone.

    Raises:
        ClusterError: they can't be written; names the file.
    """
    files.write_private(files.token, token)
    files.write_private(files.metrics_token, read_token(token))


def agent_of(
    stream: str, epoch: int, files: SubmissionFolder, url: str | None = None
) -> RemoteAgent:
    """The agent of that driver. One that was given a certificate is known by it, whatever `url`
    says.

    Args:
        url: the agent's address; None: the announced one.

    Raises:
        AgentUnreachable: the agent has not been announced.
        ClusterError: the agent's token or certificate can't be read.
    """
    url = url or text_in(read_json(files.agent) or {}, "url")
    if url is None:
        raise AgentUnreachable(
            f"the agent of {stream!r} has not announced its address: the driver is still "
            "starting, or ended before it could"
        )
    return RemoteAgent(stream, epoch, url, files.read_token(), certificate=_certificate_in(files))


def text_in(content: Mapping[str, object], name: str) -> str | None:
    """A text that is not empty; None: there is none of that name."""
    value = content.get(name)
    return value if isinstance(value, str) and value else None


def _certificate_in(files: SubmissionFolder) -> str | None:
    try:
        with explained("read", files.certificate):
            found = bytes_of(files.certificate)
    except FileNotFoundError:
        return None
    try:
        certificate = found.decode("ascii")
        ssl.PEM_cert_to_DER_cert(certificate)
    except ValueError:
        raise ClusterError(
            f"{files.certificate}: must be a certificate, PEM; without it the driver can only be "
            "stopped, not asked"
        ) from None
    return certificate
