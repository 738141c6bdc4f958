"""A folder of definitions, as Dagster loads it, with documents of the component in it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import dedent, indent
from typing import Any

import dagster as dg
import pytest
from dagster.components.resolved.errors import ResolutionException
from dagster.components.testing import create_defs_folder_sandbox

from dagster_sparkscale.components import SparkStreams

TYPE = "dagster_sparkscale.SparkStreams"
CLUSTER = "cluster: {type: LocalCluster}"
STREAM = """
streams:
  - type: StructuredStream
    name: clicks
    program: jobs/clicks.py
    batch_interval: 10s
"""


def document(attributes: str, type_name: str = TYPE, rest: str = "") -> str:
    """A `defs.yaml` whose attributes begin in line 3."""
    return f"type: {type_name}\nattributes:\n{indent(dedent(attributes).strip(), '  ')}\n{rest}"


@contextmanager
def loaded(text: str, **files: str) -> Iterator[tuple[Any, dg.Definitions]]:
    """The component and the definitions of a `defs.yaml`, with Python files of these names
    beside it."""
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(component_cls=SparkStreams, defs_path="ingest")
        for name, content in files.items():
            (path / f"{name}.py").write_text(dedent(content))
        (path / "defs.yaml").write_text(text)
        with sandbox.load_component_and_build_defs(defs_path=path) as (component, defs):
            yield component, defs


def streams_of(text: str, **files: str) -> list[Any]:
    with loaded(text, **files) as (component, _):
        [one] = component.components if hasattr(component, "components") else [component]
        return list(one.streams)


def errors(text: str, **files: str) -> list[str]:
    """All that is said of a `defs.yaml` which is refused: by Dagster, and by what it asks."""
    with pytest.raises(Exception) as raised, loaded(text, **files):
        pass
    found: list[str] = []
    error: BaseException | None = raised.value
    while error is not None:
        found.append(f"{type(error).__name__}: {error}")
        error = error.__cause__
    return found


def refusal(text: str) -> list[str]:
    """What is said of attributes that can't be resolved, without the folder they are in."""
    name = f"{ResolutionException.__name__}: "
    [said] = [each.removeprefix(name) for each in errors(text) if each.startswith(name)]
    return [re.sub(r"^/.*/defs\.yaml", "defs.yaml", line) for line in said.splitlines()]
