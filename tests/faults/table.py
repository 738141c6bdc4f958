"""Writes `docs/faults.md`: what was tried of each fault, and what was seen."""

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from tests.faults.kinds import FAULTS, Fault
from tests.faults.real.catalog import REAL, RealFault
from tests.faults.real.running import Seen
from tests.faults.running import Tried

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
BEGIN, END = "<!-- written by `make faults` -->", "<!-- to here -->"
BEGIN_REAL, END_REAL = "<!-- written by `make faults-real` -->", "<!-- up to here -->"
_NOT_HELD = "**did not hold**"
_ROW = re.compile(r"^\| `([a-z-]+)` \|", re.MULTILINE)


def rows(text: str) -> list[str]:
    """Names of the faults that a page tells of."""
    return _ROW.findall(text)


def table(found: Mapping[str, Tried], on: date) -> str:
    """The table, with its sums below."""
    lines = [
        "| fault | what is done | schedules tried | held | times it was met | seconds to recover: "
        "half, 95 % | one of them again |",
        "|---|---|---|---|---|---|---|",
        *(_row(FAULTS[name], each) for name, each in found.items()),
    ]
    schedules = sum(each.schedules for each in found.values())
    held = sum(each.schedules - len(each.broken) for each in found.values())
    two = sum(each.two_drivers for each in found.values())
    operations = sum(each.operations for each in found.values())
    lines += [
        "",
        f"Played on {on:%d %B %Y}: {schedules:,} schedules with {operations:,} operations. "
        f"{held:,} held. Two drivers on one checkpoint: in {two} of them.",
    ]
    broken = [(name, seed, why) for name, t in found.items() for seed, why in t.broken.items()]
    if broken:
        lines += ["", "What did not hold:", ""]
        lines += [
            f"- `make fault NAME={name} SEED={seed}`: {_plain(why[0])}"
            for name, seed, why in broken[:20]
        ]
        if len(broken) > 20:
            lines.append(f"- and {len(broken) - 20} more")
    return "\n".join(lines)


def _plain(text: str) -> str:
    return text.replace("|", "/").replace("<", "(").replace(">", ")").replace("\n", " ")


def _row(fault: Fault, each: Tried) -> str:
    held = each.schedules - len(each.broken)
    seed = next(iter(each.broken), 1)
    times = f"{each.median:.0f}, {each.quantile(0.95):.0f}" if each.recovered else "none had died"
    return (
        f"| `{fault.name}` | {fault.in_words} | {each.schedules:,} | {held:,} | {each.calls:,} | "
        f"{times} | `make fault NAME={fault.name} SEED={seed}` |"
    )


def write(found: Mapping[str, Tried], on: date, page: Path = PAGE) -> None:
    """Put the table into its page, the text around which stays."""
    _put(page, BEGIN, table(found, on), END)


def real_table(found: Mapping[str, Seen], on: date, before: str) -> str:
    """The table of the faults of real parts. One that was never played has no row.

    Args:
        before: the table as it was: the rows of faults that were not played now stay.
    """
    rows = {name: line for line in before.splitlines() for name in _ROW.findall(line)}
    rows |= {name: _real_row(REAL[name], seen, on) for name, seen in found.items()}
    lines = [rows[name] for name in REAL if name in rows]
    held = sum(1 for line in lines if _NOT_HELD not in line)
    return "\n".join(
        [
            "| fault | what is done | what must hold | what was seen | seconds to recover | last "
            "played | one of them again |",
            "|---|---|---|---|---|---|---|",
            *lines,
            "",
            f"{len(lines)} faults, of which {held} held.",
        ]
    )


def _real_row(fault: RealFault, seen: Seen, on: date) -> str:
    took = "" if seen.seconds is None else f"{seen.seconds:.0f}"
    said = seen.text if seen.held else f"{_NOT_HELD}: {seen.text}"
    return (
        f"| `{fault.name}` | {fault.in_words} | {fault.holds} | {_plain(said)} | {took} | "
        f"{on:%d.%m.%Y} | `make fault NAME={fault.name}` |"
    )


def write_real(found: Mapping[str, Seen], on: date, page: Path = PAGE) -> None:
    """Put that table into its page, the text around which stays."""
    before = page.read_text().partition(BEGIN_REAL)[2].partition(END_REAL)[0]
    _put(page, BEGIN_REAL, real_table(found, on, before), END_REAL)


def _put(page: Path, begin: str, content: str, end: str) -> None:
    before, _, rest = page.read_text().partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{begin}\n\n{content}\n\n{end}{after}")
