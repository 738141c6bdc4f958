"""The way of a start through Kubernetes, and what keeps one that froze from a second driver.

    1  the record has the next epoch, N (`starts.begin`), and nothing of N is there
       the Secrets of epochs before N - 1 are deleted: starts that were refused have left them
    2  POST Secret N
    3  GET the record: this operation still has the lease, or the Secret is deleted again
    4  POST ConfigMap, Service, Pod N, owned by the Secret
    5  that of N - 1 is deleted, too, and the garbage collector takes what they own

Whoever goes on from there, to stop the driver or to start another, takes the lease, and finds no
Pod N. Then he deletes Secret N, looks for Pod N once more, and deletes that, too. Wherever the
submitter froze, what he does when he wakes up starts nothing:

    before 2        he makes the Secret, and finds in 3 that the lease is another's
    between 2 and 3 the same
    between 3 and 4 his Secret was there when he had the lease. So it was there before another took
                    that, and was deleted by him. Pod N can't be started without it, and is owned
                    by what is gone: it is deleted before long
    after 4         Pod N is found, and counts as what it is. So it does where it was not there at
                    the first look: who finds it then goes no further

He makes each object once, and never again. A pod's name is of its epoch, so there is one Pod N.
The Secret of a driver that runs is never deleted: only where there is no pod, or when it has ended,
by the next start.

Where an operator makes the pod, 4 makes SparkApplication N instead, owned by the Secret likewise.
Then Pod N comes at any time after that, once or more than once, and may be looked for in vain just
before. Two things make up for it. Each process that begins as driver N makes ConfigMap N-begun, or
ends itself where that is there (`driver/begin/once.py`). And whoever ends driver N, or starts
another after it, makes it himself before he looks for Pod N for the last time:

    Pod N was made before that look     it is found, and counts as what it is
    it is made later                    what begins in it finds N-begun, or no Secret, and ends
    a second one, while N is the newest the same; its end is noticed, and why

The second case is also that of an operator which was down and is back, and of one that was held up
while its application was deleted.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dagster_sparkscale.clusters.errors import ClusterError, LeaseLost
from dagster_sparkscale.clusters.kubernetes import names, notes
from dagster_sparkscale.clusters.kubernetes.api import Api, Refused
from dagster_sparkscale.clusters.kubernetes.manifests import Manifest, Objects
from dagster_sparkscale.clusters.records.store import Record, Store

STRICT = {"fieldValidation": "Strict"}
"""Else what a pod template has that pods have not, such as a typing error, is passed over."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parts:
    """What a start is made of, besides its names."""

    secrets: Mapping[str, str]
    variables: Mapping[str, str]
    texts: Mapping[str, bytes]
    parcel: bytes
    command: Sequence[str]
    settings: Mapping[str, str]


def launch(api: Api, store: Store, objects: Objects, record: Record, parts: Parts) -> None:
    """Start the driver, which is remembered already.

    Raises:
        LeaseLost: another operation has the stream by now; nothing of it runs.
        ClusterError: the driver could not be started; nothing of it runs.
    """
    # They count in a quota that may be what refuses this one, too.
    _prune(api, objects, objects.epoch - 1)
    root = _make_root(api, objects, parts)
    try:
        _refuse_unless_ours(store, objects, record)
        api.create("configmaps", objects.config_map(root, parts.texts, parts.parcel))
        api.create("services", objects.service(root))
        driver = objects.driver(root, parts.command, list(parts.variables), parts.settings)
        api.create(objects.kind, driver, **STRICT)
    except Refused as refusal:
        note = notes.Note(time.time(), f"was never launched: {refusal}", took=False)
        notes.leave(api, objects.name, note)
        raise ClusterError(f"{objects.stream!r} could not be launched: {refusal}") from None
    except Exception:
        # It may have been made all the same: without the Secret it does not start.
        _take_back(api, objects, root)
        raise
    _prune(api, objects, objects.epoch)


def _make_root(api: Api, objects: Objects, parts: Parts) -> str:
    try:
        made = api.create("secrets", objects.secret(parts.secrets, parts.variables))
    except Refused as refusal:
        if refusal.reason != "AlreadyExists":  # a quota's refusal may be a 409, too
            raise ClusterError(f"{objects.stream!r} could not be launched: {refusal}") from None
        place = f"{api.namespace}/{objects.name}"
        raise ClusterError(
            f"there is a Secret {place} already, of a stream {objects.stream!r} that is not the "
            "one remembered: when you are certain that no driver of it runs, delete it (kubectl "
            f"delete secret -n {api.namespace} {objects.name})"
        ) from None
    return str(made["metadata"]["uid"])


def _refuse_unless_ours(store: Store, objects: Objects, record: Record) -> None:
    now = store.read(objects.stream)
    mine = record.lease.number if record.lease else None
    held = now.lease.number if now and now.lease else None
    if now is None or (now.id, now.epoch, held) != (record.id, record.epoch, mine):
        raise LeaseLost(
            f"another operation has taken {objects.stream!r} over while it was launched: nothing "
            "was started, look at the stream and try again"
        )


def _take_back(api: Api, objects: Objects, root: str) -> None:
    for kind, uid in (("secrets", root), (objects.kind, None)):
        try:
            api.delete(kind, objects.name, uid)
        except ClusterError as error:
            _log.warning("%s %s can't be deleted: %s", kind, objects.name, error)


def _prune(api: Api, objects: Objects, before: int) -> None:
    """Delete what starts of an epoch before that have left. Of a later one, made while this one was
    held up, nothing is touched. What can't be deleted now is by the next start."""
    try:
        label = f"{names.STREAM}={names.short_name(objects.stream)},{names.EPOCH}"
        for secret in api.find("secrets", labelSelector=label):
            if _epoch(secret) < before:
                metadata = secret["metadata"]
                api.delete("secrets", metadata["name"], metadata["uid"])
    except ClusterError as error:
        _log.warning("what older drivers of %r have left stays: %s", objects.stream, error)


def _epoch(found: Manifest) -> int:
    text = str(found["metadata"]["labels"][names.EPOCH])
    return int(text) if text.isdecimal() else 0
