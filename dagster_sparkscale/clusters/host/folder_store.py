"""A store in a folder of this host: a folder for each stream, and one for each checkpoint."""

import hashlib
import json
import os
import secrets
from dataclasses import asdict, replace
from pathlib import Path

from pydantic import TypeAdapter

from dagster_sparkscale import typed_json
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host import places
from dagster_sparkscale.clusters.host.folders import (
    StreamFolder,
    explained,
    is_name,
    make_private,
    newer_or,
)
from dagster_sparkscale.clusters.host.registers import Register
from dagster_sparkscale.clusters.records.store import Claim, Process, Record

_CLAIM = TypeAdapter(Claim)


class FolderStore:
    """What is remembered below `state_dir`. Keeps nothing itself."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir

    def folder(self, stream: str) -> StreamFolder:
        return StreamFolder(self.state_dir, stream)

    def streams(self) -> list[str]:
        try:
            names = os.listdir(self.state_dir / "streams")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ClusterError(
                f"{self.state_dir / 'streams'}: can't read it: {error.strerror}"
            ) from error
        return sorted(filter(is_name, names))

    def read(self, stream: str) -> Record | None:
        return self.folder(stream).read()

    def swap(self, stream: str, record: Record) -> None:
        folder = self.folder(stream)
        folder.create()
        folder.swap(record)

    def claim(self, checkpoint: str) -> Claim | None:
        register = self._claims(checkpoint)
        with explained("read", register.folder):
            found = register.read()
        if found is None:
            return None
        path, text = found
        try:
            return replace(typed_json.read(_CLAIM, text), revision=int(path.name))
        except typed_json.Malformed as error:
            repair = (
                "restore the file from a copy, or, when you are certain that no driver works on "
                f"the checkpoint {checkpoint}, delete the folder {register.folder}"
            )
            raise ClusterError(f"{path}: {error}; {newer_or(repair)}") from None

    def swap_claim(self, claim: Claim) -> None:
        register = self._claims(claim.checkpoint)
        with explained("write", register.folder):
            for folder in (self.state_dir, register.folder.parent):
                make_private(folder)
            register.swap(claim.revision, json.dumps(asdict(claim)).encode())

    def new_id(self) -> str:
        return secrets.token_hex(8)

    def process(self) -> Process:
        return places.this_process()

    def has_ended(self, process: Process) -> bool:
        return places.has_ended(process)

    def _claims(self, checkpoint: str) -> Register:
        name = hashlib.sha256(checkpoint.encode()).hexdigest()[:32]
        return Register(self.state_dir / "checkpoints" / name)
