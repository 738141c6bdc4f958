"""Streams on a Spark Standalone cluster that exists, their drivers on this host."""

from typing import Any

from pydantic import Field, field_validator

from dagster_sparkscale.clusters.base import is_text
from dagster_sparkscale.clusters.capacity import Capacity
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host.cluster import HostedCluster
from dagster_sparkscale.clusters.standalone import masters


class StandaloneCluster(HostedCluster):
    """Runs streams on a Standalone cluster, with their drivers on the host that Dagster runs on.

    All settings may be `dg.EnvVar`s.
    """

    master: str = Field(
        description="URL of the master, spark://host:7077; several with commas between them."
    )
    web_urls: list[str] = Field(
        default_factory=list,
        description="Web UIs of the masters, http://host:8080: needed to tell the free cores.",
    )

    @field_validator("master", mode="before")
    @classmethod
    def _master_is_url(cls, value: Any) -> Any:
        if value is None:  # to Dagster it is that where it is left out
            raise ValueError("must be the URL of the master, such as spark://host:7077")
        if is_text(value) and value:
            masters.hosts(value)
        return value

    def capacity(self) -> Capacity | None:
        content = masters.alive(self.web_urls)
        return masters.capacity(content) if content else None

    def _master(self) -> str:
        try:
            masters.hosts(self.master)
        except ValueError as error:
            raise ClusterError(str(error)) from None
        return self.master

    def _on_loopback(self) -> bool:
        return masters.is_loopback(self._master())
