"""What a cluster in memory remembers of streams, for as long as a test."""

import secrets
import threading
from dataclasses import dataclass, replace

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host.folders import HISTORY
from dagster_sparkscale.clusters.records.store import Claim, Conflict, Process, Record


@dataclass
class MemoryStore:
    records: dict[str, Record]
    claims: dict[str, Claim]
    swapping: threading.Lock

    def streams(self) -> list[str]:
        return sorted(self.records)

    def read(self, stream: str) -> Record | None:
        return self.records.get(stream)

    def swap(self, stream: str, record: Record) -> None:
        with self.swapping:
            before = self.records.get(stream)
            if (before.revision if before else 0) != record.revision - 1:
                raise Conflict(f"{stream!r} has changed")
            if before is not None and record.epoch < before.epoch:
                raise ClusterError(f"epoch {record.epoch} would go back behind {before.epoch}")
            self.records[stream] = replace(record, history=record.history[-HISTORY:])

    def claim(self, checkpoint: str) -> Claim | None:
        return self.claims.get(checkpoint)

    def swap_claim(self, claim: Claim) -> None:
        with self.swapping:
            before = self.claims.get(claim.checkpoint)
            if (before.revision if before else 0) != claim.revision - 1:
                raise Conflict(f"{claim.checkpoint} has changed")
            self.claims[claim.checkpoint] = claim

    def new_id(self) -> str:
        return secrets.token_hex(8)

    def process(self) -> Process:
        return Process("memory")

    def has_ended(self, process: Process) -> bool:
        return False
