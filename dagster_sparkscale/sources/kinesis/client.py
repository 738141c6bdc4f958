"""boto3's side of it: credentials, roles, timeouts and retries."""

from typing import Any

from .options import Connection


class KinesisError(Exception):
    """The service said no, or nothing; the text says what to do about it."""


class UnknownSequence(KinesisError):
    """A sequence number that the service knows to be of no record of the shard."""


def open_client(session: Any, connection: Connection, connections: int, retries: int) -> Any:
    """
    Args:
        connections: kept open at a time.
        retries: with exponential backoff and jitter, by boto3: after throttling, errors of the
            service itself, and failures of the network.

    Raises:
        KinesisError: no region is known, or no region has that name.
    """
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    config = Config(
        connect_timeout=connection.connect_timeout_s,
        read_timeout=connection.read_timeout_s,
        retries={"mode": "standard", "total_max_attempts": retries + 1},
        max_pool_connections=connections,
        user_agent_extra="kinesis-direct",
    )
    try:
        return session.client("kinesis", endpoint_url=connection.endpoint_url, config=config)
    except (BotoCoreError, ValueError) as error:
        raise KinesisError(
            f"no client for Kinesis: {error} See the options region and endpointUrl"
        ) from None


def open_session(connection: Connection) -> Any:
    """A boto3 session with the credentials the options name, or those that boto3 finds.

    Raises:
        KinesisError: no profile has that name, or no credentials are there to assume the role.
    """
    import boto3
    from botocore.exceptions import BotoCoreError

    try:
        session = boto3.Session(
            aws_access_key_id=connection.access_key_id,
            aws_secret_access_key=connection.secret_access_key,
            aws_session_token=connection.session_token,
            profile_name=connection.profile,
            region_name=connection.region,
        )
        return _in_role(session, connection) if connection.role_arn else session
    except BotoCoreError as error:
        raise KinesisError(f"no session with AWS: {error}") from None


def _in_role(session: Any, connection: Connection) -> Any:
    """A session whose credentials are those of the role, renewed before they expire."""
    import boto3
    import botocore.session
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials

    own = session._session.get_credentials()
    if own is None:
        raise KinesisError(
            f"roleArn: there are no AWS credentials to assume {connection.role_arn} with"
        )
    extra = {"RoleSessionName": connection.role_session_name}
    if connection.external_id:
        extra["ExternalId"] = connection.external_id

    def client(service: str, **arguments: Any) -> Any:
        if connection.sts_endpoint_url:
            arguments["endpoint_url"] = connection.sts_endpoint_url
        arguments.setdefault("region_name", session.region_name or "us-east-1")
        return session._session.create_client(service, **arguments)

    fetcher = AssumeRoleCredentialFetcher(
        client_creator=client,
        source_credentials=own,
        role_arn=connection.role_arn,
        extra_args=extra,
    )
    assumed = botocore.session.get_session()
    assumed._credentials = DeferredRefreshableCredentials(
        refresh_using=fetcher.fetch_credentials, method="assume-role"
    )
    return boto3.Session(botocore_session=assumed, region_name=session.region_name)
