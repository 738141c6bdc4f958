"""A measured figure, the table that is printed and the report that is written."""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

REPORT = Path(__file__).parent / "report.json"


@dataclass(frozen=True)
class Figure:
    name: str
    value: float
    unit: str
    goal: float
    better: Literal["lower", "higher"]
    detail: dict[str, Any]

    @property
    def met(self) -> bool:
        return self.value <= self.goal if self.better == "lower" else self.value >= self.goal


Benchmark = Callable[[], list[Figure]]


def paired_ratio(
    name: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    goal: float,
    detail: dict[str, Any] | None = None,
) -> Figure:
    """The median of ours / theirs, pair by pair: a machine whose speed drifts spoils no pair.

    Args:
        ours: seconds, one a repetition.
        theirs: seconds of the peer, measured in turn with `ours`.
    """
    ratios = [mine / peer for mine, peer in zip(ours, theirs, strict=True)]
    return Figure(
        name=name,
        value=round(statistics.median(ratios), 3),
        unit="ratio",
        goal=goal,
        better="lower",
        detail={
            "ratios": [round(ratio, 3) for ratio in ratios],
            "ours_seconds": [round(value, 4) for value in ours],
            "theirs_seconds": [round(value, 4) for value in theirs],
            **(detail or {}),
        },
    )


def write_report(figures: Sequence[Figure], path: Path = REPORT) -> None:
    """Put `figures` into the report; those of benchmarks that did not run this time stay."""
    known = {item["name"]: item for item in _read(path)}
    known |= {figure.name: {**asdict(figure), "met": figure.met} for figure in figures}
    path.write_text(json.dumps([known[name] for name in sorted(known)], indent=2) + "\n")


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    report: list[dict[str, Any]] = json.loads(path.read_text())
    return report


def table(figures: Sequence[Figure]) -> str:
    """The figures as a table for the terminal."""
    rows = [("figure", "value", "unit", "goal", "met")]
    for figure in figures:
        sign = "<=" if figure.better == "lower" else ">="
        rows.append(
            (
                figure.name,
                f"{figure.value:g}",
                figure.unit,
                f"{sign} {figure.goal:g}",
                "yes" if figure.met else "NO",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
