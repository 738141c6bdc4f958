"""The plan of a driver's lineage: its server and its names, and how they travel in texts. Pure.

The same texts go into a Spark setting and into what the record remembers of a driver: by them the
end of one that was killed is told under the same names.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from .datasets import Dataset

PREFIX = "lineage."
"""Begins the names of the texts among what is remembered of a declaration."""


@dataclass(frozen=True, slots=True)
class LineagePlan:
    """The server that lineage goes to, and the names that it has there."""

    url: str
    """The address that events are posted to."""
    namespace: str
    """The namespace of the job."""
    job: str
    """The job's name."""
    every: float = 600.0
    """Seconds between two RUNNING events."""
    api_key_env: str | None = None
    """The environment variable with the key of the server; None: none."""
    api_key_file: str | None = None
    """The file with that key; None: none."""
    inputs: tuple[Dataset, ...] = ()
    """Datasets that are declared, beside those that are found."""
    outputs: tuple[Dataset, ...] = ()
    version: str = ""
    """The release of this library, which the driver itself does not know; empty: not known. Not
    among the texts, as it is no part of the declaration."""

    def as_texts(self) -> dict[str, str]:
        """The fields as texts, by names that begin with `PREFIX`; without what is not set."""
        texts = {"url": self.url, "namespace": self.namespace, "job": self.job}
        texts |= {"every": f"{self.every:g}"}
        for name, text in (("api_key_env", self.api_key_env), ("api_key_file", self.api_key_file)):
            if text is not None:
                texts[name] = text
        for name, datasets in (("inputs", self.inputs), ("outputs", self.outputs)):
            if datasets:
                texts[name] = json.dumps(datasets)
        return {f"{PREFIX}{name}": text for name, text in texts.items()}


def plan_of(texts: Mapping[str, str]) -> LineagePlan | None:
    """The plan of which these are the texts, others beside them; None: there is none.

    Raises:
        ValueError: they are of no plan.
    """
    given = {
        name.removeprefix(PREFIX): text for name, text in texts.items() if name.startswith(PREFIX)
    }
    if "url" not in given:
        return None
    try:
        return LineagePlan(
            given["url"],
            given["namespace"],
            given["job"],
            float(given["every"]),
            given.get("api_key_env"),
            given.get("api_key_file"),
            _datasets(given.get("inputs", "[]")),
            _datasets(given.get("outputs", "[]")),
            given.get("version", ""),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"no plan of lineage: {error!r}") from None


def with_version(texts: Mapping[str, str], version: str) -> dict[str, str]:
    """The texts of a plan, with the release of this library."""
    return {**texts, f"{PREFIX}version": version}


def _datasets(text: str) -> tuple[Dataset, ...]:
    return tuple(Dataset(*each) for each in json.loads(text))
