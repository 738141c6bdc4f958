"""What a user declares of lineage: where a stream's drivers tell what they read and write. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from dagster_sparkscale.declare.declaration import Declaration, Seconds
from dagster_sparkscale.declare.part import Drift, Part, StreamOfParts
from dagster_sparkscale.driver.lineage.datasets import Dataset
from dagster_sparkscale.driver.lineage.plan import PREFIX, LineagePlan, with_version
from dagster_sparkscale.driver.settings import LINEAGE, LINEAGE_RECORD
from dagster_sparkscale.version import __version__

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PASSWORD = re.compile(r"://.*:.*@|^[^:@/]+:[^:@/]+@|\b(password|pwd)=", re.IGNORECASE | re.DOTALL)
"""A login with a password, with a scheme before it or without, or one among parameters as those of
JDBC."""
_Text = Annotated[str, Field(min_length=1, max_length=1000)]
Names = tuple[_Text, _Text]
"""A dataset by its namespace and its name."""


class Lineage(Declaration, Part):
    """An OpenLineage server, which is told of each driver of a stream as of one run."""

    reserved: ClassVar[Mapping[str, str]] = {LINEAGE: "lineage", LINEAGE_RECORD: "lineage"}
    drifts: ClassVar[Mapping[str, Drift]] = {PREFIX: Drift(absent="none")}

    url: str
    """The server, such as `http://marquez:5000`. A key of it is no part of this."""

    endpoint: str = "api/v1/lineage"
    """The path below `url` that takes events."""

    namespace: _Text = "default"
    """The namespace of the job. Its name is that of the stream's asset, joined by dots."""

    every: Annotated[Seconds, Field(ge=1)] = 600.0
    """Seconds between two events of a stream that runs."""

    api_key_env: str | None = None
    """The environment variable that has the server's key, in the driver (by the stream's `env`, or
    the cluster's `pass_environment`) and where Dagster evaluates the stream. The key goes out as
    `Authorization: Bearer`. None: no key, or one in a file."""

    api_key_file: str | None = None
    """The file with that key, at the same path in both places."""

    inputs: tuple[Names, ...] = ()
    """Datasets that it reads beside those that are found, each by its namespace and its name:
    `("kafka://broker:9092", "clicks")`."""

    outputs: tuple[Names, ...] = ()
    """Datasets that it writes beside those that are found, such as what `foreachBatch` writes."""

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        right = "must be an address with http:// or https:// and a host, as http://marquez:5000"
        try:
            found = urlsplit(value)
            port_is_right = found.port is None or found.port > 0
            (found.hostname or "").encode("idna")  # as it is looked up
        except ValueError:
            raise ValueError(right) from None
        whole = found.scheme in ("http", "https") and found.hostname and port_is_right
        if not whole or not value.isprintable() or " " in value:
            raise ValueError(right)
        if "@" in found.netloc or found.query or found.fragment:
            raise ValueError(
                "must have no password, `?` or `#`: it shows in Dagster; name a key by api_key_env "
                "or api_key_file"
            )
        return value

    @field_validator("inputs", "outputs")
    @classmethod
    def _has_no_password(cls, value: tuple[Names, ...]) -> tuple[Names, ...]:
        for namespace, _ in value:
            if _PASSWORD.search(namespace):
                raise ValueError(
                    "must have no password in a namespace: the lineage server and Dagster show it"
                )
        return value

    @field_validator("endpoint")
    @classmethod
    def _is_a_path(cls, value: str) -> str:
        if not re.fullmatch(r"/?[A-Za-z0-9._~/-]+", value):
            raise ValueError("must be a path, such as api/v1/lineage")
        return value

    @field_validator("api_key_env")
    @classmethod
    def _is_a_variable(cls, value: str | None) -> str | None:
        if value is not None and not _VARIABLE.fullmatch(value):
            raise ValueError(
                "must be the name of an environment variable, such as OPENLINEAGE_API_KEY; never "
                "the key itself"
            )
        return value

    @field_validator("api_key_file")
    @classmethod
    def _is_absolute(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith("/"):
            raise ValueError("must be an absolute path")
        return value

    def _faults(self) -> Iterator[str]:
        yield from super()._faults()
        if self.api_key_env is not None and self.api_key_file is not None:
            yield "api_key_file: drop it, or drop api_key_env; the key is in one of them"

    def _texts(self, stream: StreamOfParts) -> dict[str, str]:
        return LineagePlan(
            f"{self.url.rstrip('/')}/{self.endpoint.lstrip('/')}",
            self.namespace,
            ".".join((*stream.key_prefix, stream.name)),
            self.every,
            self.api_key_env,
            self.api_key_file,
            tuple(Dataset(*each) for each in self.inputs),
            tuple(Dataset(*each) for each in self.outputs),
        ).as_texts()

    def settings(self, stream: StreamOfParts) -> dict[str, str]:
        return {LINEAGE: json.dumps(with_version(self._texts(stream), __version__))}

    def declared(self, stream: StreamOfParts) -> dict[str, str]:
        return self._texts(stream)
