"""The rows of a fleet as a table in a terminal. Pure.

Where a terminal is too narrow for all columns, what says how a stream does keeps its place: HEALTH,
R and BEHIND are whole, the other columns go, names are shortened in the middle, as they often
differ at their ends, and what is up stands below each row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dagster_sparkscale.cli.words import in_a_terminal
from dagster_sparkscale.quantities import DASH
from dagster_sparkscale.watch.fleet import rows, text, verdict
from dagster_sparkscale.watch.fleet.behind import in_a_cell
from dagster_sparkscale.watch.fleet.rows import Row

_GAP = 2
_NOTE = 30
"""Columns that what is up needs beside the others."""
_NAME = 16
"""Columns of a name, for which other columns go; where that does not help it has `_LEAST`."""
_LEAST = 6
_GOING = ("RESTARTS", "LIMIT", "DECISION", "EXECUTORS")
"""Columns that go where there is no room, the first ones first."""
_RIGHT = ("R", "BEHIND", "RESTARTS")


@dataclass(frozen=True)
class _Column:
    title: str
    cells: tuple[str, ...]

    @property
    def width(self) -> int:
        return max(map(cell_len, (self.title, *self.cells)))

    def padded(self, text: str) -> str:
        room = self.width - cell_len(text)
        return " " * room + text if self.title in _RIGHT else text + " " * room


def table(rows: Sequence[Row], width: int | None) -> RenderableType:
    """
    Args:
        width: columns of the terminal; None: there is none, and lines are as long as it takes.
    """
    columns = _columns(rows)
    if width is not None and _width(columns) + _GAP + _NOTE > width:
        return _narrow(rows, columns, width)
    wide = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for column in columns:
        wide.add_column(
            column.title, justify="right" if column.title in _RIGHT else "left", no_wrap=True
        )
    wide.add_column("WHAT IS UP")
    for number, row in enumerate(rows):
        cells = [column.cells[number] for column in columns]
        # Not as markup: a note may have brackets.
        wide.add_row(*map(Text, [*cells, _note(row)]), style=_style(row))
    return wide


def _columns(rows: Sequence[Row]) -> list[_Column]:
    of = {
        "STREAM": [row.stream for row in rows],
        "HEALTH": [verdict.lasting(row) for row in rows],
        "R": [DASH if row.ratio is None else f"{row.ratio:.2f}" for row in rows],
        "BEHIND": [in_a_cell(row) for row in rows],
        "LIMIT": [text.limit(row) or DASH for row in rows],
        "EXECUTORS": [text.executors(row) for row in rows],
        "DECISION": [row.decision for row in rows],
        "RESTARTS": [DASH if row.restarts is None else str(row.restarts) for row in rows],
    }
    if not any(map(text.limit, rows)):
        del of["LIMIT"]
    return [_Column(title, tuple(cells)) for title, cells in of.items()]


def _width(columns: Sequence[_Column]) -> int:
    return sum(column.width for column in columns) + _GAP * (len(columns) - 1)


def _narrow(rows: Sequence[Row], columns: list[_Column], width: int) -> Group:
    names, others = columns[0], columns[1:]

    def room() -> int:
        return width - _GAP - _width(others)

    for going in _GOING:
        if room() < min(_NAME, names.width):
            others = [column for column in others if column.title != going]
    most = max(_LEAST, room())
    short = _Column(names.title, tuple(_shortened(name, most) for name in names.cells))
    shown = [short, *others]
    gap = " " * _GAP
    lines: list[RenderableType] = [
        Text(gap.join(column.padded(column.title) for column in shown).rstrip(), style="bold")
    ]
    for number, row in enumerate(rows):
        line = gap.join(column.padded(column.cells[number]) for column in shown).rstrip()
        style = _style(row) or ""
        lines.append(Text(line, style=style, no_wrap=True, overflow="crop"))
        if note := _note(row):
            lines.append(Padding(Text(note, style=style), (0, 0, 0, 2 * _GAP)))
    return Group(*lines)


def _shortened(name: str, most: int) -> str:
    """A name in so many columns at most, without its middle."""
    if cell_len(name) <= most:
        return name
    end = (most - 1) // 2
    return f"{set_cell_size(name, most - 1 - end)}…{name[len(name) - end :]}"


def _note(row: Row) -> str:
    return in_a_terminal(row.note, row.stream)


def _style(row: Row) -> str | None:
    if not rows.in_trouble(row):
        return None
    return "red" if row.state in ("failed", "unknown") else "yellow"
