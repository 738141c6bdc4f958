"""Kubernetes where SparkApplications are the only way in: an operator makes the drivers' pods.

All else is as of `KubernetesCluster`: what is remembered, how agents are found, what is told.
"""

import re
from collections.abc import Iterator
from typing import Any

from pydantic import Field, field_validator

from dagster_sparkscale.clusters.base import is_text
from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.kubernetes import applications
from dagster_sparkscale.clusters.kubernetes.application_driver import ApplicationDriver
from dagster_sparkscale.clusters.kubernetes.applications import ApplicationObjects
from dagster_sparkscale.clusters.kubernetes.cluster import KubernetesCluster
from dagster_sparkscale.clusters.kubernetes.conditions import conditions
from dagster_sparkscale.clusters.kubernetes.snapshot import Snapshot, take_snapshot
from dagster_sparkscale.clusters.records.store import Record

_VERSION = re.compile(r"[0-9]+\.[0-9][-.a-zA-Z0-9]*")


class SparkApplicationCluster(KubernetesCluster):
    """Runs the drivers of streams as SparkApplications of an operator."""

    operator: str = Field(description="Whose: kubeflow (v1beta2), or apache (v1).")
    spark_version: str = Field(
        description="Of the image, such as 4.3.0: a SparkApplication has to say it."
    )

    @field_validator("operator", mode="before")
    @classmethod
    def _operator_is_known(cls, value: Any) -> Any:
        if is_text(value) and value not in applications.VERSIONS:
            raise ValueError(f"must be {' or '.join(applications.VERSIONS)}")
        return value

    @field_validator("spark_version", mode="before")
    @classmethod
    def _version_is_one(cls, value: Any) -> Any:
        if is_text(value) and not _VERSION.fullmatch(value):
            raise ValueError("must be the version of Spark in the image, such as 4.3.0")
        return value

    def driver_of(self, stream: str, record: Record) -> ApplicationDriver:
        return ApplicationDriver(
            self._api(), stream, record, self._forwards(), self._snapshot, self.operator
        )

    def _of_the_namespace(self) -> Iterator[Condition]:
        version = applications.VERSIONS[self.operator]
        group = version.partition("/")[0]
        yield from conditions(self._api(), self._accounts(), self._forwards(), group)
        try:
            self._api().find(applications.KINDS[self.operator])
            yield Condition("SparkApplication", version)
        except ClusterError as error:
            yield Condition("SparkApplication", f"{version} can't be asked", str(error))

    def _take_snapshot(self) -> Snapshot:
        return take_snapshot(self._api(), applications.KINDS[self.operator])

    def _objects(self, stream: str, record: Record) -> ApplicationObjects:
        plain = super()._objects(stream, record)
        return ApplicationObjects(
            plain.stream,
            plain.epoch,
            plain.record,
            plain.placing,
            operator=self.operator,
            spark_version=self.spark_version,
        )
