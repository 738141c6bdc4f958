"""What Dagster has stored of the health checks, as one tick reads it."""

from collections.abc import Iterable, Mapping

import dagster as dg
from dagster import DagsterInstance

from dagster_sparkscale.private_dagster import stored_outcomes

Outcome = bool | None
"""Whether a check passed when it was stored last; None: nothing is stored."""


class Outcomes:
    """The stored outcomes of checks. A query for those of twenty streams takes little longer than
    one for those of one, so they are read ahead where it is known that they will be asked for."""

    def __init__(self, instance: DagsterInstance) -> None:
        self._instance = instance
        self._ahead: dict[dg.AssetCheckKey, Outcome] = {}

    def read_ahead(self, keys: Iterable[dg.AssetCheckKey]) -> None:
        """Read the outcomes of checks that will be asked for.

        Raises:
            Exception: Dagster's storage can't be read.
        """
        self._ahead |= self._read(keys)

    def of(self, keys: Iterable[dg.AssetCheckKey]) -> dict[dg.AssetCheckKey, Outcome]:
        """The outcomes of checks; none where Dagster can't say.

        Raises:
            Exception: Dagster's storage can't be read.
        """
        keys = [*keys]
        known = {key: self._ahead[key] for key in keys if key in self._ahead}
        left = [key for key in keys if key not in known]
        return {**known, **self._read(left)} if left else known

    def _read(self, keys: Iterable[dg.AssetCheckKey]) -> Mapping[dg.AssetCheckKey, Outcome]:
        return stored_outcomes(self._instance, keys) or {}
