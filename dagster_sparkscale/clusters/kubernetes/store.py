"""What is remembered of streams, as ConfigMaps: one for each stream, one for each checkpoint.

    sparkscale.<stream>             the record
    sparkscale.checkpoint.<hash>    the claim

A new one is made by POST, which one of two who try at once is refused; another takes the place of
the one that was read by PUT with its resourceVersion, which is Kubernetes' compare-and-swap. There
is no Lease object of Kubernetes: the lease stands in the record, so that who has lost it can't
change the record any more; an object beside it could not be swapped together with it.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from pydantic import TypeAdapter

from dagster_sparkscale import typed_json
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host import places
from dagster_sparkscale.clusters.host.folders import HISTORY, newer_or
from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.clusters.kubernetes.api import Api, Object, Refused
from dagster_sparkscale.clusters.records.store import Claim, Conflict, Process, Record

T = TypeVar("T", Record, Claim)

MAPS = "configmaps"
_RECORD, _CLAIM = TypeAdapter(Record), TypeAdapter(Claim)
_CONTENT = "content"


@dataclass(frozen=True)
class _Written:
    """A record as it was written from here last."""

    revision: int
    epoch: int
    version: str
    """Kubernetes' own version of the ConfigMap, which the next one that is written names."""


class MapStore:
    """Keeps nothing itself, but which version of a record it has written last: who renews a lease
    need not ask for that each time.

    Args:
        listed: all records' ConfigMaps by name, as they were a moment ago, to look at many without
            a call for each; None: each is asked for.
    """

    def __init__(self, api: Api, listed: Mapping[str, Object] | None = None) -> None:
        self._api = api
        self._listed = listed
        self._written: dict[str, _Written] = {}

    def streams(self) -> list[str]:
        found = records_of(self._api) if self._listed is None else self._listed
        return sorted(_annotated(each) for each in found.values())

    def read(self, stream: str) -> Record | None:
        name = names.of_record(stream)
        listed = self._listed
        found = self._api.get(MAPS, name) if listed is None else listed.get(name)
        return None if found is None else self._record(stream, found)

    def swap(self, stream: str, record: Record) -> None:
        kept = replace(record, history=record.history[-HISTORY:])
        labels = {names.KEEPS: "record", names.STREAM: names.short_name(stream)}
        manifest = self._manifest(names.of_record(stream), labels, stream, asdict(kept))
        before = self._written.pop(stream, None)
        if before is None or before.revision != record.revision - 1:
            before = self._stands(stream)
        follows = before is not None and record.revision == before.revision + 1
        if before is not None and follows and record.epoch < before.epoch:
            raise ClusterError(
                f"{self._name(manifest)}: epoch {record.epoch} would go back behind {before.epoch}"
            )
        number = before.revision if before else 0
        version = before.version if before else None
        version = self._swap(manifest, record.revision, version, number)
        self._written[stream] = _Written(record.revision, record.epoch, version)

    def _stands(self, stream: str) -> _Written | None:
        """The record as it stands; None: there is none."""
        if (found := self._api.get(MAPS, names.of_record(stream))) is None:
            return None
        record = self._record(stream, found)
        return _Written(record.revision, record.epoch, _version(found))

    def claim(self, checkpoint: str) -> Claim | None:
        found = self._api.get(MAPS, names.of_claim(checkpoint))
        return None if found is None else self._claim(checkpoint, found)

    def swap_claim(self, claim: Claim) -> None:
        name = names.of_claim(claim.checkpoint)
        manifest = self._manifest(name, {names.KEEPS: "claim"}, claim.stream, asdict(claim))
        found = self._api.get(MAPS, name)
        before = self._claim(claim.checkpoint, found).revision if found is not None else 0
        version = _version(found) if found is not None else None
        self._swap(manifest, claim.revision, version, before)

    def new_id(self) -> str:
        return secrets.token_hex(8)

    def process(self) -> Process:
        return places.this_process()

    def has_ended(self, process: Process) -> bool:
        return places.has_ended(process)

    def _swap(self, manifest: Object, revision: int, version: str | None, before: int) -> str:
        """Put it in the place of the one of that version, or of none. Returns its own version."""
        if before != revision - 1:
            raise Conflict(f"{self._name(manifest)} has been changed by somebody else meanwhile")
        try:
            if version is None:
                return _version(self._api.create(MAPS, manifest))
            manifest["metadata"]["resourceVersion"] = version
            return _version(self._api.replace(MAPS, manifest["metadata"]["name"], manifest))
        except Refused as refusal:
            # Gone, too: somebody has deleted it in between.
            if refusal.code == 409 or (version is not None and refusal.code == 404):
                raise Conflict(
                    f"{self._name(manifest)} has been changed by somebody else meanwhile"
                ) from None
            raise

    def _manifest(
        self, name: str, labels: Mapping[str, str], stream: str, content: Mapping[str, Any]
    ) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": self._api.namespace,
                "labels": {names.MANAGED: names.MANAGER, **labels},
                "annotations": {names.NAME: stream},
            },
            "data": {_CONTENT: json.dumps(content)},
        }

    def _record(self, stream: str, found: Object) -> Record:
        label = f"{names.STREAM}={names.short_name(stream)},spark-role=driver"
        certain = f"no driver of {stream!r} runs any more (kubectl get pods -l {label})"
        if (other := _annotated(found)) != stream:
            raise ClusterError(
                f"{self._name(found)} is of the stream {other!r}, not of {stream!r}: rename one"
            )
        return self._read(_RECORD, found, certain)

    def _claim(self, checkpoint: str, found: Object) -> Claim:
        return self._read(_CLAIM, found, f"no driver works on the checkpoint {checkpoint}")

    def _read(self, kind: TypeAdapter[T], found: Object, certain: str) -> T:
        text = (found.get("data") or {}).get(_CONTENT, "")
        try:
            return typed_json.read(kind, text)
        except typed_json.Malformed as error:
            repair = f"restore it from a copy, or, when you are certain that {certain}, delete it"
            raise ClusterError(f"{self._name(found)}: {error}; {newer_or(repair)}") from None

    def _name(self, found: Object) -> str:
        return f"ConfigMap {self._api.namespace}/{found['metadata']['name']}"


def records_of(api: Api) -> dict[str, Object]:
    """All records' ConfigMaps, by name."""
    found = api.listed(api.path(MAPS), _part_of, labelSelector=f"{names.KEEPS}=record")
    return {each["metadata"]["name"]: each for each in found}


def _part_of(found: Object) -> Object:
    """What is read of a record's ConfigMap."""
    metadata = found["metadata"]
    kept = {key: metadata[key] for key in ("name", "annotations") if key in metadata}
    return {"metadata": kept, "data": found.get("data")}


def _version(found: Object) -> str:
    return str(found["metadata"]["resourceVersion"])


def _annotated(found: Object) -> str:
    """The stream that an object is of; its own name, where somebody has taken the annotation."""
    metadata = found["metadata"]
    return str((metadata.get("annotations") or {}).get(names.NAME) or metadata["name"])
