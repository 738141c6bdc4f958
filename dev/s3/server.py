"""An S3 server for tests, kept by a process of its own, and what is in it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dev.daemons import Keeper, tail

BUCKET = "streams"
KEY = "emulator"
"""Who may come in, and the secret."""
_REGION = "us-east-1"


class ServerFailed(RuntimeError):
    """It did not come up; carries what it said last."""


@dataclass(frozen=True)
class Store:
    """A bucket."""

    endpoint: str
    bucket: str = BUCKET

    @property
    def url(self) -> str:
        """The bucket's root, as Hadoop names it."""
        return f"s3a://{self.bucket}"

    @property
    def settings(self) -> Mapping[str, str]:
        """What Spark takes to reach it, without the jars."""
        return {
            f"spark.hadoop.fs.s3a.{name}": value
            for name, value in {
                "endpoint": self.endpoint,
                "endpoint.region": _REGION,
                "path.style.access": "true",
                "connection.ssl.enabled": "false",
                "aws.credentials.provider": (
                    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
                ),
                "access.key": KEY,
                "secret.key": KEY,
            }.items()
        }

    @cached_property
    def client(self) -> Any:
        import boto3
        from botocore.config import Config

        return boto3.session.Session().client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=_REGION,
            aws_access_key_id=KEY,
            aws_secret_access_key=KEY,
            # None for the loopback interface, whatever the environment says.
            config=Config(proxies={}, s3={"addressing_style": "path"}),
        )

    def content(self, folder: str) -> dict[str, bytes]:
        """All objects below a folder, by their paths in it; without the marks of empty folders."""
        prefix = f"{folder.strip('/')}/"
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=prefix
        )
        keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
        read = {key: self._read(key) for key in keys if not key.endswith("/")}
        # Some have got another name since they were listed.
        return {key.removeprefix(prefix): each for key, each in read.items() if each is not None}

    def _read(self, key: str) -> bytes | None:
        try:
            content: bytes = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        except self.client.exceptions.NoSuchKey:
            return None
        return content


@contextmanager
def tethered(log: Path, *options: str) -> Iterator[Store]:
    """A server with an empty bucket, which ends with this context or with this process.

    Args:
        options: of `dev.s3`.

    Raises:
        ServerFailed: it did not come up.
    """
    with Keeper(log, "dev.s3", *options) as keeper:
        if (endpoint := keeper.told()) is None:
            raise ServerFailed(tail(log))
        store = Store(endpoint)
        store.client.create_bucket(Bucket=store.bucket)
        yield store
