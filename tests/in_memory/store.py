"""What a cluster in memory remembers of streams, for as long as a test."""

import threading
from dataclasses import dataclass

from dagster_sparkscale.clusters.store import Claim, Conflict, Process, Record


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
            self.records[stream] = record

    def claim(self, checkpoint: str) -> Claim | None:
        return self.claims.get(checkpoint)

    def swap_claim(self, claim: Claim) -> None:
        with self.swapping:
            before = self.claims.get(claim.checkpoint)
            if (before.revision if before else 0) != claim.revision - 1:
                raise Conflict(f"{claim.checkpoint} has changed")
            self.claims[claim.checkpoint] = claim

    def new_id(self) -> str:
        return "memory"

    def process(self) -> Process:
        return Process("memory")

    def has_ended(self, process: Process) -> bool:
        return False
