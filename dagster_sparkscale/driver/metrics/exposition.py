"""Metrics as Prometheus reads them: its text format, version 0.0.4. Pure.

Written by what https://prometheus.io/docs/instrumenting/exposition_formats says of that format.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Metric:
    """One metric: its name, and what a person needs to know to read it."""

    name: str
    kind: str
    """`gauge`, `counter` or `histogram`."""
    labels: tuple[str, ...]
    """The names of its labels. Each label has values that are declared, or few: a label without a
    bound costs the server of metrics a time series for each value, for ever."""
    help: str


@dataclass(frozen=True)
class Sample:
    """One value of a metric."""

    metric: Metric
    labels: Mapping[str, str]
    value: float
    suffix: str = ""
    """The end of its name; only for samples of a histogram, whose buckets have the label `le`."""


def sample(metric: Metric, value: float | None, **labels: str) -> tuple[Sample, ...]:
    """The sample of a value; none where it was not measured, for that is no zero."""
    return () if value is None else (Sample(metric, labels, float(value)),)


def exposition(samples: Iterable[Sample]) -> str:
    """The text of these samples, by metric; a metric without a sample is left out."""
    by_metric: dict[Metric, list[Sample]] = {}
    for each in samples:
        by_metric.setdefault(each.metric, []).append(each)
    lines = []
    for metric, found in by_metric.items():
        lines.append(f"# HELP {metric.name} {_escaped(metric.help)}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        lines += map(_line, found)
    return "".join(f"{line}\n" for line in lines)


def _line(one: Sample) -> str:
    pairs = ",".join(f'{label}="{_quoted(value)}"' for label, value in one.labels.items())
    return f"{one.metric.name}{one.suffix}{{{pairs}}} {one.value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(value: str) -> str:
    # What is no character, as half of a pair of UTF-16, has no UTF-8.
    plain = value.encode("utf-8", "replace").decode()
    return _escaped(plain).replace('"', '\\"')
