"""A stream that runs and is not declared any more, and how such streams are found."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dagster_sparkscale.clusters.base import ClusterManager, Driver, DriverState
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.remedy import Remedy, WithRemedy


@dataclass(frozen=True)
class Orphan:
    """A driver that runs, or may, for a stream that nobody declares."""

    driver: Driver
    asset: tuple[str, ...]
    ours: bool = True
    """False: who has started it is not known; another code location may declare it."""
    fault: str = ""
    """Why nothing can be told of it; empty: it runs, or may."""

    def __str__(self) -> str:
        return WithRemedy(f"{self.driver.stream}: ", self.why)

    @property
    def why(self) -> WithRemedy:
        """Why it is an orphan, and what to do."""
        driver = self.driver
        if self.fault:
            return WithRemedy(
                "not declared here, and it can't be told whether it runs: ", self.fault
            )
        runs = f"driver {driver.epoch} is {driver.state.value} ({driver.where})"
        if not self.ours:
            return WithRemedy(
                f"not declared here: {runs}, and who declares it is not known, as it was started "
                "by an older release, or without a code location; declare it, stop it where it is "
                "declared, or ",
                Remedy.STOP_WHOSEVER,
            )
        return WithRemedy(
            f"orphan: {runs}, and no stream of that name is declared any more; declare it again, "
            "or ",
            Remedy.STOP_ORPHAN,
        )


def find_orphans(
    cluster: ClusterManager, declared: Collection[str], owner: str
) -> Sequence[Orphan]:
    """The orphans of `owner`, and those that can't be told of: they may run.

    Raises:
        ClusterError: the store can't list its streams.
    """
    found: list[Orphan] = []
    cluster = cluster.snapshot()
    for name in cluster.store().streams():
        if name in declared:
            continue
        record: Record | None = None
        try:
            record = cluster.store().read(name)
            # Of an older release nobody knows whose it is.
            if record is None or record.owner not in ("", owner) or not record.epoch:
                continue
            driver = cluster.find(name)
        except Exception as error:  # that of another code location is told there, too
            epoch, at = (record.epoch, record.submitted_at) if record else (0, 0.0)
            unknown = Driver(name, epoch, DriverState.UNKNOWN, at)
            asset, ours = (record.asset, bool(record.owner)) if record else ((), False)
            found.append(Orphan(unknown, asset or (name,), ours, str(error) or repr(error)))
            continue
        if driver is not None and driver.state.alive:
            found.append(Orphan(driver, record.asset or (name,), ours=bool(record.owner)))
    return found
